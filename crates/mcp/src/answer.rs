//! Responses within the limit `max_tokens`. Further calls return the rest.

use std::cell::Cell;

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tracewarden_service::Tool;

use crate::failure::Failure;
use crate::span_text::visible_json;
use crate::tokens::tokens;

/// Token limit of a response. Text and structured content count together, because some agents' hosts show both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    tokens: usize,
    /// Whether the call did not set `max_tokens`.
    is_default: bool,
    /// Limit for a response that leaves nothing out, at least `tokens`.
    complete_tokens: usize,
}

/// Minimum and maximum of `max_tokens`.
const MIN_TOKENS: i64 = 1_000;
const MAX_TOKENS: i64 = 20_000;
const DEFAULT_TOKENS: i64 = 3_000;

/// Returns the argument for the largest response.
pub(crate) fn largest() -> (&'static str, Value) {
    ("max_tokens", Value::from(MAX_TOKENS))
}

impl Budget {
    /// Creates the budget for the argument `max_tokens`.
    ///
    /// # Errors
    /// If it is below the minimum.
    pub(crate) fn new(max_tokens: Option<i64>) -> Result<Self, Failure> {
        let wanted = max_tokens.unwrap_or(DEFAULT_TOKENS);
        if wanted < MIN_TOKENS {
            let detail = format!("at least {MIN_TOKENS}; leave it out for {DEFAULT_TOKENS}");
            return Err(Failure::argument("max_tokens", detail));
        }
        let tokens = wanted.min(MAX_TOKENS) as usize;
        Ok(Self { tokens, is_default: max_tokens.is_none(), complete_tokens: tokens })
    }

    /// Returns the budget with a doubled limit for a response that leaves nothing out, if the call did not set
    /// `max_tokens`.
    pub(crate) fn doubled_if_complete(self) -> Self {
        if self.is_default { Self { complete_tokens: 2 * self.tokens, ..self } } else { self }
    }

    /// Returns the largest response that fits, with at most `items` items. `render` is called with a number of items.
    /// With fewer items the response must not grow by more than the notes about omitted items.
    ///
    /// # Errors
    /// If no response fits; the caller must change the request.
    pub(crate) fn fit(
        self,
        items: usize,
        render: impl Fn(usize) -> Rendered,
    ) -> Result<CallToolResult, Failure> {
        self.fit_with_levels(&[()], items, |count, ()| render(count))
    }

    /// Like [`Budget::fit`], but tries several forms of decreasing size, and takes the first in which at least one
    /// item fits.
    ///
    /// # Errors
    /// See [`Budget::fit`].
    pub(crate) fn fit_with_levels<Level: Copy>(
        self,
        levels: &[Level],
        items: usize,
        render: impl Fn(usize, Level) -> Rendered,
    ) -> Result<CallToolResult, Failure> {
        let mut answer = None;
        for level in levels {
            let found = self.fit_most(items, |count| render(count, *level));
            let holds_any = found.as_ref().is_some_and(|(count, _)| *count > 0);
            answer = found.or(answer);
            if holds_any || items == 0 && answer.is_some() {
                break;
            }
        }
        answer.map(|(_, result)| result).ok_or_else(|| {
            let detail =
                "the arguments alone exceed the size of the answer; raise it, or send shorter arguments";
            Failure::argument("max_tokens", detail).after_reading()
        })
    }

    /// Whether the caller could ask for a larger response.
    pub(crate) fn can_grow(self) -> bool {
        self.tokens < MAX_TOKENS as usize
    }

    fn fit_most(self, items: usize, render: impl Fn(usize) -> Rendered) -> Option<(usize, CallToolResult)> {
        let within = |count: usize, tokens: usize| {
            let result = render(count).result()?;
            (token_count(&result) <= tokens).then_some((count, result))
        };
        // An item takes at least one token, so more items than tokens cannot fit.
        let items = items.min(self.complete_tokens);
        if let Some(all) = within(items, self.complete_tokens) {
            return Some(all);
        }
        let mut best = None;
        let (mut least, mut most) = (0, items);
        while least < most {
            let middle = least + (most - least) / 2;
            match within(middle, self.tokens) {
                Some(found) => (best, least) = (Some(found), middle + 1),
                None => most = middle,
            }
        }
        best
    }

