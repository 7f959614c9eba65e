//! Estimates the tokens that a text takes in an agent's context, without a tokenizer.
//!
//! Tokenizers differ, their tables take tens of megabytes, and a response must not exceed the requested size with any
//! of them. So this counts an upper limit: close for identifiers, numbers and JSON, too high for prose, and high
//! enough for text that no vocabulary contains. The tests compare it with two common tokenizers.

/// Returns the maximum number of tokens of a text.
pub(crate) fn tokens(text: &str) -> usize {
    let mut count = Count::default();
    text.chars().for_each(|character| count.add(character));
    count.close();
    count.total.div_ceil(1_000)
}

/// Frequent words in responses that every vocabulary contains; sorted.
#[rustfmt::skip]
const WORDS: [&str; 141] = [
    "access", "after", "all", "and", "any", "arguments", "at", "before", "below", "both", "by", "call",
    "change", "code", "column", "columns", "compare", "complete", "condition", "conditions", "content",
    "count", "critical", "cursor", "data", "depth", "description", "differ", "differences", "duration",
    "end", "eq", "error", "errors", "exception", "exists", "false", "fields", "filter", "first", "from",
    "full", "get", "go", "group", "groups", "hidden", "id", "ids", "in", "is", "largest", "last", "later",
    "left", "limit", "limits", "line", "lines", "link", "list", "longest", "look", "matched", "max",
    "message", "min", "more", "most", "name", "names", "never", "next", "no", "null", "number", "of", "on",
    "op", "operators", "or", "others", "outline", "own", "path", "per", "point", "policies", "prefix",
    "query", "ran", "rate", "read", "ref", "returned", "root", "sampled", "search", "second", "see",
    "service", "services", "share", "shown", "span", "spans", "start", "stats", "status", "step", "steps",
    "string", "structured", "svc", "that", "the", "their", "to", "tokens", "took", "tool", "total", "trace",
    "traces", "true", "truncated", "type", "types", "use", "value", "values", "version", "view", "where",
    "which", "whole", "window", "with", "within", "you", "your",
];
const LONGEST_WORD: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Run {
    #[default]
    None,
    Lower,
    Upper,
    Digits,
    Spaces,
    Lines,
    Marks,
}

/// Counts runs of similar characters. Tokens rarely span several runs; if they do, the text takes fewer tokens than
/// counted.
#[derive(Debug, Default)]
struct Count {
    /// Thousandths of tokens.
    total: usize,
    run: Run,
    length: usize,
    vowels: usize,
    /// Letters since the last change between vowels and consonants, and the maximum of such a sequence.
    alike: usize,
    most_alike: usize,
    was_vowel: bool,
    /// Number of letters that are rare in words.
    rare: usize,
    /// The letters of the run, up to the length of the longest known word.
    letters: [u8; LONGEST_WORD],
}

impl Count {
    fn add(&mut self, character: char) {
        let run = match character {
            'a'..='z' => Run::Lower,
            'A'..='Z' => Run::Upper,
            '0'..='9' => Run::Digits,
            ' ' => Run::Spaces,
            '\n' | '\r' | '\t' => Run::Lines,
            '!'..='~' => Run::Marks,
            other => {
                self.close();
                // Latin, Greek and Cyrillic letters occur in words of many vocabularies. For others, a token can be a
                // single byte.
                self.total +=
                    if ('\u{a0}'..='\u{52f}').contains(&other) { 1_200 } else { 1_000 * other.len_utf8() };
                return;
            }
        };
        // A capital and the following lower-case letters are one word.
        let continues = run == self.run || (self.run == Run::Upper && self.length == 1 && run == Run::Lower);
        if !continues {
            self.close();
        }
        if let (Some(letter), Ok(byte)) = (self.letters.get_mut(self.length), u8::try_from(character)) {
            *letter = byte;
        }
        self.run = run;
        self.length += 1;
        if matches!(run, Run::Lower | Run::Upper) {
            let letter = character.to_ascii_lowercase();
            let vowel = matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u' | 'y');
            self.alike = if vowel == self.was_vowel { self.alike + 1 } else { 1 };
            self.most_alike = self.most_alike.max(self.alike);
            self.was_vowel = vowel;
            self.vowels += usize::from(vowel);
            self.rare += usize::from(matches!(letter, 'j' | 'k' | 'q' | 'v' | 'w' | 'x' | 'z'));
        }
    }

    fn close(&mut self) {
        let length = self.length;
        // A pronounceable run may be a word; others are not in any vocabulary.
        let is_pronounceable =
            self.vowels * 4 >= length && self.most_alike <= 3 && self.rare * 5 <= length && length <= 20;
        self.total += match self.run {
            Run::None => 0,
            Run::Lower if self.is_known() => 1_000,
            Run::Lower if is_pronounceable => 1_000.max(length * 520),
            Run::Lower | Run::Upper => 1_000.max(length * 800),
            Run::Digits => length.div_ceil(2) * 1_000,
            // One space belongs to the following word.
            Run::Spaces => (length - 1).min(1) * 1_000 + length / 64 * 1_000,
            Run::Lines => length * 500 + 500,
            Run::Marks => 1_000.max(length * 700),
        };
        *self = Self { total: self.total, ..Self::default() };
    }

