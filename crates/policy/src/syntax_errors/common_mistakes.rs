//! Common mistakes of users of other languages: `=`, `and`, `LIKE`, `IS NULL`, typographic quotes.
//!
//! Text that is not valid CEL is rewritten with a correction for each common mistake. If the result is valid CEL,
//! these were the only mistakes, and each is reported with its correction. Otherwise their meaning is uncertain, and
//! none is reported.

mod like;
mod literals;
mod optional;
mod presence;

use std::cell::Cell;

pub(crate) use like::like_as_call;

use crate::diagnostics::{Diagnostic, Span};
use crate::syntax_errors::{escape_invisible, invisible_replacement};

/// Maximum length of text that a suggestion repeats.
const MAX_SHOWN_CHARS: usize = 160;

/// Maximum number of checks of parts of a text, so that the time is bounded for any text.
const MAX_CHECKS: u32 = 24;

/// Checks whether a text would be accepted as a policy. If it has type errors only, returns the hint to show instead.
/// A suggestion is only offered if it would be accepted when pasted.
pub(crate) type SuggestionCheck<'a> = dyn Fn(&str) -> Result<(), Option<String>> + 'a;

/// A common mistake with its position and correction.
struct Correction {
    /// The range to replace.
    span: Span,
    replacement: String,
    /// The range to underline.
    underline: Span,
    message: String,
    hint: String,
    /// Whether the corrected text means what the user intended.
    preserves_meaning: bool,
}

impl Correction {
    /// A correction whose hint is to write the replacement.
    fn write(span: Span, underline: Span, replacement: String, message: String) -> Self {
        let hint = format!("write `{replacement}`");
        Self { span, replacement, underline, message, hint, preserves_meaning: true }
    }
}

/// Returns the common mistakes in a text if there are no other errors. `parses` tells whether a text is CEL, `check_suggestion`
/// returns the checker's result.
pub(super) fn common_mistakes(
    text: &str,
    tokens: &[Span],
    parses: impl Fn(&str) -> bool,
    check_suggestion: &SuggestionCheck<'_>,
) -> Option<Vec<Diagnostic>> {
    let finder = MistakeFinder { text, tokens, check_suggestion, checks: Cell::new(0) };
    let mut corrections: Vec<Correction> = Vec::new();
    for at in 0..tokens.len() {
        let covered_until = corrections.last().map_or(0, |correction| correction.span.end);
        if let Some(correction) = finder.correction(at)
            && correction.span.start >= covered_until
        {
            corrections.push(correction);
        }
    }
    if corrections.is_empty() {
        return None;
    }
    let mut corrected = String::with_capacity(text.len());
    let mut copied = 0;
    for correction in &corrections {
        corrected.push_str(text.get(copied..correction.span.start)?);
        corrected.push_str(&correction.replacement);
        copied = correction.span.end;
    }
    corrected.push_str(text.get(copied..)?);
    if !parses(&corrected) {
        return None;
    }
    let accepted = finder.check(&corrected).is_ok();
    if !accepted {
        for correction in &mut corrections {
            // The checker would reject this correction, and has a better one.
            if correction.hint == format!("write `{}`", correction.replacement)
                && let Err(Some(better)) = finder.check(&correction.replacement)
            {
                correction.hint = better;
            }
        }
    }
    let preserves_meaning = accepted && corrections.iter().all(|correction| correction.preserves_meaning);
    // The same mistake can occur many times in the text.
    let mut invisible_reported = false;
    corrections.retain(|correction| {
        let again = invisible_reported && correction.message == INVISIBLE_CHARACTER;
        invisible_reported |= correction.message == INVISIBLE_CHARACTER;
        !again
    });
    let short = corrected.chars().count() <= MAX_SHOWN_CHARS && !corrected.contains(char::is_control);
    let mut found: Vec<Diagnostic> = corrections
        .into_iter()
        .map(|correction| {
            Diagnostic::new(text, correction.underline, "syntax", correction.message)
                .with_hint(correction.hint)
        })
        .collect();
    // Add the whole corrected text once, unless a hint already contains it.
    if let Some(first) = found.first_mut()
        && let Some(hint) = &mut first.hint
        && preserves_meaning
        && short
        && !hint.contains(corrected.trim())
    {
        hint.push_str(&format!("; together: `{}`", corrected.trim()));
    }
    Some(found)
}

/// Message about invisible characters, reported once for all of them.
const INVISIBLE_CHARACTER: &str = "this character is invisible, or looks like a space but is not one";