    pub(crate) fn holds(self, rendered: Rendered) -> bool {
        rendered.result().is_some_and(|result| token_count(&result) <= self.tokens)
    }

    /// Returns a counter for the size of a response while it is created.
    pub(crate) fn meter(self) -> Meter {
        Meter::new(self.complete_tokens)
    }
}

fn token_count(result: &CallToolResult) -> usize {
    serde_json::to_string(result).map_or(usize::MAX, |text| tokens(&text))
}

/// Counts a lower limit of a response's tokens while it is created, so that rendering can stop early if the response
/// cannot fit: a span can be thousands of times larger than the part that is shown.
#[derive(Debug)]
pub(crate) struct Meter {
    most: usize,
    taken: Cell<usize>,
}

impl Meter {
    pub(crate) fn new(tokens: usize) -> Self {
        Self { most: tokens, taken: Cell::new(0) }
    }

    /// Creates a meter without a limit.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Counts a value. A text takes at least one token, and at least one per 64 bytes.
    pub(crate) fn add(&self, text: &str) {
        self.taken.set(self.taken.get() + 1 + text.len() / 64);
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.taken.get() > self.most
    }
}

/// A suggested next call.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct NextCall {
    /// Purpose of the call.
    pub(crate) to: &'static str,
    pub(crate) tool: &'static str,
    /// Complete arguments; use them unchanged.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) arguments: Value,
}

impl NextCall {
    pub(crate) fn new(to: &'static str, tool: Tool, arguments: Value) -> Self {
        Self { to, tool: tool.name(), arguments }
    }
}

/// Formats the next calls as text. Values from spans among their arguments stay inside JSON strings, with invisible
/// characters escaped.
pub(crate) fn next_text(next: &[NextCall]) -> String {
    next.iter()
        .map(|next| format!("next, {}: {} {}\n", next.to, next.tool, visible_json(&next.arguments)))
        .collect()
}

/// A response as text and as structured content, each complete: hosts differ in which of them a model sees.
pub(crate) struct Rendered(Option<(String, Value)>);

impl Rendered {
    /// Creates a response. It consists of strings and numbers, so serialisation cannot fail.
    pub(crate) fn new(text: String, structured: &impl Serialize) -> Self {
        Self(Some((text, serde_json::to_value(structured).unwrap_or_default())))
    }

    /// A response whose rendering stopped because it cannot fit.
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
    fn answers_contain_as_much_as_fits() {
        for max in [1_000, 1_500, 2_400, 20_000] {
            let budget = Budget::new(Some(max)).unwrap();
            let result = budget.fit(100_000, render).unwrap();
            let shown = count(&result);
            assert!(token_count(&result) <= max as usize && shown > 0);
            assert!(!budget.holds(render(shown + 1)), "{max}: {shown}");
        }
        let budget = Budget::new(None).unwrap();
        assert_eq!(count(&budget.fit(3, render).unwrap()), 3);
        assert_eq!(count(&budget.fit(0, render).unwrap()), 0);
        // All items, or as many as fit by default.
        let default_count = count(&budget.fit(100_000, render).unwrap());
        let stretched = budget.doubled_if_complete();
        assert_eq!(
            count(&stretched.fit(default_count + default_count / 2, render).unwrap()),
            default_count + default_count / 2
        );
        assert_eq!(count(&stretched.fit(3 * default_count, render).unwrap()), default_count);
        let explicit = Budget::new(Some(DEFAULT_TOKENS)).unwrap().doubled_if_complete();
        assert_eq!(count(&explicit.fit(default_count + default_count / 2, render).unwrap()), default_count);
    }

    #[test]
    fn a_meter_never_overestimates() {
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
            let meter = Meter::unlimited();
            meter.add(text);
            let taken = tokens(&format!("{:?},", text));
            assert!(meter.taken.get() <= taken, "{text}: {} of {taken}", meter.taken.get());
        }
    }

    #[test]
    fn small_limits_are_refused_and_large_ones_capped() {
        let refused = Budget::new(Some(999)).unwrap_err();
        assert!(refused.text().contains("max_tokens: at least 1000"), "{}", refused.text());
        assert_eq!(Budget::new(Some(1_000_000)).unwrap().tokens, 20_000);
        let large = || Rendered::new("x y ".repeat(10_000), &json!({}));
        assert!(Budget::new(None).unwrap().fit(9, |_| large()).is_err());
    }
}
