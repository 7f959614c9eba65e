//! Hostile text: every text sent as a policy is processed within a second, without an abort and with little memory.
//!
//! The texts are checked in a separate process, so that an abort can be attributed to the text that caused it. They
//! are generated from a seed that is printed; `TRACEWARDEN_TEST_SEED` sets another one. Accepted texts are linted,
//! lowered for two callers and evaluated on two spans, each within a second. Times are CPU times, so that a busy
//! machine has no effect.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use crate::support::{caller, model};
use tracewarden_model::{AttributeValue, Caller};
use tracewarden_policy::{FieldValue, check, explain, role_warnings};
use tracewarden_testkit::repetitions::{self, Repetitions};

/// Number of texts generated from one seed.
const GENERATED: usize = 10_000;
const MAX_SECONDS: f64 = 1.0;
const MAX_MEMORY_BYTES: u64 = 100 * 1024 * 1024;
/// Tells a process of this test that it is the worker.
const VARIABLE: &str = "TRACEWARDEN_TEST_TEXTS";
const WORKER: &str = "HOSTILE_ANSWERING";
const SEED: &str = "TRACEWARDEN_TEST_SEED";

/// Number of texts; without `cargo xtask verify`, one in eight texts of a seed.
const TEXTS: Repetitions = Repetitions { test: GENERATED as u64 / 8, verify: GENERATED as u64 };

#[test]
fn hostile_text_is_answered() {
    let seed = repetitions::seed(20_250_601);
    if std::env::var_os(WORKER).is_some() {
        return check_all(seed);
    }
    let wanted = TEXTS.get(VARIABLE);
    for seed in (seed..).take(wanted.div_ceil(GENERATED)) {
        println!("seed {seed}");
        texts_of_a_seed_are_answered(seed);
    }
}

/// Returns the texts of a seed, or some of each kind.
fn selected_texts(seed: u64) -> Vec<String> {
    texts(seed).into_iter().step_by(GENERATED.div_ceil(TEXTS.get(VARIABLE)).max(1)).collect()
}

fn texts_of_a_seed_are_answered(seed: u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::hostile_text_is_answered", "--nocapture", "--test-threads", "1"])
        .env(WORKER, "1")
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut at = None;
    let mut summary = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.strip_prefix("at ") {
            at = number.parse::<usize>().ok();
        } else if line.starts_with("answered ") {
            summary = Some(line);
        }
    }
    let status = child.wait().unwrap();
    let texts = selected_texts(seed);
    let last = at.and_then(|at| texts.get(at)).map(|text| text.chars().take(300).collect::<String>());
    assert!(status.success(), "{status} at text {at:?} of seed {seed}: {last:?}");
    let summary = summary.expect("the process says what it did");
    println!("{summary}");
    assert!(summary.starts_with(&format!("answered {} ", texts.len())), "{summary}");
}

/// Processes the texts on a thread with the default stack size.
fn check_all(seed: u64) {
    let worker = std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        let (mut accepted, mut slowest, mut slowest_at) = (0, 0.0_f64, 0);
        let before = processor_seconds();
        let texts = selected_texts(seed);
        for (at, text) in texts.iter().enumerate() {
            writeln!(out, "\nat {at}").unwrap();
            let mut took = 0.0_f64;
            accepted += usize::from(check_text(text, at, &mut took));
            assert!(took < MAX_SECONDS, "{took} s at text {at}: {text:.300}");
            if took > slowest {
                (slowest, slowest_at) = (took, at);
            }
        }
        let memory = peak_memory_bytes();
        assert!(memory < MAX_MEMORY_BYTES, "{memory} bytes");
        writeln!(
            out,
            "\nanswered {} texts, {accepted} accepted, slowest {slowest:.2} s (text {slowest_at}), \
             {:.1} s together, {} MiB",
            texts.len(),
            processor_seconds() - before,
            memory / 1024 / 1024
        )
        .unwrap();
        // Few generated texts are policies, but some must be, so that later steps are tested as well.
        assert!(accepted > texts.len() / 50, "{accepted}");
    });
    worker.join().unwrap();
}

