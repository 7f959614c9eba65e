//! Parses JSON text to a tree of bounded size, and preserves the digits of numbers.
//!
//! The text is parsed in one pass: a span can have a million attributes and events, of which a response shows some
//! hundred. Omitted values cost time for their bytes but no memory. Numbers are not parsed as doubles, which would
//! change them: a column of 128 bits or of decimals holds more digits.

use serde_json::{Map, Number, Value};

/// Limits of the parts of each value that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Maximum number of characters of a text.
    pub(crate) characters: usize,
    /// Maximum number of elements of a list, and of members of an object.
    pub(crate) elements: usize,
    /// Whether members without a value (null, and empty texts, lists and objects) are kept and counted.
    pub(crate) empty_members: bool,
}

impl Bounds {
    /// No limits.
    pub(crate) const NONE: Self = Self { characters: usize::MAX, elements: usize::MAX, empty_members: true };
}

/// A value within its limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number that can be read as a double without changing it.
    Number(Number),
    /// Any other number, as text.
    Digits(String),
    /// Start of a text, and its number of characters.
    Text {
        start: String,
        characters: usize,
    },
    /// First elements of a list, and its number of elements.
    List {
        first: Vec<Json>,
        count: usize,
    },
    /// First members of an object, and its number of members.
    Object {
        first: Vec<(String, Json)>,
        count: usize,
    },
}

/// Maximum nesting depth of lists and objects. Deeper values are not parsed.
const MAX_DEPTH: usize = 100;
/// Replacement for a value that is nested too deeply.
const TOO_DEEP: &str = "… (nested too deeply to be shown)";

impl Json {
    /// Parses a text within limits; `None` if it is not valid JSON.
    pub(crate) fn read(text: &str, bounds: Bounds) -> Option<Self> {
        let mut reader = Reader::new(text, bounds);
        let value = reader.value(true)?;
        reader.is_at_end().then_some(value)
    }

    /// Whether it is null or empty.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text { characters: count, .. } | Self::List { count, .. } | Self::Object { count, .. } => {
                *count == 0
            }
            Self::Bool(_) | Self::Number(_) | Self::Digits(_) => false,
        }
    }

    /// Converts to a `serde_json` value. `digits` converts a number that a double would change.
    pub(crate) fn into_value(self, digits: fn(String) -> Value) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::Digits(text) => digits(text),
            Self::Text { start, .. } => Value::String(start),
            Self::List { first, .. } => first.into_iter().map(|element| element.into_value(digits)).collect(),
            Self::Object { first, .. } => {
                let members = first.into_iter().map(|(name, value)| (name, value.into_value(digits)));
                Value::Object(Map::from_iter(members))
            }
        }
    }
}

/// Parses JSON text from start to end.
pub(crate) struct Reader<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
    bounds: Bounds,
    pub(crate) watched: WatchedMembers,
}

/// Information collected while values are parsed, whether they are kept or not.
#[derive(Debug, Default)]
pub(crate) struct WatchedMembers {
    /// Whether a name or a text began with `exception.` since the last reset.
    pub(crate) exception: bool,
    /// For each of these names, the first text at the smallest depth, with the depth.
    pub(crate) named: Vec<(&'static str, Option<(usize, String)>)>,
}

impl WatchedMembers {
    fn is_watched(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| *known == name)
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, bounds: Bounds) -> Self {
        Self { text, offset: 0, depth: 0, bounds, watched: WatchedMembers::default() }
    }