    fn is_known(&self) -> bool {
        let word = self.letters.get(..self.length).and_then(|letters| std::str::from_utf8(letters).ok());
        word.is_some_and(|word| WORDS.binary_search(&word).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Returns the number of tokens with the test tokenizers.
    fn exactly(text: &str) -> usize {
        let [one, other] = [tiktoken_rs::o200k_base_singleton(), tiktoken_rs::cl100k_base_singleton()];
        one.encode_ordinary(text).len().max(other.encode_ordinary(text).len())
    }

    #[track_caller]
    fn check(name: &str, text: &str, at_most: f64) {
        let (counted, exact) = (tokens(text), exactly(text));
        let ratio = counted as f64 / exact as f64;
        println!("{name:12} {} bytes, {exact} tokens, counted {counted}: {ratio:.2}", text.len());
        assert!(ratio >= 1.0, "{name}: {exact} tokens counted as {counted}");
        assert!(ratio <= at_most, "{name}: {exact} tokens counted as {counted}");
    }

    #[test]
    fn token_counts_are_upper_bounds() {
        let seed = 20_261_122;
        println!("seed {seed}");
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut random_text = |alphabet: &str, length: usize| -> String {
            let alphabet: Vec<char> = alphabet.chars().collect();
            (0..length).map(|_| alphabet[chance.random_range(0..alphabet.len())]).collect()
        };
        let lower = "abcdefghijklmnopqrstuvwxyz";
        let upper = lower.to_uppercase();
        let marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
        let ascii: String = (0x20_u8..0x7f).map(char::from).collect();
        for (name, alphabet, at_most) in [
            ("lower", lower, 2.0),
            ("consonants", "bcdfghjklmnpqrstvwxz", 2.0),
            ("hard", "qxzjkvw", 2.0),
            ("UPPER", &upper, 2.0),
            ("HARD", "QXZJKVW", 2.0),
            ("mixed", &format!("{lower}{upper}"), 2.0),
            ("hex", "0123456789abcdef", 2.0),
            ("base62", &format!("{lower}{upper}0123456789"), 2.0),
            ("digits", "0123456789", 2.0),
            ("marks", marks, 2.0),
            ("ascii", &ascii, 2.0),
            ("lines", " \n\t\r", 3.0),
            ("controls", "\u{1}\u{2}\u{7}\u{1b}\u{7f}", 2.0),
            ("cyrillic", "абвгдежзийклмнопрстуфхцчшщ", 2.0),
            ("greek", "αβγδεζηθικλμνξοπρστυφχψω", 3.0),
            ("latin", "äöüßéèñçøåæłšž", 3.0),
            ("han", "的一是不了人我在有他这中大来上国", 4.0),
            ("emoji", "😀🎉🚀🦀", 4.0),
            ("invisible", "\u{200b}\u{202e}\u{2066}\u{feff}", 4.0),
        ] {
            check(name, &random_text(alphabet, 3_000), at_most);
        }
        let words = random_text("abcdefghijklmnopqrstuvwxyz", 6_000);
        let words: Vec<&str> = (0..1_000).map(|at| &words[at * 6..at * 6 + 3 + at % 4]).collect();
        check("short words", &words.join(" "), 2.0);
        let spoken = (0..800).map(|_| {
            random_text("bdfgklmnprst", 1)
                + &random_text("aeiou", 1)
                + &random_text("bdfgklmnprst", 1)
                + &random_text("aeiou", 1)
        });
        let spoken: Vec<String> = spoken.collect();
        check("syllables", &spoken.chunks(2).map(|two| two.concat()).collect::<Vec<_>>().join(" "), 2.0);
        for text in ["xuwazajojy", "xkwazqjojvje", "uuuu", "kazivo", "bamoqu"] {
            check(text, &format!("{text} ").repeat(200), 3.0);
            check(text, &text.repeat(200), 3.0);
        }
        check("spaces", &" ".repeat(240_000), 3.0);
        let every = |from: u32, step: usize| -> String {
            (from..).step_by(step).filter_map(char::from_u32).take(800).collect()
        };
        check("rare han", &every(0x3400, 7), 2.0);
        check("hangul", &every(0xac00, 11), 4.0);
        check("planes", &every(0x10000, 13), 2.0);
        check("runs", &"aB1".repeat(900), 2.0);
        check("pairs", &"a1".repeat(900), 2.0);
        check("dashes", &"a-".repeat(900), 3.0);
    }

    #[test]
    fn known_words_are_one_token_each() {
        assert!(WORDS.is_sorted());
        for word in WORDS {
            for text in [format!("\"{word}\":"), format!(" {word},")] {
                assert!(tokens(&text) >= exactly(&text), "{text}: {} {}", tokens(&text), exactly(&text));
            }
        }
    }

    #[test]
    fn token_counts_of_typical_answers_are_close() {
        let words =
            "the payment service could not reach the ledger because its connection pool was exhausted ";
        check("words", &words.repeat(9), 3.0);
        let names = "SpanAttributes[\"http.route\"] checkout.PaymentService/ChargeCard tenant.id=acme k8s.pod.name=checkout-7d9f8b6c5-x2x4z ";
        check("names", &names.repeat(9), 2.0);
        let json = "{\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"service\":\"frontend\",\"duration_ms\":1234.5,\"errors\":2}\n";
        check("json", &json.repeat(9), 1.6);
        let line = "  +1.2ms 12.5ms payments: POST /charge [a1b2c3d4e5f60718] ×12, p95 40ms, 3 errors\\n";
        check("outline", &line.repeat(9), 1.6);
    }
}
