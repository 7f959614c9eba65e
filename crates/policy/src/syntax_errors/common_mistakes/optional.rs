//! CEL's optional values, which policies do not support: `m[?"k"].orValue("") == "x"`, `m.?k.hasValue()`.

use super::{Correction, MistakeFinder, is_word};

impl MistakeFinder<'_> {
    /// Replaces an optional value. The token at `at` is the bracket or the dot before a question mark.
    pub(super) fn optional(&self, at: usize) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let map = self.part(first, at - 1);
        let (key, value, mut last) = if self.token(at) == "[" {
            let close = self.matching_close(at)?;
            let key = self.part(at + 2, close.checked_sub(1)?).to_owned();
            let value = format!("{map}[{key}]");
            (key, value, close)
        } else {
            let name = self.token(at + 2);
            is_word(name).then_some(())?;
            (format!("\"{name}\""), format!("{map}.{name}"), at + 2)
        };
        let method = self.token(last + 2);
        if self.token(last + 1) == "." && ["hasValue", "orValue", "value"].contains(&method) {
            last = self.matching_close(last + 3)?;
        }
        let replacement = if method == "hasValue" { format!("({key} in {map})") } else { value.clone() };
        let hint = format!("the value is `{value}`; to test whether it is present, write `{key} in {map}`");
        let (span, underline) = (self.span(first, last), self.span(at, at + 1));
        let message = "a policy has no optional values".to_owned();
        Some(Correction {
            hint,
            preserves_meaning: false,
            ..Correction::write(span, underline, replacement, message)
        })
    }
}
