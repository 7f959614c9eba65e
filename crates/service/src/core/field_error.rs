//! Errors in members of the input, with texts of bounded length.

use tracewarden_policy::Diagnostic;

/// Maximum length in bytes of client input that an error repeats. Names in requests can be as long as the request.
const MAX_TEXT_BYTES: usize = 2_048;
/// Number of bytes kept from the end of a truncated text: suggestions follow the name that the client sent.
const TAIL_BYTES: usize = 512;

/// Truncates a text to at most 2,048 bytes and an ellipsis; keeps the beginning and the end.
pub fn bounded(text: impl Into<String>) -> String {
    let text = text.into();
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    let head_end = text.floor_char_boundary(MAX_TEXT_BYTES - TAIL_BYTES);
    let tail_start = text.ceil_char_boundary(text.len() - TAIL_BYTES);
    let (head, _) = text.split_at(head_end);
    let (_, tail) = text.split_at(tail_start);
    format!("{head}…{tail}")
}

/// Error in one member of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON Pointer to the member.
    pub pointer: String,
    /// Stable code.
    pub code: &'static str,
    /// Message for the user.
    pub detail: String,
    /// Position in the text, for a policy.
    pub diagnostic: Option<Diagnostic>,
}

impl FieldError {
    pub(crate) fn policy(pointer: impl Into<String>, diagnostic: Diagnostic) -> Self {
        let detail = bounded(diagnostic.message.as_str());
        let pointer = bounded(pointer);
        Self { pointer, code: "policy_invalid", detail, diagnostic: Some(diagnostic) }
    }

    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(pointer, "invalid_value", detail)
    }

    pub(crate) fn new(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self { pointer: bounded(pointer), code, detail: bounded(detail), diagnostic: None }
    }
}

/// Formats "no column `x`; did you mean `y`?".
pub(crate) fn unknown(what: &str, name: &str, nearest: &[String]) -> String {
    if nearest.is_empty() {
        return format!("no {what} `{name}`");
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("no {what} `{name}`; did you mean {}?", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_truncated_at_a_character_and_keep_their_end() {
        let short = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(bounded(short.as_str()), short);
        for length in 0..4 {
            let name = "🦀".repeat(300_000) + &"y".repeat(length);
            let error = FieldError::new(
                format!("/{name}"),
                "unknown_field",
                unknown("field", &name, &["Name".to_owned()]),
            );
            for text in [&error.pointer, &error.detail] {
                assert!(
                    text.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && text.contains('…'),
                    "{}",
                    text.len()
                );
            }
            assert!(error.detail.ends_with("`; did you mean `Name`?"), "{}", error.detail);
        }
    }
}
