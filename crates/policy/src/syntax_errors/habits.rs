//! Habits from other languages: `=`, `and`, `LIKE`, `IS NULL`, quotes from a word processor.
//!
//! Text that is no CEL is written anew with each habit in CEL's form. When that is CEL, the habits were all that is
//! wrong: each is told, with what to write. Otherwise nothing is known about them, and nothing is said here.

use crate::diagnostics::{Diagnostic, Span};
use crate::syntax_errors::visible;

/// Longer text is not repeated as a suggestion.
const MAX_SHOWN_CHARS: usize = 160;

/// A habit at a place, and CEL's form of it.
struct Edit {
    /// What is replaced.
    span: Span,
    replacement: String,
    /// What is underlined.
    place: Span,
    message: String,
    hint: String,
    /// Whether the text with the replacement says what was meant.
    faithful: bool,
}

/// The habits in a text, when they are all that is wrong with it. `parses` says whether a text is CEL.
pub(super) fn habits(text: &str, tokens: &[Span], parses: impl Fn(&str) -> bool) -> Option<Vec<Diagnostic>> {
    let reader = Reader { text, tokens };
    let mut edits: Vec<Edit> = Vec::new();
    for at in 0..tokens.len() {
        let behind = edits.last().map_or(0, |edit| edit.span.end);
        if let Some(edit) = reader.edit(at)
            && edit.span.start >= behind
        {
            edits.push(edit);
        }
    }
    if edits.is_empty() {
        return None;
    }
    let mut written = String::with_capacity(text.len());
    let mut copied = 0;
    for edit in &edits {
        written.push_str(text.get(copied..edit.span.start)?);
        written.push_str(&edit.replacement);
        copied = edit.span.end;
    }
    written.push_str(text.get(copied..)?);
    if !parses(&written) {
        return None;
    }
    let faithful = edits.iter().all(|edit| edit.faithful);
    let short = written.chars().count() <= MAX_SHOWN_CHARS && !written.contains(char::is_control);
    let mut found: Vec<Diagnostic> = edits
        .into_iter()
        .map(|edit| Diagnostic::new(text, edit.place, "syntax", edit.message).with_hint(edit.hint))
        .collect();
    // The whole, once, where it says more than the part.
    if let Some(first) = found.first_mut()
        && let Some(hint) = &mut first.hint
        && faithful
        && short
        && !hint.contains(written.trim())
    {
        hint.push_str(&format!("; together: `{}`", written.trim()));
    }
    Some(found)
}

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Span],
}