/// Runs all operations on a text; returns whether it was accepted. `longest` is updated with the longest time taken.
fn check_text(text: &str, at: usize, longest: &mut f64) -> bool {
    let mut since = processor_seconds();
    let mut measure = || {
        let now = processor_seconds();
        *longest = longest.max(now - since);
        since = now;
    };
    let model = model();
    let checked = check(text, &model);
    measure();
    let checked = match checked {
        Ok(checked) => checked,
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors.iter().take(20) {
                assert!(!error.message.is_empty() && error.render(text, Some("policy")).contains(error.code));
            }
            measure();
            return false;
        }
    };
    role_warnings(&[("one", &checked), ("other", &checked)]);
    measure();
    // Long lists multiply, and each rejection then takes the maximum time, so use them only sometimes.
    let length = if at.is_multiple_of(50) { 60 } else { 4 };
    let list = (0..length).map(|number| format!("value {number}")).collect();
    let with_lists = Caller {
        attributes: ["team", "x"]
            .map(|name| (name.to_owned(), AttributeValue::Strings(Vec::clone(&list))))
            .into(),
        ..caller()
    };
    for caller in [caller(), with_lists] {
        checked.predicate(&caller);
        measure();
        let spans = [BTreeMap::new(), span()];
        // Rejected if lists of this length multiply.
        if let Err(errors) = explain(text, &model, &caller, &spans, &AtomicBool::new(false)) {
            assert!(errors.iter().all(|error| error.code == "too_large"), "{errors:?}");
        }
        measure();
    }
    true
}

fn span() -> BTreeMap<String, FieldValue> {
    let text = |text: &str| FieldValue::String(text.as_bytes().to_vec());
    let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), text(value));
    BTreeMap::from([
        ("ServiceName".to_owned(), text(&"checkout ".repeat(20))),
        ("Nick".to_owned(), FieldValue::String(vec![0xff, b'x', 0xc3])),
        ("Sampled".to_owned(), FieldValue::Bool(true)),
        (
            "SpanAttributes".to_owned(),
            FieldValue::Map(vec![
                entry("env", &"a".repeat(2_000)),
                entry("tags", "[\"a\", \"b\"]"),
                entry("flag", "true"),
            ]),
        ),
    ])
}

