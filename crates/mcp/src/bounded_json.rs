//! JSON text as a tree that holds no more than is asked for, and keeps the digits of numbers.
//!
//! The text is read once, whatever it holds: a span can have a million attributes and events, of which an answer shows some
//! hundred, and values that are left out cost their bytes and no memory. Numbers are not read as doubles, which would change
//! them: a column of 128 bits or of decimals holds more digits.

use serde_json::{Map, Number, Value};

/// How much of each value is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Characters of a text.
    pub(crate) characters: usize,
    /// Elements of a list, and members of an object.
    pub(crate) elements: usize,
    /// Whether members without a value (null, and empty texts, lists and objects) are held and counted.
    pub(crate) empty_members: bool,
}

impl Bounds {
    /// All that there is.
    pub(crate) const NONE: Self = Self { characters: usize::MAX, elements: usize::MAX, empty_members: true };
}

/// A value, in its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number that a reader which holds numbers as doubles reads as it is written.
    Number(Number),
    /// Any other number, as it is written.
    Digits(String),
    /// A text with its number of characters.
    Text {
        start: String,
        characters: usize,
    },
    /// A list with its number of elements.
    List {
        first: Vec<Json>,
        count: usize,
    },
    /// An object with its number of members.
    Object {
        first: Vec<(String, Json)>,
        count: usize,
    },
}

/// Lists and objects in each other, beyond which a value is not looked into.
const MAX_DEPTH: usize = 100;
/// What stands for a value that is nested more deeply.
const TOO_DEEP: &str = "… (nested too deeply to be shown)";

impl Json {
    /// The value that a text is, in bounds; `None` when the text is not JSON.
    pub(crate) fn read(text: &str, bounds: Bounds) -> Option<Self> {
        let mut reader = Reader::new(text, bounds);
        let value = reader.value(true)?;
        reader.is_at_end().then_some(value)
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text { characters: count, .. } | Self::List { count, .. } | Self::Object { count, .. } => {
                *count == 0
            }
            Self::Bool(_) | Self::Number(_) | Self::Digits(_) => false,
        }
    }

    /// As a value of the usual kind. What `digits` makes of a number stands for one that this kind would change.
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

/// Reads JSON text from its beginning to its end.
pub(crate) struct Reader<'a> {
    text: &'a str,
    place: usize,
    depth: usize,
    bounds: Bounds,
    pub(crate) seen: Seen,
}

/// What is noted while values are read, whether they are held or not.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether a name or a text began with `exception.` since this was last reset.
    pub(crate) exception: bool,
    /// Of each of these names, the first text at the smallest depth, with the depth.
    pub(crate) named: Vec<(&'static str, Option<(usize, String)>)>,
}