impl Reader<'_> {
    fn token(&self, at: usize) -> &str {
        self.tokens.get(at).and_then(|span| self.text.get(span.start..span.end)).unwrap_or_default()
    }

    fn span(&self, first: usize, last: usize) -> Span {
        let start = self.tokens.get(first).map_or(0, |span| span.start);
        let end = self.tokens.get(last).map_or(start, |span| span.end);
        Span::new(start, end)
    }

    fn part(&self, first: usize, last: usize) -> &str {
        let span = self.span(first, last);
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Whether nothing stands between a token and the next.
    fn adjacent(&self, at: usize) -> bool {
        match (self.tokens.get(at), self.tokens.get(at + 1)) {
            (Some(this), Some(next)) => this.end == next.start,
            _ => false,
        }
    }

    /// The first token of the operand that ends with token `last`: a name with its members and keys, or a literal.
    fn operand_before(&self, last: usize) -> Option<usize> {
        let mut at = last;
        loop {
            match self.token(at) {
                "]" | ")" => {
                    at = self.opening(at)?;
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

    /// The last token of the operand that begins with token `first`.
    fn operand_after(&self, first: usize) -> Option<usize> {
        let mut at = match self.token(first) {
            "(" | "[" => self.closing(first)?,
            token if is_word(token) || is_literal(token) => first,
            _ => return None,
        };
        loop {
            match self.token(at + 1) {
                "." if is_word(self.token(at + 2)) => at += 2,
                "[" | "(" if self.adjacent(at) => at = self.closing(at + 1)?,
                _ => return Some(at),
            }
        }
    }

    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match self.token(at) {
                ")" | "]" => depth += 1,
                "(" | "[" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in open..self.tokens.len() {
            match self.token(at) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    fn edit(&self, at: usize) -> Option<Edit> {
        let token = self.token(at);
        let here = self.span(at, at);
        let shown = visible(token);
        let swap = |replacement: &str, hint: String| Edit {
            span: here,
            replacement: replacement.to_owned(),
            place: here,
            message: format!("`{shown}` cannot stand here"),
            hint,
            faithful: true,
        };
        let over = |first: usize, last: usize, replacement: String, message: String| Edit {
            span: self.span(first, last),
            hint: format!("write `{replacement}`"),
            replacement,
            place: self.span(at, at),
            message,
            faithful: true,
        };
        let next = self.token(at + 1);
        let follows = at > 0;
        match token {
            "=" if next == "~" && self.adjacent(at) => self.method(at, at + 1, "matches", "`=~`"),
            "=" if next == ">" && self.adjacent(at) => {
                let mut edit = swap(">=", "write `>=` for greater or equal".to_owned());
                edit.span = self.span(at, at + 1);
                edit.place = edit.span;
                edit.message = "`=>` cannot stand here".to_owned();
                Some(edit)
            }
            "=" if follows && matches!(self.token(at - 1), "==" | "!=") && self.adjacent(at - 1) => {
                let mut edit = swap("", format!("write `{}`", self.token(at - 1)));
                edit.place = self.span(at - 1, at);
                edit.message = format!("`{}=` cannot stand here", self.token(at - 1));
                Some(edit)
            }
            "=" => Some(swap("==", "write `==` to compare".to_owned())),
            "<" if next == ">" && self.adjacent(at) => {
                let mut edit = swap("!=", "write `!=` for unequal".to_owned());
                edit.span = self.span(at, at + 1);
                edit.place = edit.span;
                edit.message = "`<>` cannot stand here".to_owned();
                Some(edit)
            }
            "&" => Some(swap("&&", "write `&&` for and".to_owned())),
            "|" => Some(swap("||", "write `||` for or".to_owned())),
            "\u{201c}" | "\u{201d}" | "\u{201e}" | "\u{2018}" | "\u{2019}" | "\u{201a}" | "\u{ab}"
            | "\u{bb}" => Some(swap("\"", "put strings in straight quotes: `\"text\"`".to_owned())),
            "`" => Some(swap("", "names are written without quotes".to_owned())),
            "$" if is_word(next) => Some(swap("", "names are written without `$`".to_owned())),
            ";" if at + 1 == self.tokens.len() => {
                Some(swap("", "an expression ends without a sign".to_owned()))
            }
            "?" if next == "." => {
                Some(swap("", "write `.`: where a key is absent, the condition is not satisfied".to_owned()))
            }
            "!" if next.eq_ignore_ascii_case("in") && follows => self.not_in(at, at + 2),
            _ if is_string(token) && at > 1 && self.token(at - 1) == "." => {
                let first = self.operand_before(at - 2)?;
                let mut edit = over(at, at, format!("[{token}]"), format!("`{shown}` cannot stand here"));
                edit.span = self.span(at - 1, at);
                edit.hint = format!("write `{}[{token}]`", self.part(first, at - 2));
                Some(edit)
            }
            _ if is_string(token) => self.raw_string(at),
            _ if is_word(token) && (!follows || self.token(at - 1) != ".") => match token
                .to_ascii_lowercase()
                .as_str()
            {
                "and" => Some(swap("&&", "write `&&`".to_owned())),
                "or" => Some(swap("||", "write `||`".to_owned())),
                "where" if at == 0 => Some(swap("", "write the condition by itself".to_owned())),
                "eq" | "equals" if follows => Some(swap("==", "write `==`".to_owned())),
                "ne" if follows => Some(swap("!=", "write `!=`".to_owned())),
                "not" if next.eq_ignore_ascii_case("in") && follows => self.not_in(at, at + 2),
                "not" if next.eq_ignore_ascii_case("like") || next.eq_ignore_ascii_case("ilike") => {
                    self.like(at, at + 2, true)
                }
                "not" if next != "(" => {
                    let operand = self.operand_after(at + 1)?;
                    // With what follows it, since `!` binds more closely than `not`.
                    let ends = operand + 1 >= self.tokens.len()
                        || matches!(self.token(operand + 1), ")" | "&&" | "||" | "and" | "or" | "AND" | "OR");
                    let span = Span::new(here.start, self.span(at + 1, at + 1).start);
                    Some(Edit { span, faithful: ends, ..swap("!", "write `!(…)` for not".to_owned()) })
                }
                "in" if next == "(" && follows => {
                    let close = self.closing(at + 1)?;
                    let inner = if close > at + 2 { self.part(at + 2, close - 1) } else { "" };
                    let mut edit = over(
                        at,
                        close,
                        format!("in [{inner}]"),
                        "a list stands in square brackets".to_owned(),
                    );
                    edit.place = self.span(at + 1, close);
                    edit.hint = format!("write `[{inner}]`");
                    Some(edit)
                }
                "in" if token != "in" => Some(swap("in", "write `in`".to_owned())),
                "is" if follows => self.is(at),
                "like" | "ilike" if follows => self.like(at, at + 1, false),
                "between" if follows => {
                    let first = self.operand_before(at - 1)?;
                    let low = self.operand_after(at + 1)?;
                    let high = self
                        .operand_after(low + 2)
                        .filter(|_| self.token(low + 1).eq_ignore_ascii_case("and"))?;
                    let subject = self.part(first, at - 1);
                    let (low, high) = (self.part(at + 1, low), (high, self.part(low + 2, high)));
                    Some(over(
                        first,
                        high.0,
                        format!("{subject} >= {low} && {subject} <= {}", high.1),
                        format!("`{token}` cannot stand here"),
                    ))
                }
                "contains" | "includes" if follows && next != "(" => self.method(at, at, "contains", ""),
                "matches" | "regexp" | "rlike" if follows && next != "(" => {
                    self.method(at, at, "matches", "")
                }
                "startswith" if follows && next != "(" => self.method(at, at, "startsWith", ""),
                "endswith" if follows && next != "(" => self.method(at, at, "endsWith", ""),
                "starts" if next.eq_ignore_ascii_case("with") => self.method(at, at + 1, "startsWith", ""),
                "ends" if next.eq_ignore_ascii_case("with") => self.method(at, at + 1, "endsWith", ""),
                _ => None,
            },
            _ => None,
        }
    }

    /// `x LIKE-like "y"`, as a method; `last` is the last token of the operator at `at`.
    fn method(&self, at: usize, last: usize, name: &str, shown: &str) -> Option<Edit> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let end = self.operand_after(last + 1)?;
        let replacement = format!("{}.{name}({})", self.part(first, at - 1), self.part(last + 1, end));
        let shown = if shown.is_empty() { format!("`{}`", self.part(at, last)) } else { shown.to_owned() };
        Some(Edit {
            span: self.span(first, end),
            hint: format!("write `{replacement}`"),
            replacement,
            place: self.span(at, last),
            message: format!("{shown} cannot stand between two values"),
            faithful: true,
        })
    }

    /// `x NOT IN list`, `x !in list`: `list` is the list's first token.
    fn not_in(&self, at: usize, list: usize) -> Option<Edit> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let end = self.operand_after(list)?;
        let inside = match self.token(list) {
            "(" if end > list + 1 => format!("[{}]", self.part(list + 1, end - 1)),
            _ => self.part(list, end).to_owned(),
        };
        let replacement = format!("!({} in {inside})", self.part(first, at - 1));
        Some(Edit {
            span: self.span(first, end),
            hint: format!("write `{replacement}`"),
            replacement,
            place: self.span(at, list - 1),
            message: format!("`{}` cannot stand here", self.part(at, list - 1)),
            faithful: true,
        })
    }

    /// `x IS NULL`, `x IS NOT NULL`, `x is "y"`.
    fn is(&self, at: usize) -> Option<Edit> {
        let negated = self.token(at + 1).eq_ignore_ascii_case("not");
        let value = at + 1 + usize::from(negated);
        let place = self.span(at, value - 1);
        let message = format!("`{}` cannot stand here", self.part(at, value - 1));
        if !self.token(value).eq_ignore_ascii_case("null") {
            let operator = if negated { "!=" } else { "==" };
            let hint = format!("write `{operator}`");
            return Some(Edit {
                span: place,
                replacement: operator.to_owned(),
                place,
                message,
                hint,
                faithful: true,
            });
        }
        let first = self.operand_before(at.checked_sub(1)?)?;
        let subject = self.part(first, at - 1);
        let presence = match (self.token(at - 1), subject.rsplit_once('.')) {
            ("]", _) => {
                let open = self.opening(at - 1)?;
                let map = self.part(first, open.checked_sub(1)?);
                format!("{} in {map}", self.part(open + 1, at - 2))
            }
            (_, Some((map, key))) => format!("\"{key}\" in {map}"),
            (_, None) => {
                let hint = "a column that is NULL satisfies no condition on it: leave this out".to_owned();
                let replacement = format!("{subject} == \"\"");
                let place = self.span(at, value);
                let message = format!("`{}` cannot stand here", self.part(at, value));
                return Some(Edit {
                    span: self.span(first, value),
                    replacement,
                    place,
                    message,
                    hint,
                    faithful: false,
                });
            }
        };
        let replacement = if negated { presence } else { format!("!({presence})") };
        Some(Edit {
            span: self.span(first, value),
            hint: format!("write `{replacement}`"),
            replacement,
            place: self.span(at, value),
            message: format!("`{}` cannot stand here", self.part(at, value)),
            faithful: true,
        })
    }

    /// `x LIKE "a%"`: `pattern` is the token of the pattern.
    fn like(&self, at: usize, pattern: usize, negated: bool) -> Option<Edit> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let written = self.token(pattern);
        let inner = written.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
        let subject = self.part(first, at - 1);
        let plain = inner.trim_matches('%');
        let folded = self.part(at, pattern - 1).to_ascii_lowercase().contains("ilike");
        let call = match (inner.starts_with('%'), inner.ends_with('%') && inner.len() > 1) {
            _ if folded || plain.contains(['%', '_']) => {
                let escaped = plain.replace('%', ".*").replace('_', ".");
                let (begin, end) = (
                    if inner.starts_with('%') { "" } else { "^" },
                    if inner.ends_with('%') { "" } else { "$" },
                );
                format!("{subject}.matches(\"{}{begin}{escaped}{end}\")", if folded { "(?i)" } else { "" })
            }
            (true, true) => format!("{subject}.contains(\"{plain}\")"),
            (false, true) => format!("{subject}.startsWith(\"{plain}\")"),
            (true, false) => format!("{subject}.endsWith(\"{plain}\")"),
            (false, false) => format!("{subject} == \"{plain}\""),
        };
        let replacement = match (negated, call.contains(" == ")) {
            (true, true) => format!("!({call})"),
            (true, false) => format!("!{call}"),
            _ => call,
        };
        Some(Edit {
            span: self.span(first, pattern),
            hint: format!("write `{replacement}`"),
            replacement,
            place: self.span(at, pattern - 1),
            message: format!("`{}` cannot stand here", self.part(at, pattern - 1)),
            faithful: true,
        })
    }

    /// A string with an escape that CEL does not know, as patterns have them.
    fn raw_string(&self, at: usize) -> Option<Edit> {
        let written = self.token(at);
        if !written.starts_with(['"', '\'']) || !written.ends_with(['"', '\'']) || written.len() < 2 {
            return None;
        }
        let mut characters = written.char_indices();
        let mut unknown = None;
        while let Some((offset, character)) = characters.next() {
            if character == '\\'
                && let Some((_, escaped)) = characters.next()
            {
                if matches!(escaped, '"' | '\'' | '\\') {
                    return None;
                }
                if !"abfnrtv?`xXuU01234567".contains(escaped) && unknown.is_none() {
                    unknown = Some((offset, escaped));
                }
            }
        }
        let (offset, escaped) = unknown?;
        let start = self.tokens.get(at)?.start + offset;
        let replacement = format!("r{written}");
        Some(Edit {
            span: self.span(at, at),
            hint: format!("in a raw string a backslash is itself: write `{replacement}`"),
            replacement,
            place: Span::new(start, start + 1 + escaped.len_utf8()),
            message: format!("`\\{}` is no escape that CEL knows", visible(&escaped.to_string())),
            faithful: true,
        })
    }
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
