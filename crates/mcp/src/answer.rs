//! Answers that fit: as much as `max_tokens` allows, the rest by further calls.

use std::cell::Cell;

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::span_text::visible_json;
use crate::tokens::tokens;

/// What an answer may take, text and structured content together, since some agents' hosts show both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    tokens: usize,
    /// Whether the call left it to us.
    usual: bool,
    /// What a whole answer may take, if more.
    whole: usize,
}

/// Least that is taken for an answer, and most.
const LEAST: i64 = 1_000;
pub(crate) const MOST: i64 = 20_000;
/// What an answer takes when the call does not say.
const USUAL: i64 = 3_000;

impl Budget {
    /// As the argument `max_tokens` says.
    ///
    /// # Errors
    /// Too little for any answer.
    pub(crate) fn of(max_tokens: Option<i64>) -> Result<Self, Failure> {
        match max_tokens {
            None => Ok(Self { tokens: USUAL as usize, usual: true, whole: USUAL as usize }),
            Some(wanted) if wanted < LEAST => {
                let detail = format!("at least {LEAST}; leave it out for {USUAL}");
                Err(Failure::argument("max_tokens", detail))
            }
            Some(wanted) => {
                let tokens = wanted.min(MOST) as usize;
                Ok(Self { tokens, usual: false, whole: tokens })
            }
        }
    }

    /// The same, but that an answer which leaves nothing out may take twice as much, where the call did not say.
    pub(crate) fn whole_if_twice(self) -> Self {
        if self.usual { Self { whole: 2 * self.tokens, ..self } } else { self }
    }

    /// The largest answer that fits, of those with as many items as there are, or fewer. It is rendered with the number
    /// of items, and must not grow when that gets smaller by more than what it says of those that are left out.
    ///
    /// # Errors
    /// When nothing fits: what is asked for has to be said differently.
    pub(crate) fn fit(
        self,
        items: usize,
        render: impl Fn(usize) -> Rendered,
    ) -> Result<CallToolResult, Failure> {
        self.fit_briefly(&[()], items, |count, ()| render(count))
    }

    /// The same, rendered in the first of several ways, each briefer than the one before, in which at least one item fits.
    ///
    /// # Errors
    /// As [`Budget::fit`].
    pub(crate) fn fit_briefly<Way: Copy>(
        self,
        ways: &[Way],
        items: usize,
        render: impl Fn(usize, Way) -> Rendered,
    ) -> Result<CallToolResult, Failure> {
        let mut answer = None;
        for way in ways {
            let found = self.most(items, |count| render(count, *way));
            let holds_any = found.as_ref().is_some_and(|(count, _)| *count > 0);
            answer = found.or(answer);
            if holds_any || items == 0 && answer.is_some() {
                break;
            }
        }
        answer.map(|(_, result)| result).ok_or_else(|| {
            let detail = "the arguments alone take more than the answer may; raise it, or ask with less";
            Failure::argument("max_tokens", detail).after_reading()
        })
    }

    /// Whether a larger answer could be asked for.
    pub(crate) fn can_grow(self) -> bool {
        self.tokens < MOST as usize
    }

    fn most(self, items: usize, render: impl Fn(usize) -> Rendered) -> Option<(usize, CallToolResult)> {
        let within = |count: usize, tokens: usize| {
            let result = render(count).result()?;
            (self.takes(&result) <= tokens).then_some((count, result))
        };
        let fits = |count: usize| within(count, self.tokens);
        // An item takes a token at least: what cannot fit need not be rendered to see that.
        let items = items.min(self.whole);
        let all = within(items, self.whole);
        if all.is_some() {
            return all;
        }
        let mut best = None;
        let (mut least, mut most) = (0, items);
        while least < most {
            let middle = least + (most - least) / 2;
            match fits(middle) {
                Some(found) => (best, least) = (Some(found), middle + 1),
                None => most = middle,
            }
        }
        best
    }

    /// Whether an answer would fit.
    pub(crate) fn holds(self, rendered: Rendered) -> bool {
        rendered.result().is_some_and(|result| self.takes(&result) <= self.tokens)
    }

    /// Counts what an answer of this size takes while it is made.
    pub(crate) fn meter(self) -> Meter {
        Meter::of(self.whole)
    }

    fn takes(self, result: &CallToolResult) -> usize {
        serde_json::to_string(result).map_or(usize::MAX, |text| tokens(&text))
    }
}