struct MistakeFinder<'a> {
    text: &'a str,
    tokens: &'a [Span],
    check_suggestion: &'a SuggestionCheck<'a>,
    checks: Cell<u32>,
}

impl MistakeFinder<'_> {
    fn check(&self, corrected: &str) -> Result<(), Option<String>> {
        self.checks.set(self.checks.get() + 1);
        // Longer text is not offered, so it need not be checked.
        let offered = corrected.chars().nth(MAX_SHOWN_CHARS).is_none();
        if offered && self.checks.get() <= MAX_CHECKS {
            (self.check_suggestion)(corrected)
        } else {
            Err(None)
        }
    }

    fn token(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |span| span.of(self.text))
    }

    fn span(&self, first: usize, last: usize) -> Span {
        let start = self.tokens.get(first).map_or(0, |span| span.start);
        let end = self.tokens.get(last).map_or(start, |span| span.end);
        Span::new(start, end)
    }

    fn part(&self, first: usize, last: usize) -> &str {
        self.span(first, last).of(self.text)
    }

    /// Whether a token and the next one are adjacent.
    fn adjacent(&self, at: usize) -> bool {
        match (self.tokens.get(at), self.tokens.get(at + 1)) {
            (Some(this), Some(next)) => this.end == next.start,
            _ => false,
        }
    }

    /// Returns the message about the tokens from `first` to `last`.
    fn not_allowed(&self, first: usize, last: usize) -> String {
        format!("`{}` is not allowed here", self.part(first, last))
    }

    /// Returns the first token of the operand that ends with token `last`: a name with its members and keys, or a
    /// literal.
    fn operand_before(&self, last: usize) -> Option<usize> {
        let mut at = last;
        loop {
            match self.token(at) {
                "]" | ")" => {
                    at = self.matching_open(at)?;
                    let previous = at.checked_sub(1);
                    match previous.map(|previous| self.token(previous)) {
                        Some(token) if is_word(token) || token == "]" || token == ")" => at = previous?,
                        _ => return Some(at),
                    }
                    if self.token(at) == "]" || self.token(at) == ")" {
                        continue;
                    }
                }
                token if is_word(token) || is_literal(token) => {}
                _ => return None,
            }
            match at.checked_sub(2) {
                Some(before) if self.token(at - 1) == "." => at = before,
                _ => return Some(at),
            }
        }
    }

    /// Returns the last token of the operand that begins with token `first`.
    fn operand_after(&self, first: usize) -> Option<usize> {
        let mut at = match self.token(first) {
            "(" | "[" => self.matching_close(first)?,
            token if is_word(token) || is_literal(token) => first,
            _ => return None,
        };
        loop {
            match self.token(at + 1) {
                "." if is_word(self.token(at + 2)) => at += 2,
                "[" | "(" if self.adjacent(at) => at = self.matching_close(at + 1)?,
                _ => return Some(at),
            }
        }
    }

    fn matching_open(&self, close: usize) -> Option<usize> {
        self.matching(close, (0..=close).rev())
    }

    fn matching_close(&self, open: usize) -> Option<usize> {
        self.matching(open, open..self.tokens.len())
    }

    /// Returns the first of `places`, which begin with `bracket`, at which as many brackets are closed as opened.
    fn matching(&self, bracket: usize, mut places: impl Iterator<Item = usize>) -> Option<usize> {
        let is_open = |at| matches!(self.token(at), "(" | "[");
        let mut depth = 0_usize;
        places.find(|at| {
            match self.token(*at) {
                "(" | "[" | ")" | "]" if is_open(*at) == is_open(bracket) => depth += 1,
                "(" | "[" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    fn correction(&self, at: usize) -> Option<Correction> {
        let token = self.token(at);
        let here = self.span(at, at);
        let shown = escape_invisible(token);
        let not_allowed = || format!("`{shown}` is not allowed here");
        let replace_token = |replacement: &str, hint: &str| {
            let correction = Correction::write(here, here, replacement.to_owned(), not_allowed());
            Some(Correction { hint: hint.to_owned(), ..correction })
        };
        let replace_range = |first: usize, last: usize, replacement: String, message: String| {
            Some(Correction::write(self.span(first, last), here, replacement, message))
        };
        let replace_pair = |replacement: &str, hint: &str| {
            let (both, message) = (self.span(at, at + 1), self.not_allowed(at, at + 1));
            Some(Correction { span: both, underline: both, message, ..replace_token(replacement, hint)? })
        };
        let next = self.token(at + 1);
        let follows = at > 0;
        match token {
            "=" if next == "~" && self.adjacent(at) => self.method(at, at + 1, "matches"),
            "=" if next == ">" && self.adjacent(at) => replace_pair(">=", "write `>=` for greater or equal"),
            "=" if follows && matches!(self.token(at - 1), "==" | "!=") && self.adjacent(at - 1) => {
                let operator = self.token(at - 1);
                Some(Correction {
                    underline: self.span(at - 1, at),
                    message: format!("`{operator}=` is not allowed here"),
                    ..replace_token("", &format!("write `{operator}`"))?
                })
            }
            "=" | "==" if follows && is_null(next) => self.presence(at, at + 1, false),
            "!=" if follows && is_null(next) => self.presence(at, at + 1, true),
            "<" if follows && next == ">" && self.adjacent(at) && is_null(self.token(at + 2)) => {
                self.presence(at, at + 2, true)
            }
            "=" => replace_token("==", "write `==` to compare"),
            "<" if next == ">" && self.adjacent(at) => replace_pair("!=", "write `!=` for unequal"),
            "&" => replace_token("&&", "write `&&` for and"),
            "|" => replace_token("||", "write `||` for or"),
            "\u{201c}" | "\u{201d}" | "\u{201e}" | "\u{2018}" | "\u{2019}" | "\u{201a}" | "\u{ab}"
            | "\u{bb}" => self
                .curly_string(here)
                .or_else(|| replace_token("\"", "put strings in straight quotes: `\"text\"`")),
            "#" => Some(self.line_comment(at, at)),
            "[" | "." if follows && next == "?" => self.optional(at),
            "-" if next == "-" && self.adjacent(at) => Some(self.line_comment(at, at + 1)),
            _ if token.chars().all(|character| invisible_replacement(character).is_some()) => {
                let instead = token.chars().next().and_then(invisible_replacement)?;
                let correction = replace_token(instead, "delete it, or write an ordinary space")?;
                Some(Correction { message: INVISIBLE_CHARACTER.to_owned(), ..correction })
            }
            "in" if follows && self.token(at - 1) == "." && next == "(" => {
                let first = self.operand_before(at.checked_sub(2)?)?;
                let close = self.matching_close(at + 1)?;
                let list = self.as_list(at + 1, close);
                let replacement = format!("{} in {list}", self.part(first, at - 2));
                replace_range(first, close, replacement, "`in` is not a method".to_owned())
            }
            "`" if self.token(at + 2) == "`" && is_word(next) => {
                let whole = self.span(at, at + 2);
                Some(Correction::write(whole, whole, next.to_owned(), "a name has no quotes".to_owned()))
            }
            "`" => replace_token("", "names are written without quotes"),
            "$" if is_word(next) => replace_token("", "names are written without `$`"),
            ";" if at + 1 == self.tokens.len() => replace_token("", "leave the semicolon out"),
            "?" if next == "." => {
                let (last, kept) = if self.token(at + 2) == "[" { (at + 1, "[") } else { (at, ".") };
                let hint = format!("write `{kept}`: where a key is absent, the condition is not satisfied");
                Some(Correction { span: self.span(at, last), ..replace_token("", &hint)? })
            }
            "!" if next.eq_ignore_ascii_case("in") && follows => self.not_in(at, at + 2),
            _ if is_string(token) && at > 1 && self.token(at - 1) == "." => {
                let first = self.operand_before(at - 2)?;
                let hint = format!("write `{}[{token}]`", self.part(first, at - 2));
                Some(Correction {
                    span: self.span(at - 1, at),
                    ..replace_token(&format!("[{token}]"), &hint)?
                })
            }
            _ if is_string(token) => self.raw_string(at),
            _ if is_word(token) && (!follows || self.token(at - 1) != ".") => match token
                .to_ascii_lowercase()
                .as_str()
            {
                "and" => replace_token("&&", "write `&&`"),
                "or" => replace_token("||", "write `||`"),
                "where" if at == 0 => replace_token("", "write the condition by itself"),
                "eq" | "equals" if follows => replace_token("==", "write `==`"),
                "ne" if follows => replace_token("!=", "write `!=`"),
                "not" if next.eq_ignore_ascii_case("in") && follows => self.not_in(at, at + 2),
                "not" if next.eq_ignore_ascii_case("like") || next.eq_ignore_ascii_case("ilike") => {
                    self.like(at, at + 2, true)
                }
                "not" if next != "(" => {
                    let operand = self.operand_after(at + 1)?;
                    if matches!(self.token(operand + 1), "==" | "!=" | "<" | "<=" | ">" | ">=" | "in")
                        && let Some(end) = self.operand_after(operand + 2)
                    {
                        return replace_range(
                            at,
                            end,
                            format!("!({})", self.part(at + 1, end)),
                            not_allowed(),
                        );
                    }
                    // Depends on what follows, because `!` has a higher precedence than `not`.
                    let ends = operand + 1 >= self.tokens.len()
                        || matches!(self.token(operand + 1), ")" | "&&" | "||" | "and" | "or" | "AND" | "OR");
                    let span = Span::new(here.start, self.span(at + 1, at + 1).start);
                    let correction = replace_token("!", "write `!(…)` for not")?;
                    Some(Correction { span, preserves_meaning: ends, ..correction })
                }
                "in" if next == "(" && follows && self.is_list(at + 1) => {
                    let close = self.matching_close(at + 1)?;
                    let inner = if close > at + 2 { self.part(at + 2, close - 1) } else { "" };
                    let message = "a list is written in square brackets".to_owned();
                    Some(Correction {
                        underline: self.span(at + 1, close),
                        hint: format!("write `[{inner}]`"),
                        ..replace_range(at, close, format!("in [{inner}]"), message)?
                    })
                }
                "in" if token != "in" => replace_token("in", "write `in`"),
                "is" if follows => self.is(at),
                "like" | "ilike" if follows => self.like(at, at + 1, false),
                "between" if follows => {
                    let first = self.operand_before(at - 1)?;
                    let low = self.operand_after(at + 1)?;
                    let high = self
                        .operand_after(low + 2)
                        .filter(|_| self.token(low + 1).eq_ignore_ascii_case("and"))?;
                    let subject = self.part(first, at - 1);
                    let (least, most) = (self.part(at + 1, low), self.part(low + 2, high));
                    let replacement = format!("{subject} >= {least} && {subject} <= {most}");
                    replace_range(first, high, replacement, format!("`{token}` is not allowed here"))
                }
                "contains" | "includes" if follows && next != "(" => self.method(at, at, "contains"),
                "matches" | "regexp" | "rlike" if follows && next != "(" => self.method(at, at, "matches"),
                "startswith" if follows && next != "(" => self.method(at, at, "startsWith"),
                "endswith" if follows && next != "(" => self.method(at, at, "endsWith"),
                "starts" if next.eq_ignore_ascii_case("with") => self.method(at, at + 1, "startsWith"),
                "ends" if next.eq_ignore_ascii_case("with") => self.method(at, at + 1, "endsWith"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Replaces an operator such as `LIKE` between two values by a method call. `last` is the last token of the
    /// operator at `at`.
    fn method(&self, at: usize, last: usize, name: &str) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let end = self.operand_after(last + 1)?;
        let replacement = format!("{}.{name}({})", self.part(first, at - 1), self.part(last + 1, end));
        let message = format!("`{}` is not allowed between two values", self.part(at, last));
        Some(Correction::write(self.span(first, end), self.span(at, last), replacement, message))
    }

    /// Replaces `x NOT IN list` and `x !in list`. `list` is the first token of the list.
    fn not_in(&self, at: usize, list: usize) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let end = self.operand_after(list)?;
        let inside = match self.token(list) {
            "(" if end > list + 1 => self.as_list(list, end),
            _ => self.part(list, end).to_owned(),
        };
        let replacement = format!("!({} in {inside})", self.part(first, at - 1));
        let (underline, message) = (self.span(at, list - 1), self.not_allowed(at, list - 1));
        Some(Correction::write(self.span(first, end), underline, replacement, message))
    }

    /// Whether round brackets can only contain a list: several elements, or a single literal.
    fn is_list(&self, open: usize) -> bool {
        let Some(close) = self.matching_close(open) else { return false };
        let mut depth = 0_usize;
        for at in open..close {
            match self.token(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 1 => return true,
                _ => {}
            }
        }
        close <= open + 1 || (close == open + 2 && is_literal(self.token(open + 1)))
    }

    /// Returns the content of round brackets as a list.
    fn as_list(&self, open: usize, close: usize) -> String {
        let inner = if close > open + 1 { self.part(open + 1, close - 1) } else { "" };
        if self.is_list(open) { format!("[{inner}]") } else { inner.to_owned() }
    }
}

fn is_null(token: &str) -> bool {
    ["null", "none", "nil"].iter().any(|null| token.eq_ignore_ascii_case(null))
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic()) && !is_string(token)
}

fn is_string(token: &str) -> bool {
    token.ends_with(['"', '\'']) && token.len() > 1
}

fn is_literal(token: &str) -> bool {
    is_string(token) || token.starts_with(|first: char| first.is_ascii_digit())
}
