//! Random patterns of `matches`, over the whole syntax that a policy may use, and texts to match them against.
//!
//! Both consist of the same few characters: ordinary ones, and those that pattern engines treat specially (line ends, NUL,
//! letters with a third case outside ASCII, spaces and letters outside ASCII). So many pairs match.

use super::Generator;

/// Parts of texts. An engine may search for parts of several characters before it tries a pattern.
const PIECES: [&str; 36] = [
    "a",
    "a",
    "a",
    "b",
    "b",
    "ab",
    "ab",
    "abc",
    "ba",
    "c",
    "A",
    "AB",
    "k",
    "s",
    "0",
    "7",
    "_",
    "-",
    ".",
    "\\",
    " ",
    "\n",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\u{b}",
    "\u{0}",
    "\u{7f}",
    "é",
    "É",
    "\u{a0}",
    "\u{2028}",
    "日",
    "😀",
    // The Kelvin sign and the long s, which match `k` and `s` regardless of case.
    "\u{212a}\u{17f}",
];

/// Literals in pattern syntax; those in ASCII come first.
const LITERALS: [&str; 36] = [
    "a",
    "a",
    "a",
    "b",
    "b",
    "ab",
    "abc",
    "ba",
    "c",
    "A",
    "k",
    "s",
    "0",
    "_",
    "-",
    " ",
    "\\.",
    "\\-",
    "\\\\",
    "\\|",
    "\\n",
    "\\r",
    "\\t",
    "\\x00",
    "\\x61",
    "\\x{62}",
    "\\u0041",
    "\\v",
    "\n",
    "é",
    "\\u00e9",
    "É",
    "日",
    "\\x{1F600}",
    "😀",
    "\u{17f}",
];

/// Number of [`LITERALS`] in ASCII: the others are rejected in case-insensitive patterns.
const ASCII_LITERALS: usize = 29;

/// Members of a character class in ASCII.
const MEMBERS: [&str; 30] = [
    "a",
    "b",
    "a-c",
    "A-Z",
    "0-9",
    "\\x00-\\x1f",
    " -~",
    "Z-a",
    "_",
    "\\-",
    "\\]",
    "\\[",
    "\\^",
    "\\n",
    "\\r",
    "\\t",
    "\\\\",
    ".",
    "$",
    "|",
    "\\d",
    "\\w",
    "\\s",
    "j-l",
    "[:alpha:]",
    "[:^digit:]",
    "[:lower:]",
    "[:space:]",
    "k",
    "s",
];

/// Members of a character class outside ASCII.
const WIDE_MEMBERS: [&str; 8] =
    ["é", "à-ü", "日", "\\x{80}-\\x{10FFFF}", "a-é", "\\u2028", "😀-😂", "\u{212a}"];

const POSIX: [&str; 13] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

const FLAGS: [&str; 13] = ["i", "m", "s", "im", "is", "ms", "ims", "-i", "-m", "-s", "-ims", "i-s", "m-is"];

const REPETITIONS: [&str; 14] =
    ["*", "+", "?", "*", "+", "?", "{0}", "{1}", "{2}", "{0,1}", "{0,2}", "{1,}", "{0,}", "{2,3}"];

impl Generator {
    /// Generates a pattern. Nearly all patterns are accepted, and the checker decides.
    pub fn random_pattern(&mut self) -> String {
        let depth = 1 + self.below(3);
        let mut folded = false;
        let text = self.alternatives_of_pattern(depth, &mut folded);
        let (before, after) = (self.chance(15), self.chance(15));
        format!("{}{text}{}", if before { "^" } else { "" }, if after { "$" } else { "" })
    }

    /// Generates a text to match against: a few characters, all of them UTF-8.
    pub fn pattern_subject(&mut self) -> String {
        (0..self.below(7)).map(|_| self.pick(&PIECES, "a")).collect()
    }

    /// Generates alternatives. `folded`: whether the pattern is case-insensitive here; flags change this up to the end of the
    /// group.
    fn alternatives_of_pattern(&mut self, depth: u32, folded: &mut bool) -> String {
        let branches = if self.chance(30) { 2 + self.below(2) } else { 1 };
        let branches: Vec<String> = (0..branches)
            .map(|_| if self.chance(4) { String::new() } else { self.sequence_of_pattern(depth, folded) })
            .collect();
        branches.join("|")
    }

    fn sequence_of_pattern(&mut self, depth: u32, folded: &mut bool) -> String {
        let parts = [1, 1, 2, 2, 3];
        (0..self.pick(&parts, 1)).map(|_| self.part_of_pattern(depth, folded)).collect()
    }

    fn part_of_pattern(&mut self, depth: u32, folded: &mut bool) -> String {
        if self.chance(7) {
            let flags = self.pick(&FLAGS, "i");
            switch(flags, folded);
            return format!("(?{flags})");
        }
        if self.chance(12) {
            let assertion = self.pick(&["^", "$", "^", "$", "\\A", "\\z", "\\b", "\\b"], "^");
            // Sometimes a repetition of an assertion only.
            return if self.chance(10) { format!("(?:{assertion})*") } else { assertion.to_owned() };
        }
        let atom = match self.below(20) {
            0..5 if depth > 0 => self.group_of_pattern(depth - 1, *folded),
            0..11 => self.literal_of_pattern(*folded),
            11..14 => ".".to_owned(),
            14..16 => self.pick(&["\\d", "\\w", "\\s", "\\D", "\\W", "\\S"], "\\w").to_owned(),
            _ => self.class_of_pattern(*folded),
        };
        if !self.chance(40) {
            return atom;
        }
        let (repetition, lazy) = (self.pick(&REPETITIONS, "*"), self.chance(25));
        format!("{atom}{repetition}{}", if lazy { "?" } else { "" })
    }

    fn literal_of_pattern(&mut self, folded: bool) -> String {
        let choices = if folded { LITERALS.get(..ASCII_LITERALS).unwrap_or_default() } else { &LITERALS };
        self.pick(choices, "a").to_owned()
    }

    fn group_of_pattern(&mut self, depth: u32, folded: bool) -> String {
        let mut inside = folded;
        let open = match self.below(6) {
            0..2 => "(".to_owned(),
            2..4 => "(?:".to_owned(),
            4 => {
                self.variables += 1;
                format!("(?P<g{}>", self.variables)
            }
            _ => {
                let flags = self.pick(&FLAGS, "i");
                switch(flags, &mut inside);
                format!("(?{flags}:")
            }
        };
        format!("{open}{})", self.alternatives_of_pattern(depth, &mut inside))
    }

    fn class_of_pattern(&mut self, folded: bool) -> String {
        if self.chance(25) {
            return format!("[[:{}:]]", self.pick(&POSIX, "alpha"));
        }
        let negation = if self.chance(35) { "^" } else { "" };
        let mut members = String::new();
        // `]` is a literal only in this position.
        if self.chance(5) {
            members.push(']');
        }
        for _ in 0..=self.below(3) {
            let wide = !folded && self.chance(20);
            members.push_str(if wide { self.pick(&WIDE_MEMBERS, "é") } else { self.pick(&MEMBERS, "a") });
        }
        if self.chance(5) {
            members.push('-');
        }
        format!("[{negation}{members}]")
    }
}

/// Applies flags to the rest of a group.
fn switch(flags: &str, folded: &mut bool) {
    if let Some(at) = flags.find('i') {
        *folded = flags.find('-').is_none_or(|negation| at < negation);
    }
}