/// Counts what an answer takes at least while it is made, so that one that cannot fit is given up early: a span can be
/// thousands of times as large as what is shown of it.
#[derive(Debug)]
pub(crate) struct Meter {
    most: usize,
    taken: Cell<usize>,
}

impl Meter {
    pub(crate) fn of(tokens: usize) -> Self {
        Self { most: tokens, taken: Cell::new(0) }
    }

    /// Without an end.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self::of(usize::MAX)
    }

    /// Counts a value. No text takes less than a token, or a token for 64 bytes of it.
    pub(crate) fn add(&self, text: &str) {
        self.taken.set(self.taken.get() + 1 + text.len() / 64);
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.taken.get() > self.most
    }
}

/// A call that goes on from an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Next {
    /// What it gives.
    pub(crate) to: &'static str,
    pub(crate) tool: &'static str,
    /// Complete; use as they are.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) arguments: Value,
}

/// The calls that go on from an answer, in words. Values from spans among their arguments stay inside of JSON strings,
/// with what nobody sees escaped.
pub(crate) fn said(next: &[Next]) -> String {
    next.iter()
        .map(|next| format!("next, {}: {} {}\n", next.to, next.tool, visible_json(&next.arguments)))
        .collect()
}

/// An answer in both forms, each complete: hosts differ in which of them a model sees.
pub(crate) struct Rendered(Option<(String, Value)>);

impl Rendered {
    /// Of an answer, which is made of strings and numbers: serialising cannot fail.
    pub(crate) fn new(text: String, structured: &impl Serialize) -> Self {
        Self(Some((text, serde_json::to_value(structured).unwrap_or_default())))
    }

    /// One that was given up, since it cannot fit.
    pub(crate) fn too_large() -> Self {
        Self(None)
    }

    fn result(self) -> Option<CallToolResult> {
        let (text, structured) = self.0?;
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = Some(structured);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(count: usize) -> Rendered {
        let items: Vec<String> = (0..count).map(|at| format!("item {at}")).collect();
        Rendered::new(items.join("\n"), &json!({ "items": items }))
    }

    fn count(result: &CallToolResult) -> usize {
        result.structured_content.as_ref().unwrap()["items"].as_array().unwrap().len()
    }

    #[test]
    fn as_much_as_fits() {
        for max in [1_000, 1_500, 2_400, 20_000] {
            let budget = Budget::of(Some(max)).unwrap();
            let result = budget.fit(100_000, render).unwrap();
            let shown = count(&result);
            assert!(budget.takes(&result) <= max as usize && shown > 0);
            assert!(!budget.holds(render(shown + 1)), "{max}: {shown}");
        }
        let budget = Budget::of(None).unwrap();
        assert_eq!(count(&budget.fit(3, render).unwrap()), 3);
        assert_eq!(count(&budget.fit(0, render).unwrap()), 0);
        // All, or what is usual.
        let usual = count(&budget.fit(100_000, render).unwrap());
        let stretched = budget.whole_if_twice();
        assert_eq!(count(&stretched.fit(usual + usual / 2, render).unwrap()), usual + usual / 2);
        assert_eq!(count(&stretched.fit(3 * usual, render).unwrap()), usual);
        let said = Budget::of(Some(USUAL)).unwrap().whole_if_twice();
        assert_eq!(count(&said.fit(usual + usual / 2, render).unwrap()), usual);
    }

    #[test]
    fn a_meter_counts_no_more_than_is_taken() {
        for text in [
            "",
            "a",
            "true",
            " ",
            &" ".repeat(5_000),
            &"description ".repeat(99),
            &"é".repeat(200),
            &"aB".repeat(99),
        ] {
            let meter = Meter::endless();
            meter.add(text);
            let taken = tokens(&format!("{:?},", text));
            assert!(meter.taken.get() <= taken, "{text}: {} of {taken}", meter.taken.get());
        }
    }

    #[test]
    fn too_little_is_refused_and_too_much_capped() {
        let refused = Budget::of(Some(999)).unwrap_err();
        assert!(refused.text().contains("max_tokens: at least 1000"), "{}", refused.text());
        assert_eq!(Budget::of(Some(1_000_000)).unwrap().tokens, 20_000);
        let large = || Rendered::new("x y ".repeat(10_000), &json!({}));
        assert!(Budget::of(None).unwrap().fit(9, |_| large()).is_err());
    }
}
