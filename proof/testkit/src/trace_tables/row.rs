//! Rows as JSON, and texts of ids.

use std::fmt::Display;
use std::fmt::Write as _;

use super::{SECOND, Value};

/// A row for `INSERT … FORMAT JSONEachRow`. A member can occur twice in a map, which a JSON library does not write.
#[derive(Debug, Default)]
pub struct JsonRow(String);

impl JsonRow {
    /// Adds a column with a value that is JSON.
    #[must_use]
    pub fn raw(mut self, column: &str, json: impl Display) -> Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        let _ = write!(self.0, "{}:{json}", quoted(column));
        self
    }

    /// Adds a column with a text.
    #[must_use]
    pub fn text(self, column: &str, text: impl AsRef<str>) -> Self {
        self.raw(column, quoted(text.as_ref()))
    }

    /// Adds a column with a text or null.
    #[must_use]
    pub fn optional(self, column: &str, text: Option<String>) -> Self {
        self.raw(column, text.map_or_else(|| "null".to_owned(), |text| quoted(&text)))
    }

    /// Adds a map whose values are texts.
    #[must_use]
    pub fn texts<'a>(self, column: &str, pairs: impl IntoIterator<Item = (&'static str, &'a Value)>) -> Self {
        self.raw(column, object(pairs.into_iter().map(|(key, value)| (key, quoted(&value.text())))))
    }

    /// Adds a map with values of their own types.
    #[must_use]
    pub fn values<'a>(
        self,
        column: &str,
        pairs: impl IntoIterator<Item = (&'static str, &'a Value)>,
    ) -> Self {
        self.raw(column, object(pairs.into_iter().map(|(key, value)| (key, value.json()))))
    }

    /// Adds the attributes of a resource as a map.
    #[must_use]
    pub fn resource(self, column: &str, pairs: &[(&'static str, String)]) -> Self {
        self.raw(column, object(pairs.iter().map(|(key, text)| (*key, quoted(text)))))
    }

    /// Adds two columns with arrays: the keys and the values of their own types.
    #[must_use]
    pub fn pairs<'a>(
        self,
        columns: [&str; 2],
        pairs: impl Iterator<Item = (&'static str, &'a Value)> + Clone,
    ) -> Self {
        let [keys, values] = columns;
        self.raw(keys, array(pairs.clone().map(|(key, _)| quoted(key))))
            .raw(values, array(pairs.map(|(_, value)| value.json())))
    }

    /// Adds two columns with arrays of texts.
    #[must_use]
    pub fn text_pairs<'a>(
        self,
        columns: [&str; 2],
        pairs: impl Iterator<Item = (&'static str, &'a Value)> + Clone,
    ) -> Self {
        let [keys, values] = columns;
        self.raw(keys, array(pairs.clone().map(|(key, _)| quoted(key))))
            .raw(values, array(pairs.map(|(_, value)| quoted(&value.text()))))
    }

    /// Returns the row.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Returns a JSON object; members can have equal names.
pub(super) fn object<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.map(|(key, json)| format!("{}:{json}", quoted(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn array(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}

/// Returns a text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns a trace id as 32 digits.
pub(super) fn hex32(trace: u128) -> String {
    format!("{trace:032x}")
}

/// Returns a span id as 16 digits.
pub(super) fn hex16(span: u64) -> String {
    format!("{span:016x}")
}

/// Returns an id as a UUID.
pub(super) fn uuid(id: u128) -> String {
    let digits = hex32(id);
    let mut parts = Vec::new();
    let mut rest = digits.as_str();
    for length in [8, 4, 4, 4, 12] {
        let (part, others) = rest.split_at(length);
        parts.push(part);
        rest = others;
    }
    parts.join("-")
}

/// Returns bytes in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4_usize {
            let digit = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or(0);
            let digit = DIGITS.get(digit).copied().map_or('=', char::from);
            text.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

/// Returns the ticks of a time: `DateTime64(p)` takes them as an unquoted integer.
pub(super) fn ticks(nanos: i64, precision: u32) -> i64 {
    nanos.div_euclid(SECOND / 10_i64.pow(precision))
}

/// Returns a duration as an unsigned column stores it: a negative one wraps around.
pub(super) fn wrapped(duration: i64) -> u64 {
    duration.cast_unsigned()
}