fn processor_seconds() -> f64 {
    // In ticks, one hundred per second. The process name in front of them may contain spaces.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn peak_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn texts(seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let mut texts = handwritten_texts();
    let seeds: Vec<String> = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagnostics"))
        .unwrap()
        .flat_map(|file| {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            text.lines().filter_map(|line| line.strip_prefix(">>> ")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(seeds.len() > 200, "{}", seeds.len());
    let by_hand = texts.clone();
    for _ in 0..GENERATED {
        let text = match random.below(10) {
            0..=3 => {
                let depth = 1 + random.below(7);
                random.condition(depth)
            }
            4..=7 => {
                let seed = random.pick(&seeds).clone();
                random.mutated(seed)
            }
            8 => random.repeated(),
            _ => {
                let seed = random.pick(&by_hand).clone();
                random.mutated(seed)
            }
        };
        texts.push(text);
    }
    texts
}

struct Random(u64);

const UNUSUAL_TEXTS: [&str; 28] = [
    "\u{202e}",
    "\u{2066}",
    "\u{feff}",
    "\0",
    "\u{301}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "ß",
    "漢",
    "\u{fffd}",
    "\u{10ffff}",
    "\\",
    "\\u",
    "\\ud800",
    "\\U0010ffff",
    "\\xff",
    "\\777",
    "\"",
    "'",
    "\"\"\"",
    "r'",
    "b\"",
    "`",
    "“",
    "//",
    "\r\n",
    "\t",
    "\u{2028}",
    "\u{85}",
];

const PIECES: [&str; 60] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "?",
    ":",
    ",",
    ".",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "=",
    "&",
    "|",
    " in ",
    " IN ",
    " and ",
    " NOT ",
    " IS NULL",
    " LIKE ",
    " BETWEEN ",
    "=~",
    "??",
    ";",
    "true",
    "null",
    "1",
    "1e309",
    "0x",
    "9223372036854775808",
    "1u",
    "user",
    "user.roles",
    "user.attributes.x",
    "ServiceName",
    "SpanAttributes",
    "[\"env\"]",
    ".exists(x, ",
    ".all(y, ",
    ".matches(\"",
    ".size()",
    "has(",
    "size(",
    "\"a\"",
    "'%a%'",
    "if",
    "Events.Name",
];

const PATTERNS: [&str; 24] = [
    "(a*)*b",
    "(a+)+$",
    "(a|a)*b",
    "(a|aa)+$",
    "([a-zA-Z]+)*$",
    "(.*a){20}",
    "((((a?){10}){10}){10})",
    "a{1000}",
    "a{1001}",
    "(a{100}){100}",
    "(?:(?:(?:x{2}){2}){2}){2}",
    ".*.*.*.*.*.*.*=.*",
    "\\\\p{L}+",
    "[\\\\x{0}-\\\\x{10FFFF}]*",
    "[^a]",
    "(?i)[a-z]+",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "\\\\b\\\\b\\\\b",
    "()",
    "|||||",
    "[[:alpha:]]",
    "(?s).{500}",
    "(x+x+)+y",
    "^$",
];

impl Random {
    /// Returns the next number of splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn text(&mut self) -> String {
        match self.below(4) {
            0 => "ServiceName".to_owned(),
            1 => "SpanAttributes[\"env\"]".to_owned(),
            2 => "user.attributes.x".to_owned(),
            _ => format!("\"{}\"", "ab".repeat(self.below(40))),
        }
    }

    /// Returns a condition, mostly a well-formed one.
    fn condition(&mut self, depth: usize) -> String {
        let (text, other) = (self.text(), self.text());
        if depth == 0 {
            return match self.below(8) {
                0 => format!("{text}.startsWith({other})"),
                1 => format!("{text}.matches(\"{}\")", self.pick(&PATTERNS)),
                2 => format!("{text} in [{other}, \"b\"]"),
                3 => format!("size({text}) > {}", self.next() % 100),
                4 => "has(SpanAttributes.env)".to_owned(),
                5 => "\"dev\" in user.roles".to_owned(),
                _ => format!("{text} {} {other}", self.pick(&["==", "!=", "<", ">="])),
            };
        }
        let (left, right) = (self.below(depth), depth - 1);
        match self.below(10) {
            7 => {
                let list = self.choices();
                match self.below(4) {
                    0 => format!("{list} == Events.Name || {}", self.condition(right / 2)),
                    1 => format!("{list} in [Events.Name, [{text}]]"),
                    2 => format!("{text} in {list}"),
                    _ => format!("{list} != {}", self.choices()),
                }
            }
            8 => {
                let (range, list) = (self.literals(), self.choices());
                let quantifier = *self.pick(&["exists", "all", "exists_one"]);
                format!("{range}.{quantifier}(w{depth}, {list} == Events.Name && w{depth} == {text})")
            }
            0 => format!("!({})", self.condition(right)),
            1 => format!(
                "({}) ? {} : {}",
                self.condition(left / 2),
                self.condition(right / 2),
                self.condition(left / 2)
            ),
            2 => format!("Events.Name.exists(v{depth}, v{depth} == {text} || {})", self.condition(right)),
            3 => format!("user.attributes.x.all(v{depth}, v{depth} != {text} && {})", self.condition(right)),
            4 => format!(
                "[{text}, {other}].exists_one(v{depth}, v{depth} == {text} || {})",
                self.condition(right / 2)
            ),
            5 => format!("({}) == ({})", self.condition(left / 2), self.condition(right / 2)),
            6 => format!("{} && {}", self.condition(left), self.condition(right)),
            _ => format!("({} || {})", self.condition(left), self.condition(right)),
        }
    }

    /// Returns a list of conditionals.
    fn choices(&mut self) -> String {
        let elements: Vec<String> = (0..1 + self.below(12))
            .map(|at| format!("({} == \"{at}\" ? {} : {})", self.text(), self.text(), self.text()))
            .collect();
        format!("[{}]", elements.join(", "))
    }

    fn literals(&mut self) -> String {
        let elements: Vec<String> = (0..self.below(200)).map(|at| format!("\"{at}\"")).collect();
        format!("[{}]", elements.join(", "))
    }

    /// Applies a few random changes.
    fn mutated(&mut self, text: String) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.below(6) {
            let at = self.below(characters.len() + 1);
            let end = (at + self.below(12)).min(characters.len());
            match self.below(6) {
                0 => drop(characters.drain(at..end)),
                1 => {
                    let part: Vec<char> = characters[at..end].to_vec();
                    let times = self.below(30);
                    characters.splice(at..at, part.repeat(times));
                }
                2 => drop(characters.splice(at..at, self.pick(&UNUSUAL_TEXTS).chars())),
                3 => drop(characters.splice(at..end, self.pick(&PIECES).chars())),
                4 => drop(characters.splice(at..at, char::from_u32(self.next() as u32 % 0x11_0000))),
                _ => characters[at..end].reverse(),
            }
        }
        characters.into_iter().collect()
    }

    /// Repeats a few pieces many times.
    fn repeated(&mut self) -> String {
        let pieces = (0..1 + self.below(4)).map(|_| *self.pick(&PIECES)).collect::<String>();
        let times = [5, 60, 64, 200, 999, 3_000][self.below(6)];
        let tail = *self.pick(&PIECES);
        let start = self.text();
        format!("{start}{}{tail}", pieces.repeat(times))
    }
}

