//! Reads JSON value by value.
//!
//! A derived deserialiser is not suitable: it rejects strings with half a surrogate pair and rounds integers written as
//! `1.7e18`.
//!
//! Each function fails if the value has another type, and with the errors of the function that is passed to it.

use std::borrow::Cow;
use std::fmt;

use bytes::BytesMut;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of characters of a value that an error message quotes.
const MAX_SHOWN_CHARS: usize = 40;

/// Reason why a value cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path to the value from the start of reading.
    path: String,
    message: String,
}

impl Fault {
    /// Creates a fault for a value that must be something else.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    fn prepend_path(self, step: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{step}{dot}{}", self.path), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.path.is_empty() { "" } else { " " };
        write!(out, "{}{gap}{}", self.path, self.message)
    }
}

/// Reads an object. `each` receives name and value of every member that is not null. Of several members with one name,
/// the last one counts.
pub fn members<'a>(
    json: &'a str,
    mut each: impl FnMut(&str, &'a str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let members: IndexMap<String, &'a RawValue> = parse(json, '{', "an object")?;
    for (name, value) in members.iter().filter(|(_, value)| value.get() != "null") {
        each(name, value.get()).map_err(|fault| fault.prepend_path(name))?;
    }
    Ok(())
}

/// Reads an object into a message. `set` receives the message with name and value of every member that is not null.
pub fn message<T: Default>(
    json: &str,
    mut set: impl FnMut(&mut T, &str, &str) -> Result<(), Fault>,
) -> Result<T, Fault> {
    let mut message = T::default();
    members(json, |name, json| set(&mut message, name, json))?;
    Ok(message)
}

/// Reads a list. `each` receives index and value of every element.
pub fn elements(json: &str, mut each: impl FnMut(usize, &str) -> Result<(), Fault>) -> Result<(), Fault> {
    let elements: Vec<&RawValue> = parse(json, '[', "a list")?;
    for (index, element) in elements.into_iter().enumerate() {
        each(index, element.get()).map_err(|fault| fault.prepend_path(&format!("[{index}]")))?;
    }
    Ok(())
}

/// Reads a list of messages; nulls are ignored.
pub fn messages<T>(json: &str, mut read: impl FnMut(&str) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let mut messages = Vec::new();
    elements(json, |_, json| {
        if json != "null" {
            messages.push(read(json)?);
        }
        Ok(())
    })?;
    Ok(messages)
}

/// Reads a string; half a surrogate pair becomes U+FFFD.
pub fn string(json: &str) -> Result<String, Fault> {
    // `serde_json` encodes half a surrogate pair like other characters: in three bytes, as many as U+FFFD has.
    let mut text: BytesMut = parse(json, '"', "a string")?;
    let mut at = 0;
    while let Some(unit) = text.get_mut(at..at + 3) {
        if matches!(unit, [0xed, 0xa0..=0xff, _]) {
            unit.copy_from_slice("\u{fffd}".as_bytes());
        }
        at += 1;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads `true` or `false`.
pub fn boolean(json: &str) -> Result<bool, Fault> {
    json.parse().map_err(|_| fault("true or false", json))
}

/// Returns the text of a number, or of a string in its place. `expected` names the expected value.
pub fn number<'a>(json: &'a str, expected: &str) -> Result<Cow<'a, str>, Fault> {
    match json.as_bytes().first() {
        Some(b'"') => string(json).map(Cow::Owned),
        Some(b'-' | b'0'..=b'9') => Ok(Cow::Borrowed(json)),
        _ => Err(fault(expected, json)),
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str, first: char, expected: &str) -> Result<T, Fault> {
    if !json.starts_with(first) {
        return Err(fault(expected, json));
    }
    serde_json::from_str(json).map_err(|error| Fault::new(error.to_string()))
}

fn fault(expected: &str, json: &str) -> Fault {
    let found = match json.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    };
    Fault::new(format!("must be {expected}, not {found}"))
}

/// Creates a fault that quotes the value.
pub fn type_fault(expected: &str, found: &str) -> Fault {
    let mut shown: String = found.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Fault::new(format!("must be {expected}, not {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_are_not_unicode_keep_the_rest() {
        for (written, expected) in [
            (&br#""cut \ud83d""#[..], "cut \u{fffd}"),
            (br#""\ude00 end""#, "\u{fffd} end"),
            (br#""\ud83d\ud83d\ude00x""#, "\u{fffd}\u{1f600}x"),
            (br#""\ud83d\n\u00e9\/\\\"""#, "\u{fffd}\n\u{e9}/\\\""),
            (br#""\ud83dA""#, "\u{fffd}A"),
            (br#""\uD83D\u0041""#, "\u{fffd}A"),
            (b"\"caf\xe9\"", "caf\u{fffd}"),
            (b"\"\xf0\x9f\\t\xff\"", "\u{fffd}\t\u{fffd}"),
            ("\"漢\\u6f22\"".as_bytes(), "漢漢"),
            ("\"\u{d000}\u{d7ff}\u{e000}\"".as_bytes(), "\u{d000}\u{d7ff}\u{e000}"),
        ] {
            assert_eq!(string(&String::from_utf8_lossy(written)).unwrap(), expected);
        }
    }

    #[test]
    fn faults_contain_the_path() {
        let fault = members(r#"{"a": [1, {"b": "x"}], "c": 1}"#, |_, json| {
            elements(json, |index, json| match index {
                0 => number(json, "a number").map(drop),
                _ => members(json, |_, json| boolean(json).map(drop)),
            })
        });
        assert_eq!(fault.unwrap_err().to_string(), "a[1].b must be true or false, not a string");
    }
}