impl Seen {
    fn is_of_interest(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| *known == name)
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, bounds: Bounds) -> Self {
        Self { text, place: 0, depth: 0, bounds, seen: Seen::default() }
    }

    /// What begins at the place, behind blanks.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.place)?, b' ' | b'\t' | b'\n' | b'\r') {
            self.place += 1;
        }
        bytes.get(self.place).copied()
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.next().is_none()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then(|| self.place += 1)
    }

    /// A value. One that is not to be kept is read to its end, and holds no more than whether it is empty.
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
                    let value = reader.value(keep || reader.seen.is_of_interest(&name))?;
                    reader.note(&name, &value);
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

    /// An object, each member's name to be followed by what reads its value.
    pub(crate) fn members(&mut self, mut member: impl FnMut(&mut Self, String) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        self.depth += 1;
        if self.next()? == b'}' {
            self.place += 1;
        } else {
            loop {
                (self.next()? == b'"').then_some(())?;
                let name = self.whole_string()?;
                self.seen.exception |= name.starts_with("exception.");
                self.take(b':')?;
                member(self, name)?;
                if !self.goes_on(b'}')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn list(&mut self, keep: bool) -> Option<Json> {
        self.take(b'[')?;
        self.depth += 1;
        let (mut first, mut count) = (Vec::new(), 0);
        if self.next()? == b']' {
            self.place += 1;
        } else {
            loop {
                let keep = keep && first.len() < self.bounds.elements;
                let value = self.value(keep)?;
                count += 1;
                if keep {
                    first.push(value);
                }
                if !self.goes_on(b']')? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Some(Json::List { first, count })
    }

    /// Whether there is another element before the end.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        let found = self.next()?;
        self.place += 1;
        match found {
            b',' => Some(true),
            found if found == end => Some(false),
            _ => None,
        }
    }

    /// Notes a text under one of the names that are of interest.
    pub(crate) fn note(&mut self, name: &str, value: &Json) {
        let Json::Text { start, .. } = value else { return };
        let depth = self.depth;
        let noted = self.seen.named.iter_mut().find(|(known, _)| *known == name);
        if let Some((_, noted)) = noted
            && !start.is_empty()
            && noted.as_ref().is_none_or(|(known, _)| depth < *known)
        {
            *noted = Some((depth, start.clone()));
        }
    }

    /// The text between two quotation marks as it is written, and whether it has escapes.
    fn quoted(&mut self) -> Option<(&'a str, bool)> {
        let begin = self.place;
        let bytes = self.text.as_bytes();
        let mut place = begin + 1;
        let mut escaped = false;
        loop {
            let rest = bytes.get(place..)?;
            let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            place += found + 1;
            if rest.get(found) == Some(&b'"') {
                break;
            }
            escaped = true;
            place += 1;
        }
        self.place = place;
        Some((self.text.get(begin..place)?, escaped))
    }

    /// A text within its bounds, with its number of characters.
    fn string(&mut self, keep: bool) -> Option<(String, usize)> {
        let (quoted, escaped) = self.quoted()?;
        let plain = quoted.get(1..quoted.len().checked_sub(1)?)?;
        self.seen.exception |= plain.starts_with("exception.");
        // Half of a surrogate pair means nothing and stays as it is written.
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
        self.text.get(self.place..)?.starts_with(word).then(|| self.place += word.len())?;
        Some(value)
    }

    fn number(&mut self, keep: bool) -> Option<Json> {
        let rest = self.text.get(self.place..)?;
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().take_while(|byte| is_part(byte)).count();
        let text = rest.get(..length).filter(|text| text.bytes().any(|byte| byte.is_ascii_digit()))?;
        self.place += length;
        if !keep {
            return Some(Json::Bool(false));
        }
        Some(exact(text).map_or_else(|| Json::Digits(text.to_owned()), Json::Number))
    }

    /// To the end of a list or an object, without looking into it.
    fn skip_nested(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.text.as_bytes().get(self.place)? {
                b'"' => {
                    self.quoted()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.checked_sub(1)?,
                _ => {}
            }
            self.place += 1;
            if open == 0 {
                return Some(());
            }
        }
    }
}

/// The number, if one who holds numbers as doubles reads it as it is written: an integer up to 2^53, or a number whose
/// shortest notation as a double has the same digits.
fn exact(text: &str) -> Option<Number> {
    const MOST: u64 = 1 << 53;
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return text.parse::<i64>().ok().filter(|value| value.unsigned_abs() <= MOST).map(Number::from);
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    if decimal(text)? == decimal(&format!("{value:e}"))? { Number::from_f64(value) } else { None }
}

/// Whether it is negative, the digits without zeros at either end, and the power of ten that they are multiplied with.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
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
    fn values_are_what_they_are_in_json() {
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
    fn no_more_is_held_than_is_asked_for() {
        let bounds = Bounds { characters: 3, elements: 2, empty_members: false };
        let json = Json::read(r#"{"a": "äöüß", "b": "", "c": [1, 2, 3], "d": 4, "e": null}"#, bounds);
        let Some(Json::Object { first, count }) = json else { panic!("{json:?}") };
        let text = Json::Text { start: "äöü".to_owned(), characters: 4 };
        let list = Json::List { first: vec![Json::Number(1.into()), Json::Number(2.into())], count: 3 };
        assert_eq!((first, count), (vec![("a".to_owned(), text), ("c".to_owned(), list)], 3));
    }

    #[test]
    fn nesting_is_no_recursion_without_end() {
        let deep = |levels: usize| format!("{}\"]\"{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::read(&deep(1_000_000), Bounds::NONE).is_some());
        assert!(Json::read(&"[".repeat(1_000_000), Bounds::NONE).is_none());
        let shown = whole(&deep(MAX_DEPTH + 1)).unwrap().to_string();
        assert!(shown.contains(TOO_DEEP), "{shown}");
    }
}