fn handwritten_texts() -> Vec<String> {
    let around = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let mut texts = Vec::new();
    for times in [1, 30, 50, 62, 63, 64, 65, 90, 120, 250, 490, 998, 1_500, 2_500, 4_000] {
        texts.extend([
            around("(", "true", ")", times),
            around("[", "", "]", times) + " == []",
            around("{", "", "}", times),
            around("!", "true", "", times),
            around("-", "1", "", times),
            around("!(", "Sampled", ")", times),
            format!("a{}", ".b".repeat(times)),
            format!("user.attributes{}", ".b".repeat(times)),
            format!("SpanAttributes{}", "[\"env\"]".repeat(times)),
            format!("ServiceName{}", ".size()".repeat(times)),
            format!("1{} == 1", "+1".repeat(times)),
            format!("1{} == 1", " - -1".repeat(times)),
            format!("true{}", " == true".repeat(times)),
            format!("true{}", " && true".repeat(times)),
            format!("Sampled{}", " || ServiceName == \"b\"".repeat(times)),
            format!("Sampled{}", " && ServiceName != \"b\"".repeat(times)),
            format!("Sampled{}", " && (ServiceName == \"a\" || Nick == \"b\")".repeat(times)),
            format!("Sampled{}", " = Sampled and Sampled".repeat(times)),
            format!("ServiceName{}", " NOT IN ('a')".repeat(times)),
            format!("{}Sampled", "not ".repeat(times)),
            format!("{}false", "Sampled ? true : ".repeat(times)),
            around("Sampled ? ", "true", " : false", times),
            around("(Sampled ? ", "Sampled", " : !Sampled)", times),
            around("size(", "ServiceName", ")", times),
            around("Events.Name.exists(x, ", "true", ")", times),
            around("user.roles.all(r, r == ServiceName || ", "true", ")", times),
            around("[\"a\", \"b\", \"c\"].exists_one(r, r == ServiceName || ", "true", ")", times),
            format!("ServiceName in [{}]", "\"a\", ".repeat(times) + "\"b\""),
            format!("ServiceName == \"{}\"", "x".repeat(times)),
            format!("ServiceName == '{}'", "\\u0301".repeat(times)),
            format!("ServiceName == \"{}", "\\".repeat(times)),
            format!("size(ServiceName) == {}", "9".repeat(times)),
            format!("size(ServiceName) == 1.{}", "9".repeat(times)),
            format!("ServiceName.matches(\"{}\")", "(a*)*".repeat(times)),
            format!("ServiceName.matches(\"{}\")", around("(", "a", ")*", times)),
            format!("ServiceName.matches(\"{}\")", around("(?:", "a", "){9}", times)),
            format!("ServiceName.matches(\"{}\")", "[".repeat(times)),
            format!("ServiceName.matches(\"[{}]\")", "a-z".repeat(times)),
            format!("ServiceName.matches(\"{}\")", "a|".repeat(times)),
            format!("ServiceName.matches(\"{}b\")", ".*".repeat(times)),
            "\u{202e}".repeat(times),
            "\u{1f468}\u{200d}".repeat(times),
            format!("Sampled // {}", "\u{feff}\u{202e}".repeat(times)),
            "\n".repeat(times) + "Sampled = 1",
            "/".repeat(times),
            "\"".repeat(times),
            "? : ".repeat(times),
            "x in ".repeat(times),
        ]);
    }
    // Lists of conditionals are expanded when compared with an array; macros over known lists are always expanded.
    let list = |parts: &dyn Fn(usize) -> String, count: usize| {
        format!("[{}]", (0..count).map(parts).collect::<Vec<_>>().join(","))
    };
    let numbers = |count| list(&|at| format!("\"{at}\""), count);
    for count in 1..16 {
        let choices = list(&|at| format!("(Nick==\"{at}\"?ServiceName:Nick)"), count);
        for (open, close) in [("exists", "&& x == ServiceName"), ("all", "|| x == Nick"), ("exists_one", "")]
        {
            for elements in [8, 40, 150] {
                texts.push(format!("{}.{open}(x, {choices} == Events.Name {close})", numbers(elements)));
            }
        }
        let (around, within) = (numbers(3 * count), numbers(count));
        texts.extend([
            format!("{around}.all(x, {around}.exists(y, [(x == Nick ? y : Nick), x] == Events.Name || x == y))"),
            format!("user.attributes.x.exists(x, user.attributes.team.exists(y, {choices} == Events.Name && x == y))"),
            format!("{within}.exists(a, {within}.all(b, {within}.exists_one(c, [a, b, c] == Events.Name || a < Nick)))"),
            format!("{choices} == {choices} || {choices} in [Events.Name, {choices}]"),
            format!("Nick in {choices} && {choices}.exists(x, x.startsWith(Nick)) && size({choices}) > 1"),
            format!("{choices}.exists(x, {choices}.all(y, x == y))"),
            format!("{choices}.exists(x, [(Sampled ? x : Nick), x, x] == Events.Name)"),
            format!("{}ServiceName{}.startsWith(Nick)", "(Sampled ? Nick : ".repeat(count), ")".repeat(count)),
            format!("({0} ? {1} : {1}) == Events.Name", "Sampled", choices),
            (0..8).map(|_| format!("{choices} == Events.Name")).collect::<Vec<_>>().join(" || "),
        ]);
    }
    for pattern in PATTERNS {
        texts.push(format!(
            "ServiceName.matches(\"{pattern}\") || SpanAttributes[\"env\"].matches(r'{pattern}')"
        ));
    }
    texts.extend(UNUSUAL_TEXTS.iter().map(|odd| format!("ServiceName == \"{odd}\"")));
    texts.extend(UNUSUAL_TEXTS.iter().map(|odd| format!("Service{odd}Name == {odd}")));
    texts.extend(["", " ", "\0", "\u{feff}Sampled"].map(str::to_owned));
    texts
}
