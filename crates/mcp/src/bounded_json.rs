//! Parses JSON text to a tree of bounded size, and preserves the digits of numbers.
//!
//! A span can have a million attributes and events, of which a response shows some hundred. Omitted values cost time for
//! their bytes but no memory. A number that a double would change becomes text: a column of 128 bits or of decimals
//! holds more digits.

use std::collections::HashMap;
use std::fmt::{self, Formatter};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::digits::quote_inexact_numbers;

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
    pub(crate) const NONE: Self = Self { characters: usize::MAX, elements: usize::MAX, empty_members: true };
}

/// A value within its limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A number that can be read as a double without changing it.
    Number(Number),
    /// Start of a text, or of the digits of any other number, and its number of characters.
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
/// Up to this value, every integer is a double.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

impl Json {
    /// Parses a text within limits; `None` if it is not valid JSON.
    pub(crate) fn read(text: &str, bounds: Bounds) -> Option<Self> {
        Self::read_part(&quote_inexact_numbers(text), bounds, 0, &mut WatchedMembers::default())
    }

    /// Parses a value at this depth of a text whose inexact numbers are quoted.
    pub(crate) fn read_part(
        text: &str,
        bounds: Bounds,
        depth: usize,
        watched: &mut WatchedMembers,
    ) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = Reader { keep: true, depth, bounds, watched }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok().map(|()| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text { characters: count, .. } | Self::List { count, .. } | Self::Object { count, .. } => {
                *count == 0
            }
            Self::Bool(_) | Self::Number(_) => false,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::Text { start, .. } => Value::String(start),
            Self::List { first, .. } => first.into_iter().map(Self::into_value).collect(),
            Self::Object { first, .. } => {
                first.into_iter().map(|(name, value)| (name, value.into_value())).collect()
            }
        }
    }

    pub(crate) fn text(start: &str) -> Self {
        Self::Text { start: start.to_owned(), characters: start.chars().count() }
    }

    fn integer(number: Number, magnitude: u64) -> Self {
        if magnitude <= MAX_EXACT_INTEGER { Self::Number(number) } else { Self::text(&number.to_string()) }
    }
}

/// Information collected while values are parsed, whether they are kept or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedMembers {
    /// Whether a name or a text began with `exception.` since the last reset.
    pub(crate) exception: bool,
    /// For each of these names, the first text at the smallest depth, with the depth.
    pub(crate) named: HashMap<&'static str, Option<(usize, String)>>,
}

impl WatchedMembers {
    /// Records a text under one of the names of interest.
    pub(crate) fn record(&mut self, depth: usize, name: &str, value: &Json) {
        let Json::Text { start, .. } = value else { return };
        if let Some(noted) = self.named.get_mut(name)
            && !start.is_empty()
            && noted.as_ref().is_none_or(|(known, _)| depth < *known)
        {
            *noted = Some((depth, start.clone()));
        }
    }
}

/// Calls `member` with the name and the JSON text of each member of an object, until it returns `None`.
pub(crate) fn members(text: &str, member: impl FnMut(String, &str) -> Option<()>) -> Option<()> {
    struct Members<F>(F);
    impl<'de, F: FnMut(String, &str) -> Option<()>> Visitor<'de> for Members<F> {
        type Value = Option<()>;

        fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
            out.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Option<()>, A::Error> {
            while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                if (self.0)(name, value.get()).is_none() {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_map(Members(member)).ok()??;
    deserializer.end().ok()
}

/// Parses a value within limits.
struct Reader<'a> {
    /// Whether the value is kept; otherwise the result only tells whether it is empty.
    keep: bool,
    /// Number of lists and objects around the value.
    depth: usize,
    bounds: Bounds,
    watched: &'a mut WatchedMembers,
}

impl Reader<'_> {
    fn inner(&mut self, keep: bool) -> Reader<'_> {
        Reader { keep, depth: self.depth + 1, bounds: self.bounds, watched: self.watched }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json;

    fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::integer(value.into(), value.unsigned_abs()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::integer(value.into(), value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        self.watched.exception |= text.starts_with("exception.");
        let kept = if self.keep { self.bounds.characters } else { 0 };
        let end = text.char_indices().nth(kept).map_or(text.len(), |(end, _)| end);
        let start = text.get(..end).unwrap_or_default().to_owned();
        Ok(Json::Text { start, characters: text.chars().count() })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Json, A::Error> {
        if self.depth >= MAX_DEPTH {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Json::text(TOO_DEEP));
        }
        let (mut first, mut count) = (Vec::new(), 0);
        let bound = if self.keep { self.bounds.elements } else { 0 };
        while let Some(value) = list.next_element_seed(self.inner(count < bound))? {
            if count < bound {
                first.push(value);
            }
            count += 1;
        }
        Ok(Json::List { first, count })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Json, A::Error> {
        if self.depth >= MAX_DEPTH {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Json::text(TOO_DEEP));
        }
        let (mut first, mut count) = (Vec::new(), 0);
        let bound = if self.keep { self.bounds.elements } else { 0 };
        while let Some(name) = map.next_key::<String>()? {
            self.watched.exception |= name.starts_with("exception.");
            let keep = first.len() < bound;
            let is_watched = self.watched.named.contains_key(name.as_str());
            let value = map.next_value_seed(self.inner(keep || is_watched))?;
            self.watched.record(self.depth + 1, &name, &value);
            if self.bounds.empty_members || !value.is_empty() {
                count += 1;
                if keep {
                    first.push((name, value));
                }
            }
        }
        Ok(Json::Object { first, count })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole(text: &str) -> Option<Value> {
        Json::read(text, Bounds::NONE).map(Json::into_value)
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
        for wrong in [
            r#"["\ud800"]"#,
            "",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "\"a",
            "tru",
            "1 2",
            "{\"a\":1]",
            "-",
            "\"\\",
        ] {
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
