//! Tests for null in the syntax of SQL and programming languages.

use super::{Correction, MistakeFinder};

impl MistakeFinder<'_> {
    /// Replaces `x IS NULL`, `x IS NOT NULL`, `x is "y"`.
    pub(super) fn is(&self, at: usize) -> Option<Correction> {
        let negated = self.token(at + 1).eq_ignore_ascii_case("not");
        let value = at + 1 + usize::from(negated);
        let underline = self.span(at, value - 1);
        if !self.token(value).eq_ignore_ascii_case("null") {
            let operator = if negated { "!=" } else { "==" }.to_owned();
            let message = self.not_allowed(at, value - 1);
            return Some(Correction::write(underline, underline, operator, message));
        }
        self.presence(at, value, negated)
    }

    /// Replaces `x IS NULL`, `x = NULL` and their negations. The operator is at `at`, the word for null at `value`.
    pub(super) fn presence(&self, at: usize, value: usize, negated: bool) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let subject = self.part(first, at - 1);
        // Only the access model tells which names belong to the map and which to the key.
        let key_of = || {
            let splits = subject.match_indices('.').take(8);
            let asked = splits.map(|(dot, _)| {
                let (map, key) = subject.split_at(dot);
                format!("\"{}\" in {map}", key.trim_start_matches('.'))
            });
            let mut asked = asked.peekable();
            let likely = asked.peek().cloned();
            // If the name is unknown, the checker reports that for the presence test.
            let unknown = || self.check(subject) == Err(None);
            asked.find(|asked| self.check(asked).is_ok()).or_else(|| likely.filter(|_| unknown()))
        };
        let presence = match self.token(at - 1) {
            "]" => {
                let open = self.matching_open(at - 1)?;
                let map = self.part(first, open.checked_sub(1)?);
                Some(format!("{} in {map}", self.part(open + 1, at - 2)))
            }
            _ => key_of(),
        };
        let (span, underline) = (self.span(first, value), self.span(at, value));
        let message = self.not_allowed(at, value);
        let Some(presence) = presence else {
            let hint = match subject.starts_with("user.") {
                true => "only attributes of the caller can be absent, as in `\"team\" in user.attributes`",
                false => "a column that is NULL satisfies no condition on it: leave this out",
            };
            let (replacement, hint) = (format!("{subject} == \"\""), hint.to_owned());
            return Some(Correction {
                span,
                replacement,
                underline,
                message,
                hint,
                preserves_meaning: false,
            });
        };
        let replacement = if negated { presence } else { format!("!({presence})") };
        Some(Correction::write(span, underline, replacement, message))
    }
}
