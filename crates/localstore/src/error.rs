//! Errors in ClickHouse's form: a number, and a text that begins with `Code: <number>. DB::Exception: `.

/// ClickHouse's error codes that this crate raises or checks, with their names.
pub mod code {
    #![allow(missing_docs)] // The names are ClickHouse's own.
    pub const CANNOT_READ_ALL_DATA: (i32, &str) = (33, "CANNOT_READ_ALL_DATA");
    pub const BAD_ARGUMENTS: (i32, &str) = (36, "BAD_ARGUMENTS");
    pub const SYNTAX_ERROR: (i32, &str) = (62, "SYNTAX_ERROR");
    pub const NOT_IMPLEMENTED: (i32, &str) = (48, "NOT_IMPLEMENTED");
    pub const UNKNOWN_FORMAT: (i32, &str) = (73, "UNKNOWN_FORMAT");
    pub const UNKNOWN_SETTING: (i32, &str) = (115, "UNKNOWN_SETTING");
    pub const TIMEOUT_EXCEEDED: (i32, &str) = (159, "TIMEOUT_EXCEEDED");
    pub const READONLY: (i32, &str) = (164, "READONLY");
    pub const TOO_MANY_SIMULTANEOUS_QUERIES: (i32, &str) = (202, "TOO_MANY_SIMULTANEOUS_QUERIES");
    pub const QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING: (i32, &str) =
        (216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING");
    pub const POCO_EXCEPTION: (i32, &str) = (1000, "POCO_EXCEPTION");
    pub const CANNOT_DECOMPRESS: (i32, &str) = (271, "CANNOT_DECOMPRESS");
    pub const INTO_OUTFILE_NOT_ALLOWED: (i32, &str) = (358, "INTO_OUTFILE_NOT_ALLOWED");
    pub const QUERY_WAS_CANCELLED: (i32, &str) = (394, "QUERY_WAS_CANCELLED");
    pub const QUERY_IS_TOO_LARGE: (i32, &str) = (229, "QUERY_IS_TOO_LARGE");
    pub const AUTHENTICATION_FAILED: (i32, &str) = (516, "AUTHENTICATION_FAILED");
    pub const STD_EXCEPTION: (i32, &str) = (1001, "STD_EXCEPTION");
}

/// An error of the engine, or an error of this crate in the engine's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// ClickHouse's error code.
    pub code: i32,
    /// `Code: <number>. DB::Exception: <text>. (<NAME>)`
    pub message: String,
}

impl EngineError {
    /// Creates an error in ClickHouse's form. `text` ends without a period.
    pub fn new((code, name): (i32, &str), text: impl std::fmt::Display) -> Self {
        Self { code, message: format!("Code: {code}. DB::Exception: {text}. ({name})") }
    }

    /// Creates an error that is unrelated to a statement.
    pub fn local(text: impl std::fmt::Display) -> Self {
        Self::new(code::STD_EXCEPTION, text)
    }

    /// Parses the engine's message.
    ///
    /// The engine checks the `SETTINGS` clause twice and wraps the first error in a second one with the same code; only
    /// the inner error is kept.
    pub fn from_message(message: &str) -> Self {
        let message = message.trim_end();
        let Some(code) = leading_code(message) else {
            return Self::local(message.trim_end_matches('.'));
        };
        let prefix = format!("Code: {code}. DB::Exception: ");
        let mut text = message;
        while let Some(inner) = text.strip_prefix(prefix.as_str())
            && inner.starts_with(prefix.as_str())
        {
            text = inner;
            if let Some(end) = text.rfind(" (version ") {
                text = text.get(..end).unwrap_or(text);
            }
        }
        Self { code, message: text.to_owned() }
    }

    /// Returns the HTTP status that ClickHouse sends for this error.
    pub fn http_status(&self) -> u16 {
        match self.code {
            194 => 401,
            192 | 193 | 497 | 512 | 516 => 403,
            // Malformed statements and values.
            6 | 8 | 15 | 25 | 26 | 27 | 36 | 37 | 38 | 41 | 44 | 53 | 62 | 72 | 117 | 123 | 167 | 168
            | 223 | 321 | 376 | 427 | 441 | 675 | 676 => 400,
            // A named object does not exist.
            46 | 47 | 50 | 56 | 60 | 63 | 73 | 78 | 81 | 115 | 152 | 336 | 511 => 404,
            229 => 413,
            48 => 501,
            76 | 209 | 439 => 503,
            381 => 411,
            159 => 408,
            779 => 415,
            _ => 500,
        }
    }
}

/// Returns the number in a leading `Code: <number>.`
fn leading_code(message: &str) -> Option<i32> {
    message.strip_prefix("Code: ")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_inner_error_of_a_doubled_one() {
        let doubled = "Code: 164. DB::Exception: Code: 164. DB::Exception: Cannot modify 'readonly' setting in readonly mode. (READONLY) (version 26.7.2.1). (READONLY)";
        let error = EngineError::from_message(doubled);
        assert_eq!(error.code, 164);
        assert_eq!(
            error.message,
            "Code: 164. DB::Exception: Cannot modify 'readonly' setting in readonly mode. (READONLY)"
        );
    }

    #[test]
    fn a_message_without_a_code_gets_one() {
        let error = EngineError::from_message("No active streaming query");
        assert_eq!(error.message, "Code: 1001. DB::Exception: No active streaming query. (STD_EXCEPTION)");
    }
}
