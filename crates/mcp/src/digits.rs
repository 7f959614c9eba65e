//! Converts numbers for which a JSON parser would lose digits to text.
//!
//! The library parses each number as a 64-bit integer or a binary floating-point number: `1700010800.901161215`, a
//! time in nanoseconds, would be changed, and a larger number would make the whole message invalid. Tools accept
//! digits in text as the number that they represent, and report a number that no column can hold with the name of its
//! argument.

use std::borrow::Cow;

use tracewarden_model::{Decimal, InvalidDecimal};

/// Returns JSON text with such numbers converted to strings. Leaves invalid JSON to its parser.
pub(crate) fn quote_inexact_numbers(json: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let (mut rest, mut copied_to) = (json, 0);
    while let Some(at) = rest.find(|character: char| matches!(character, '"' | '-' | '0'..='9')) {
        let begins = rest.get(at..).unwrap_or_default();
        let length = if begins.starts_with('"') { string_length(begins) } else { number_length(begins) };
        let (token, after) = begins.split_at_checked(length).unwrap_or((begins, ""));
        if !token.starts_with('"') && loses_digits(token) {
            let start = json.len() - begins.len();
            kept.push_str(json.get(copied_to..start).unwrap_or_default());
            kept.push_str(&format!("\"{token}\""));
            copied_to = start + length;
        }
        rest = after;
    }
    if copied_to == 0 {
        return Cow::Borrowed(json);
    }
    kept.push_str(json.get(copied_to..).unwrap_or_default());
    Cow::Owned(kept)
}

/// Returns the length in bytes of the string literal at the beginning.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |inside| inside + 2)
}

/// Returns the length in bytes of the number at the beginning.
fn number_length(text: &str) -> usize {
    let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

fn loses_digits(token: &str) -> bool {
    let exact = Decimal::parse(token);
    if exact == Err(InvalidDecimal::NotANumber) {
        return false;
    }
    let read = serde_json::from_str::<serde_json::Number>(token).map(|number| number.to_string());
    !read.is_ok_and(|read| exact.is_ok() && Decimal::parse(&read) == exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_numbers_become_text() {
        for (sent, kept) in [
            (r#"{"a": 5, "b": [0.5, -1e3, 18446744073709551615]}"#, None),
            (r#""1700010800.901161215 \" 1700010800.901161215""#, None),
            ("not JSON: \"1", None),
            ("[01, 1e, 2.]", None),
            ("", None),
            ("[1e308,1e309,-1e400]", Some(r#"[1e308,"1e309","-1e400"]"#)),
            ("[9.9e308, 1e-999, 0e999]", Some(r#"["9.9e308", "1e-999", 0e999]"#)),
            ("\u{e9}1\u{e9}", None),
            ("1700010800.901161215", Some(r#""1700010800.901161215""#)),
            (
                r#"{"1": [1700010800.901161215,2], "b\\": -18446744073709551617.5}"#,
                Some(r#"{"1": ["1700010800.901161215",2], "b\\": "-18446744073709551617.5"}"#),
            ),
            (
                r#"[0.1000000000000000055511151231257827]"#,
                Some(r#"["0.1000000000000000055511151231257827"]"#),
            ),
        ] {
            assert_eq!(quote_inexact_numbers(sent), kept.unwrap_or(sent), "{sent}");
        }
    }
}
