//! A call of `svc_get_trace`: its offsets, and the calls that can follow it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};
use tracewarden_service::Tool;

use super::super::{Context, OpenedTrace};
use super::arguments::Arguments;
use crate::answer::{Budget, MAX_TOKENS, NextCall};
use crate::arguments;
use crate::failure::Failure;
use crate::trace::tree::Tree;

/// Data that all views need.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) arguments: &'a Arguments,
    pub(super) budget: Budget,
}

impl Call<'_> {
    /// Returns a hash that identifies the list, because an offset is only valid for the list that it was created for.
    fn list_hash(&self, opened: &OpenedTrace) -> String {
        let Arguments { trace_id, view, depth, root, .. } = self.arguments;
        let mut hasher = DefaultHasher::new();
        (trace_id, view.unwrap_or_default() as u8, depth, root, opened.outline.summary.span_count)
            .hash(&mut hasher);
        format!("{:08x}", hasher.finish() as u32)
    }

    /// Returns the offset of the page.
    ///
    /// # Errors
    /// If the cursor belongs to another list, or to this one before more spans arrived.
    pub(super) fn offset(&self, opened: &OpenedTrace) -> Result<usize, Failure> {
        let Some(cursor) = &self.arguments.cursor else { return Ok(0) };
        let offset = cursor.split_once('@').filter(|(_, list)| *list == self.list_hash(opened));
        offset.and_then(|(offset, _)| offset.parse().ok()).ok_or_else(|| {
            let detail =
                "it belongs to another trace, view, depth or root, or spans have arrived since; call without \
                 it to start again";
            Failure::argument("cursor", detail).after_reading()
        })
    }

    fn cursor_argument(&self, opened: &OpenedTrace, offset: usize) -> (&'static str, Value) {
        ("cursor", Value::from(format!("{offset}@{}", self.list_hash(opened))))
    }

    /// Returns the call for the next page, after `held` entries from `offset`. If no entry fitted, the same page in
    /// the largest size.
    pub(super) fn page(&self, opened: &OpenedTrace, offset: usize, held: usize) -> NextCall {
        let mut with = vec![self.cursor_argument(opened, offset + held)];
        let to = if held > 0 { "go on" } else { "see it in an answer that is large enough" };
        if held == 0 {
            with.push(("max_tokens", Value::from(MAX_TOKENS)));
        }
        NextCall {
            to,
            tool: Tool::GetTrace.name(),
            arguments: arguments::modified_arguments(self.context.sent, &[], &with),
        }
    }

    /// Returns the call for all lines, from the first.
    pub(super) fn in_order(&self, opened: &OpenedTrace) -> NextCall {
        let arguments =
            arguments::modified_arguments(self.context.sent, &[], &[self.cursor_argument(opened, 0)]);
        NextCall { to: "see all lines in order", tool: Tool::GetTrace.name(), arguments }
    }

    /// Returns the call for the same trace in another view.
    pub(super) fn other_view(&self, to: &'static str, with: &[(&str, Value)]) -> NextCall {
        let trace_id = ("trace_id", Value::from(self.arguments.trace_id.clone()));
        let with: Vec<(&str, Value)> = std::iter::once(trace_id).chain(with.iter().cloned()).collect();
        NextCall {
            to,
            tool: Tool::GetTrace.name(),
            arguments: arguments::modified_arguments(&Value::Null, &[], &with),
        }
    }

    /// Returns the call for all values of some spans; `None` if no id identifies them.
    pub(super) fn spans(&self, tree: &Tree, indexes: impl Iterator<Item = usize>) -> Option<NextCall> {
        let span_ids = tree.readable_ids(indexes);
        if span_ids.is_empty() {
            return None;
        }
        let arguments = json!({ "trace_id": self.arguments.trace_id, "span_ids": span_ids });
        Some(NextCall { to: "see all their values", tool: Tool::GetSpans.name(), arguments })
    }
}
