//! A call of `svc_get_trace`: its offsets, and the calls that can follow it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::iter;

use serde_json::{Value, json};
use tracewarden_service::Tool;

use super::super::span_values::omitted_text;
use super::super::{Context, DetailLevel, OpenedTrace, Totals, left_out};
use super::wire::{Answer, Arguments};
use crate::answer::{Budget, NextCall, Rendered, largest, next_text};
use crate::failure::Failure;
use crate::span_text::fenced;
use crate::trace::tree::Tree;

pub(super) struct Call<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) arguments: &'a Arguments,
    pub(super) budget: Budget,
}

impl Call<'_> {
    /// Puts a response together: text before the data from spans, these data after the totals, text after them.
    pub(super) fn rendered(
        &self,
        opened: &OpenedTrace,
        detail_level: DetailLevel,
        mut answer: Answer,
        (before, lines, after): (String, impl IntoIterator<Item = String>, &str),
        next: impl IntoIterator<Item = NextCall>,
    ) -> Rendered {
        let unseen = opened.outline.left_out();
        answer.trace = Totals::new(&opened.outline.summary, detail_level);
        answer.view = self.arguments.view.unwrap_or_default();
        answer.truncated |= unseen > 0;
        answer.next = self.context.allowed_calls(next);
        let lines = iter::once(answer.trace.text()).chain(lines);
        let text = before + &fenced(lines) + after + &left_out(unseen);
        let text = text + &omitted_text(&answer.omitted_columns) + &next_text(&answer.next);
        Rendered::new(text, &answer)
    }

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
        let cursor = self.cursor_argument(opened, offset + held);
        if held > 0 {
            return self.context.repeat("go on", &[], &[cursor]);
        }
        self.context.repeat("see it in an answer that is large enough", &[], &[cursor, largest()])
    }

    pub(super) fn in_order(&self, opened: &OpenedTrace) -> NextCall {
        self.context.repeat("see all lines in order", &[], &[self.cursor_argument(opened, 0)])
    }

    pub(super) fn other_view(&self, to: &'static str, name: &str, value: &str) -> NextCall {
        NextCall::new(to, Tool::GetTrace, json!({ "trace_id": self.arguments.trace_id, name: value }))
    }

    /// Returns the call for all values of some spans; `None` if no id identifies them.
    pub(super) fn spans(&self, tree: &Tree, indexes: impl Iterator<Item = usize>) -> Option<NextCall> {
        let span_ids = tree.readable_ids(indexes);
        if span_ids.is_empty() {
            return None;
        }
        let arguments = json!({ "trace_id": self.arguments.trace_id, "span_ids": span_ids });
        Some(NextCall::new("see all their values", Tool::GetSpans, arguments))
    }
}
