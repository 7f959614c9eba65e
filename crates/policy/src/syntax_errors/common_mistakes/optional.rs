//! CEL's optional values, which policies do not support: `m[?"k"].orValue("") == "x"`, `m.?k.hasValue()`.

use super::{Correction, MistakeFinder, is_string, is_word};

const COMPARISONS: [&str; 7] = ["==", "!=", "<", "<=", ">", ">=", "in"];

/// A value that may be absent, with the calls that follow it in the text.
struct Optional {
    /// The presence test.
    presence: String,
    /// The value.
    value: String,
    /// The default for an absent value.
    default: Option<String>,
    /// Calls on the value, with a leading dot; may be empty.
    rest: String,
    /// First token of the expression.
    first: usize,
    last: usize,
}

impl MistakeFinder<'_> {
    /// Replaces an optional value. The token at `at` is the bracket or the dot before a question mark.
    pub(super) fn optional(&self, at: usize) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let map = self.part(first, at - 1);
        let (key, value, end) = if self.token(at) == "[" {
            let close = self.matching_close(at)?;
            let key = self.part(at + 2, close.checked_sub(1)?).to_owned();
            let value = format!("{map}[{key}]");
            (key, value, close)
        } else {
            let name = self.token(at + 2);
            let value = format!("{map}.{name}");
            is_word(name).then_some(())?;
            (format!("\"{name}\""), value, at + 2)
        };
        let presence = format!("{key} in {map}");
        let correction = |first: usize, last: usize, replacement: String, preserves_meaning: bool| {
            // `!` has a higher precedence than the replacement.
            let negated = first.checked_sub(1).is_some_and(|before| self.token(before) == "!");
            let replacement = if negated { format!("({replacement})") } else { replacement };
            let message = "a policy has no optional values".to_owned();
            let (span, underline) = (self.span(first, last), self.span(at, at + 1));
            Correction { preserves_meaning, ..Correction::write(span, underline, replacement, message) }
        };
        let call = |end: usize, name: &str| {
            let is_called =
                self.token(end + 1) == "." && self.token(end + 2) == name && self.token(end + 3) == "(";
            is_called.then(|| self.matching_close(end + 3)).flatten()
        };
        if let Some(close) = call(end, "hasValue") {
            return Some(correction(first, close, presence, true));
        }
        let mut optional = Optional { presence, value, default: None, rest: String::new(), first, last: end };
        if let Some(close) = call(end, "orValue") {
            optional.default = Some(self.part(end + 4, close.checked_sub(1)?).to_owned());
            optional.last = close;
        } else if let Some(close) = call(end, "value") {
            optional.last = close;
        }
        let last = self.chain_end(optional.last);
        if last > optional.last {
            optional.rest = self.part(optional.last + 1, last).to_owned();
            optional.last = last;
        }
        // Another optional value in the chain, or `or(…)`: only suggests how to write the value.
        if optional.rest.contains('?') || optional.rest.starts_with(".or(") {
            let mut correction = correction(at + 1, at + 1, String::new(), false);
            correction.hint =
                format!("write `{}`: where it is absent, the condition is not satisfied", optional.value);
            return Some(correction);
        }
        let Some((first, last, replacement, preserves_meaning)) = self.condition_on(&optional) else {
            let Optional { presence, value, rest, first, last, .. } = optional;
            let mut correction = correction(first, last, format!("{value}{rest}"), false);
            correction.hint = format!("write `{presence} && …`, with `{value}` in the condition");
            return Some(correction);
        };
        Some(correction(first, last, replacement, preserves_meaning))
    }

    /// Returns the last token of the calls, members and keys that follow the token at `end`.
    fn chain_end(&self, end: usize) -> usize {
        let mut at = end;
        loop {
            at = match self.token(at + 1) {
                "." if is_word(self.token(at + 2)) => at + 2,
                "[" | "(" if self.adjacent(at) && self.token(at + 2) != "?" => {
                    match self.matching_close(at + 1) {
                        Some(close) => close,
                        None => return at,
                    }
                }
                _ => return at,
            };
        }
    }

    /// Returns the condition on an optional value: its first and last token, the replacement, and whether it is
    /// equivalent.
    fn condition_on(&self, optional: &Optional) -> Option<(usize, usize, String, bool)> {
        let Optional { presence, value, default, rest, first, last } = optional;
        let (first, last) = (*first, *last);
        let operator = self.token(last + 1);
        let (start, end, operator, operand) = if COMPARISONS.contains(&operator) {
            let end = self.operand_after(last + 2)?;
            (first, end, operator, self.part(last + 2, end))
        } else if let Some(before) = first.checked_sub(1)
            && let operator @ ("==" | "!=" | "in") = self.token(before)
        {
            let start = self.operand_before(before.checked_sub(1)?)?;
            if operator == "in" {
                let condition = format!("{} in {value}{rest}", self.part(start, before - 1));
                let is_false = rest.is_empty() && default.as_deref() == Some("[]");
                return Some((start, last, format!("{presence} && {condition}"), is_false));
            }
            (start, last, operator, self.part(start, before - 1))
        } else if rest.is_empty() {
            return None;
        } else {
            let condition = format!("{presence} && {value}{rest}");
            return Some((first, last, condition, self.is_false_where_absent(optional)));
        };
        if operand == "optional.none()" && default.is_none() {
            let test = if operator == "==" { format!("!({presence})") } else { presence.clone() };
            return Some((start, end, test, true));
        }
        let inner = operand.strip_prefix("optional.of(").and_then(|rest| rest.strip_suffix(')'));
        let condition = format!("{value}{rest} {operator} {}", inner.unwrap_or(operand));
        let equal = default.as_deref().map(unquoted) == Some(unquoted(inner.unwrap_or(operand)));
        let literal = |text: &str| is_string(text) && !text.contains('\\');
        let known = rest.is_empty()
            && match default {
                Some(default) => literal(default) && literal(operand),
                None => inner.is_some(),
            };
        // Result of the condition if the value is absent.
        let absent = match operator {
            "==" if known => Some(equal),
            "!=" if known => Some(!equal),
            _ => None,
        };
        let written = match absent {
            Some(true) => format!("(!({presence}) || {condition})"),
            _ => format!("{presence} && {condition}"),
        };
        Some((start, end, written, absent.is_some()))
    }

    /// Whether the calls on the default certainly return `false`.
    fn is_false_where_absent(&self, optional: &Optional) -> bool {
        let on_empty_text = [".startsWith(", ".endsWith(", ".contains("];
        match optional.default.as_deref() {
            Some("\"\"" | "''") => {
                on_empty_text.iter().any(|call| optional.rest.starts_with(call))
                    && !optional.rest.contains("\"\"")
            }
            Some("[]") => optional.rest.starts_with(".exists("),
            _ => false,
        }
    }
}

fn unquoted(literal: &str) -> &str {
    literal.trim_matches(['"', '\''])
}
