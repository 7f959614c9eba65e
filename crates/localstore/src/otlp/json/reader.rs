//! Reads JSON member by member, directly from text that is known to be valid JSON.
//!
//! An ordinary JSON parser is not suitable: it rejects strings with half a surrogate pair, rounds integers written as
//! `1.7e18`, and cannot continue after a value of the wrong type.

use std::borrow::Cow;
use std::fmt;

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

/// A position in the text.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of a text that `serde_json` accepts as JSON. Its strings may contain half surrogate
    /// pairs and bytes that are not UTF-8.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Skips white space and returns the next byte without consuming it; 0 at the end.
    fn peek(&mut self) -> u8 {
        while let Some(byte) = self.text.get(self.at) {
            if !byte.is_ascii_whitespace() {
                return *byte;
            }
            self.at += 1;
        }
        0
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    /// Consumes the next token, which is not a bracket, and returns its text: a string with its quotes, a number or a
    /// word.
    fn token(&mut self) -> &'a [u8] {
        let first = self.peek();
        let start = self.at;
        if first == b'"' {
            self.at += 1;
            while let Some(byte) = self.text.get(self.at) {
                match byte {
                    b'"' => break,
                    b'\\' => self.at += 2,
                    _ => self.at += 1,
                }
            }
            self.at = (self.at + 1).min(self.text.len());
        } else {
            let ends = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}') || byte.is_ascii_whitespace();
            let rest = self.text.get(start..).unwrap_or_default();
            self.at += rest.iter().position(ends).unwrap_or(rest.len());
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Skips a value of any depth.
    pub fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                0 => return,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                // Advances in any case, whatever the byte is.
                _ if self.token().is_empty() => self.at += 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Whether the next value is null; if so, skips it.
    pub fn null(&mut self) -> bool {
        let found = self.peek() == b'n';
        if found {
            self.token();
        }
        found
    }

    /// Reads a value; skips it if that fails.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let start = self.at;
        let result = read(self);
        if result.is_err() {
            self.at = start;
            self.skip();
        }
        result
    }

    /// Reads an object. `each` receives the name of every member that is not null and must read or skip its value.
    ///
    /// # Errors
    /// When the value is not an object; errors of `each`.
    pub fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(b'{', "an object")?;
        while !self.take(b'}') && self.at < self.text.len() {
            let name = unescaped(self.token());
            self.take(b':');
            if !self.null() {
                each(self, &name).map_err(|fault| fault.prepend_path(&name))?;
            }
            self.take(b',');
        }
        Ok(())
    }

    /// Reads a list. `each` receives the index of every element and must read or skip it.
    ///
    /// # Errors
    /// When the value is not a list; errors of `each`.
    pub fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(b'[', "a list")?;
        let mut index = 0;
        while !self.take(b']') && self.at < self.text.len() {
            each(self, index).map_err(|fault| fault.prepend_path(&format!("[{index}]")))?;
            index += 1;
            self.take(b',');
        }
        Ok(())
    }

    /// Reads a list of messages; nulls are ignored.
    ///
    /// # Errors
    /// When the value is not a list; errors of `read`.
    pub fn messages<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut messages = Vec::new();
        self.elements(|json, _| {
            if !json.null() {
                messages.push(read(json)?);
            }
            Ok(())
        })?;
        Ok(messages)
    }

    /// Reads a string; invalid Unicode becomes U+FFFD.
    ///
    /// # Errors
    /// When the value is not a string.
    pub fn string(&mut self) -> Result<String, Fault> {
        match self.peek() {
            b'"' => Ok(unescaped(self.token()).into_owned()),
            _ => Err(self.fault("a string")),
        }
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn boolean(&mut self) -> Result<bool, Fault> {
        match self.peek() {
            byte @ (b't' | b'f') => {
                self.token();
                Ok(byte == b't')
            }
            _ => Err(self.fault("true or false")),
        }
    }

    /// Returns the text of a number, or of a string in its place. `expected` names the expected value.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn number(&mut self, expected: &str) -> Result<Cow<'a, str>, Fault> {
        match self.peek() {
            b'"' | b'-' | b'0'..=b'9' => Ok(unescaped(self.token())),
            _ => Err(self.fault(expected)),
        }
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(expected)) }
    }

    fn fault(&mut self, expected: &str) -> Fault {
        let found = match self.peek() {
            b'{' => "an object",
            b'[' => "a list",
            b'"' => "a string",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            _ => "a number",
        };
        Fault::new(format!("must be {expected}, not {found}"))
    }
}

/// Creates a fault that quotes the value.
pub fn type_fault(expected: &str, found: &str) -> Fault {
    let mut shown: String = found.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Fault::new(format!("must be {expected}, not {shown:?}"))
}

/// Returns the text of a token: strings without quotes and escapes, with U+FFFD for invalid Unicode.
fn unescaped(token: &[u8]) -> Cow<'_, str> {
    let inner = token.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(token);
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(escape) = rest.iter().position(|byte| *byte == b'\\') {
        text.push_str(&String::from_utf8_lossy(rest.get(..escape).unwrap_or_default()));
        rest = rest.get(escape + 1..).unwrap_or_default();
        let Some((letter, remaining)) = rest.split_first() else { break };
        rest = remaining;
        text.push(match letter {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (character, length) = code_point(rest);
                rest = rest.get(length..).unwrap_or_default();
                character
            }
            other => char::from(*other),
        });
    }
    text.push_str(&String::from_utf8_lossy(rest));
    Cow::Owned(text)
}

/// Returns the character of the `\u` escape before this text, and the number of bytes of the text that belong to it.
fn code_point(text: &[u8]) -> (char, usize) {
    let unit = |digits: Option<&[u8]>| {
        digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let Some(first) = unit(text.get(..4)) else { return (char::REPLACEMENT_CHARACTER, 4.min(text.len())) };
    let second = (text.get(4..6) == Some(br"\u")).then(|| unit(text.get(6..10))).flatten();
    let mut pair = char::decode_utf16([first].into_iter().chain(second));
    match pair.next() {
        Some(Ok(character)) if character.len_utf16() == 2 => (character, 10),
        Some(Ok(character)) => (character, 4),
        _ => (char::REPLACEMENT_CHARACTER, 4),
    }
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
        ] {
            assert_eq!(Reader::new(written).string().unwrap(), expected);
        }
    }

    #[test]
    fn skipping_ends_behind_the_value() {
        for value in [
            "1",
            "-1.5e+3",
            "null",
            "true",
            "\"a]}\\\"\"",
            "[]",
            "{}",
            "[1, [\"]\", {\"a\": [ ] }]]",
            "{\"}\": {}}",
        ] {
            let text = format!(" {value} , 2");
            let mut json = Reader::new(text.as_bytes());
            json.skip();
            assert!(json.take(b',') && json.number("a number").unwrap() == "2", "{value}");
        }
    }

    #[test]
    fn faults_contain_the_path() {
        let mut json = Reader::new(br#"{"a": [1, {"b": "x"}], "c": 1}"#);
        let fault = json.attempt(|json| {
            json.members(|json, _| {
                json.elements(|json, index| match index {
                    0 => json.number("a number").map(drop),
                    _ => json.members(|json, _| json.boolean().map(drop)),
                })
            })
        });
        assert_eq!(fault.unwrap_err().to_string(), "a[1].b must be true or false, not a string");
        assert_eq!(json.peek(), 0);
    }
}