    /// Skips white space and returns the next byte.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.offset)?, b' ' | b'\t' | b'\n' | b'\r') {
            self.offset += 1;
        }
        bytes.get(self.offset).copied()
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.next().is_none()
    }

    fn expect_byte(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then(|| self.offset += 1)
    }

    /// Parses a value. If `keep` is false, the result only tells whether the value is empty.
    pub(crate) fn value(&mut self, keep: bool) -> Option<Json> {
        match self.next()? {
            b'{' | b'[' if self.depth >= MAX_DEPTH => {
                self.skip_nested()?;
                let start = if keep { TOO_DEEP.to_owned() } else { String::new() };
                Some(Json::Text { start, characters: TOO_DEEP.chars().count() })
            }
            b'{' => {
                let (mut first, mut count) = (Vec::new(), 0);
                self.members(|reader, name| {
                    let keep = keep && first.len() < reader.bounds.elements;
                    let value = reader.value(keep || reader.watched.is_watched(&name))?;
                    reader.record(&name, &value);
                    if reader.bounds.empty_members || !value.is_empty() {
                        count += 1;
                        if keep {
                            first.push((name, value));
                        }
                    }
                    Some(())
                })?;
                Some(Json::Object { first, count })
            }
            b'[' => self.list(keep),
            b'"' => self.string(keep).map(|(start, characters)| Json::Text { start, characters }),
            b't' => self.literal("true", Json::Bool(true)),
            b'f' => self.literal("false", Json::Bool(false)),
            b'n' => self.literal("null", Json::Null),
            _ => self.number(keep),
        }
    }

    /// Parses an object. `member` is called with each member's name and must parse its value.
    pub(crate) fn members(&mut self, mut member: impl FnMut(&mut Self, String) -> Option<()>) -> Option<()> {
        self.expect_byte(b'{')?;
        self.depth += 1;
        if self.next()? == b'}' {
            self.offset += 1;
        } else {
            loop {
                (self.next()? == b'"').then_some(())?;
                let name = self.whole_string()?;
                self.watched.exception |= name.starts_with("exception.");
                self.expect_byte(b':')?;
                member(self, name)?;
                if !self.has_more(b'}')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn list(&mut self, keep: bool) -> Option<Json> {
        self.expect_byte(b'[')?;
        self.depth += 1;
        let (mut first, mut count) = (Vec::new(), 0);
        if self.next()? == b']' {
            self.offset += 1;
        } else {
            loop {
                let keep = keep && first.len() < self.bounds.elements;
                let value = self.value(keep)?;
                count += 1;
                if keep {
                    first.push(value);
                }
                if !self.has_more(b']')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Some(Json::List { first, count })
    }

    /// Whether another element follows before the end.
    fn has_more(&mut self, end: u8) -> Option<bool> {
        let found = self.next()?;
        self.offset += 1;
        match found {
            b',' => Some(true),
            found if found == end => Some(false),
            _ => None,
        }
    }

    /// Records a text under one of the names of interest.
    pub(crate) fn record(&mut self, name: &str, value: &Json) {
        let Json::Text { start, .. } = value else { return };
        let depth = self.depth;
        let noted = self.watched.named.iter_mut().find(|(known, _)| *known == name);
        if let Some((_, noted)) = noted
            && !start.is_empty()
            && noted.as_ref().is_none_or(|(known, _)| depth < *known)
        {
            *noted = Some((depth, start.clone()));
        }
    }

    /// Returns the text of a string literal with its quotation marks, and whether it contains escapes.
    fn quoted(&mut self) -> Option<(&'a str, bool)> {
        let begin = self.offset;
        let bytes = self.text.as_bytes();
        let mut offset = begin + 1;
        let mut escaped = false;
        loop {
            let rest = bytes.get(offset..)?;
            let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            offset += found + 1;
            if rest.get(found) == Some(&b'"') {
                break;
            }
            escaped = true;
            offset += 1;
        }
        self.offset = offset;
        Some((self.text.get(begin..offset)?, escaped))
    }

    /// Parses a text within its limits, and counts its characters.
    fn string(&mut self, keep: bool) -> Option<(String, usize)> {
        let (quoted, escaped) = self.quoted()?;
        let plain = quoted.get(1..quoted.len().checked_sub(1)?)?;
        self.watched.exception |= plain.starts_with("exception.");
        // An unpaired surrogate has no meaning and stays as written.
        let read = escaped.then(|| serde_json::from_str::<String>(quoted).ok()).flatten();
        let text = read.as_deref().unwrap_or(plain);
        let characters = text.chars().count();
        if !keep {
            return Some((String::new(), characters));
        }
        let end = text.char_indices().nth(self.bounds.characters);
        let start = end.and_then(|(end, _)| text.get(..end)).unwrap_or(text);
        Some((start.to_owned(), characters))
    }

    fn whole_string(&mut self) -> Option<String> {
        let (quoted, escaped) = self.quoted()?;
        let plain = quoted.get(1..quoted.len().checked_sub(1)?)?;
        let read = escaped.then(|| serde_json::from_str::<String>(quoted).ok()).flatten();
        Some(read.unwrap_or_else(|| plain.to_owned()))
    }

    fn literal(&mut self, word: &str, value: Json) -> Option<Json> {
        self.text.get(self.offset..)?.starts_with(word).then(|| self.offset += word.len())?;
        Some(value)
    }

    fn number(&mut self, keep: bool) -> Option<Json> {
        let rest = self.text.get(self.offset..)?;
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().take_while(|byte| is_part(byte)).count();
        let text = rest.get(..length).filter(|text| text.bytes().any(|byte| byte.is_ascii_digit()))?;
        self.offset += length;
        if !keep {
            return Some(Json::Bool(false));
        }
        Some(exact_number(text).map_or_else(|| Json::Digits(text.to_owned()), Json::Number))
    }

    /// Skips to the end of a list or an object.
    fn skip_nested(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.text.as_bytes().get(self.offset)? {
                b'"' => {
                    self.quoted()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.checked_sub(1)?,
                _ => {}
            }
            self.offset += 1;
            if open == 0 {
                return Some(());
            }
        }
    }
}

/// Returns the number if conversion to a double preserves it: an integer up to 2^53, or a number whose shortest
/// representation as a double has the same digits.
fn exact_number(text: &str) -> Option<Number> {
    const MAX_EXACT: u64 = 1 << 53;
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return text.parse::<i64>().ok().filter(|value| value.unsigned_abs() <= MAX_EXACT).map(Number::from);
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    if normalized_decimal(text)? == normalized_decimal(&format!("{value:e}"))? {
        Number::from_f64(value)
    } else {
        None
    }
}

/// Returns the sign (true if negative), the digits without leading and trailing zeros, and the power of ten.
fn normalized_decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return Some((negative, String::new(), 0));
    }
    let zeros = i64::try_from(digits.len() - short.len()).ok()?;
    let power = power.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Some((negative, short.trim_start_matches('0').to_owned(), power.checked_add(zeros)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole(text: &str) -> Option<Value> {
        Json::read(text, Bounds::NONE).map(|json| json.into_value(Value::String))
    }

    #[test]
    fn values_match_the_json() {
        for value in [
            json!(null),
            json!([true, false, null, 0, -1, 9_007_199_254_740_992_i64, 0.1, 1e300, -2.5e-7]),
            json!({"a": {"b": [[], {}, [{}]], "": ""}, "\"\\\u{1}é😀": "\"\\\n\u{1}é😀"}),
        ] {
            assert_eq!(whole(&value.to_string()), Some(value));
        }
        assert_eq!(whole(" { \"a\" :\n[ 1 , 2 ] } "), Some(json!({"a": [1, 2]})));
        assert_eq!(whole(r#"["\ud800"]"#), Some(json!(["\\ud800"])));
        for wrong in
            ["", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "\"a", "tru", "1 2", "{\"a\":1]", "-", "\"\\"]
        {
            assert_eq!(whole(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let is_text = |text: &str| whole(text) == Some(Value::String(text.to_owned()));
        for text in [
            "9007199254740993",
            "-9007199254740993",
            "281474976710655000000000000001",
            "12345678901234.5678",
            "0.12345678901234567890",
            "9007199254740993.0",
            "1e400",
        ] {
            assert!(is_text(text), "{text}: {:?}", whole(text));
        }
        for text in ["0", "-7", "9007199254740992", "0.1", "1234567890123.45", "0.1234567890123456", "5e-324"]
        {
            assert_eq!(whole(text).unwrap().to_string(), text);
        }
        // The same number in another notation stays a number.
        for (text, number) in [("1.50", 1.5), ("15E-1", 1.5), ("0.0", 0.0), ("1e2", 100.0), ("100.0", 100.0)]
        {
            assert_eq!(whole(text), Some(json!(number)), "{text}");
        }
    }

    #[test]
    fn kept_values_are_bounded() {
        let bounds = Bounds { characters: 3, elements: 2, empty_members: false };
        let json = Json::read(r#"{"a": "äöüß", "b": "", "c": [1, 2, 3], "d": 4, "e": null}"#, bounds);
        let Some(Json::Object { first, count }) = json else { panic!("{json:?}") };
        let text = Json::Text { start: "äöü".to_owned(), characters: 4 };
        let list = Json::List { first: vec![Json::Number(1.into()), Json::Number(2.into())], count: 3 };
        assert_eq!((first, count), (vec![("a".to_owned(), text), ("c".to_owned(), list)], 3));
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = |levels: usize| format!("{}\"]\"{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::read(&deep(1_000_000), Bounds::NONE).is_some());
        assert!(Json::read(&"[".repeat(1_000_000), Bounds::NONE).is_none());
        let shown = whole(&deep(MAX_DEPTH + 1)).unwrap().to_string();
        assert!(shown.contains(TOO_DEEP), "{shown}");
    }
}
