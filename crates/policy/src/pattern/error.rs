//! Explains why a pattern is rejected, for users who know the patterns of another engine better.

use regex_syntax::ast;

/// The reason for which a pattern is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// Byte range within the pattern; `None` for the whole pattern.
    pub place: Option<(usize, usize)>,
    /// Message in lower case, without a final period.
    pub message: String,
    /// Suggested correction.
    pub hint: String,
}

impl PatternError {
    pub(super) fn new(span: Option<&ast::Span>, message: impl Into<String>, hint: &str) -> Self {
        let place = span.map(|span| (span.start.offset, span.end.offset));
        Self { place, message: message.into(), hint: hint.to_owned() }
    }

    /// Returns the error for a pattern that the parser rejected.
    pub(super) fn syntax(text: &str, error: &ast::Error) -> Self {
        use ast::ErrorKind;
        let span = error.span();
        let at = span.start.offset;
        let before = text.get(..span.end.offset).unwrap_or_default();
        let escape = text.get(at..span.end.offset).unwrap_or_default();
        let (message, hint) = match error.kind() {
            ErrorKind::UnsupportedLookAround => (
                "look-ahead and look-behind are not supported",
                "join two conditions: `x.matches(\"…\") && !x.matches(\"…\")`",
            ),
            ErrorKind::UnsupportedBackreference => {
                ("backreferences are not supported", "write the repeated text out")
            }
            ErrorKind::RepetitionMissing if before.ends_with(['+', '*', '?']) && at > 0 => (
                "there is nothing before this to repeat",
                "leave it out; possessive repetitions are not supported",
            ),
            ErrorKind::RepetitionMissing => (
                "there is nothing before this to repeat",
                "for any text write `.*`, for the character itself put `\\` before it",
            ),
            ErrorKind::GroupUnclosed => {
                ("this group is not closed", "add `)`, or write `\\(` for the bracket itself")
            }
            ErrorKind::GroupUnopened => {
                ("there is no group that this closes", "write `\\)` for the bracket itself")
            }
            ErrorKind::ClassUnclosed => {
                ("these brackets are not closed", "add `]`, or write `\\[` for the bracket itself")
            }
            ErrorKind::ClassRangeInvalid => {
                ("the range is the wrong way round", "write the smaller character first")
            }
            ErrorKind::EscapeUnrecognized if escape == "\\Z" => {
                ("this escape is not known", "for the end of the text write `\\z`")
            }
            ErrorKind::EscapeUnrecognized => (
                "this escape is not known",
                "known are `\\d \\w \\s \\D \\W \\S \\b \\A \\z \\n\
                 \\t`, and `\\` before a punctuation character",
            ),
            ErrorKind::EscapeUnexpectedEof => {
                ("the pattern ends in a backslash", "write the backslash itself as `\\\\`")
            }
            ErrorKind::FlagUnrecognized => {
                ("this flag is not known", "the flags are `i`, `m` and `s`, as in `(?i)text`")
            }
            ErrorKind::NestLimitExceeded(_) => (
                "groups and repetitions nest too deeply",
                "write a simpler pattern, or several joined by `||`",
            ),
            ErrorKind::RepetitionCountInvalid => {
                ("the repetition is the wrong way round", "write the smaller count first, as in `{2,5}`")
            }
            _ => {
                let message = format!("not a valid pattern: {}", error.kind());
                return Self::new(Some(span), message, "patterns follow RE2's syntax");
            }
        };
        Self::new(Some(span), message, hint)
    }
}
