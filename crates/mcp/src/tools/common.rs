//! The context of a tool call, and parts of responses that several tools have.

use itertools::Itertools as _;
use serde_json::Value;
use tracewarden_service::{Principal, Service, Summary, Tool, TraceReader};

use crate::answer::{Budget, NextCall, largest};
use crate::arguments::modified_arguments;
use crate::failure::Failure;
use crate::numbers::{Nanos, time_text};
use crate::span_text::{NO_NAME, name_or_none, one_line};
use crate::trace::tree::Tree;

pub(crate) struct Context<'a> {
    pub(crate) service: &'a Service,
    pub(crate) principal: &'a Principal,
    /// Base URL under which users reach the service, without a trailing slash.
    pub(crate) origin: &'a str,
    pub(crate) tool: Tool,
    /// The arguments, as they were sent.
    pub(crate) sent: &'a Value,
}

/// Level of detail for a trace: characters of names, and number of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DetailLevel {
    pub(crate) name: usize,
    pub(crate) services: usize,
}

/// Levels that are tried in this order until a response fits.
pub(crate) const DETAIL_LEVELS: [DetailLevel; 3] = [
    DetailLevel { name: 80, services: 10 },
    DetailLevel { name: 30, services: 3 },
    DetailLevel { name: 12, services: 0 },
];

/// Joins service and operation to one name. Each is absent if no column is bound to it.
pub(crate) fn service_and_name(service: Option<&str>, name: Option<&str>, most: usize) -> String {
    let service = service.filter(|service| !service.is_empty()).map(|service| one_line(service, most));
    let name = name.map(|name| name_or_none(name, most));
    join_service_and_name(service.as_deref(), name.as_deref())
}

pub(crate) fn join_service_and_name(service: Option<&str>, name: Option<&str>) -> String {
    match (service.filter(|service| !service.is_empty()), name) {
        (None, None) => NO_NAME.to_owned(),
        (None, Some(name)) => name.to_owned(),
        (Some(service), None) => service.to_owned(),
        (Some(service), Some(name)) => format!("{service}: {name}"),
    }
}

/// Totals of a trace.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Totals {
    pub(crate) trace_id: String,
    /// "service: operation" of the root span.
    pub(crate) root: String,
    pub(crate) start: String,
    pub(crate) duration_ms: Option<Nanos>,
    /// Whether a span has a duration that is negative or not a number of nanoseconds, which counts as 0; absent if
    /// not.
    pub(crate) duration_invalid: Option<bool>,
    pub(crate) spans: u64,
    /// Number of failed spans; absent if no column tells.
    pub(crate) errors: Option<u64>,
    /// Some of the services in the trace.
    pub(crate) services: Vec<String>,
    pub(crate) service_count: usize,
}

impl Totals {
    pub(crate) fn new(summary: &Summary, detail_level: DetailLevel) -> Self {
        let services = summary.services.iter().take(detail_level.services);
        Self {
            trace_id: one_line(&summary.trace_id, 256),
            root: service_and_name(
                summary.root_service.as_deref(),
                summary.root_name.as_deref(),
                detail_level.name,
            ),
            start: time_text(summary.start),
            duration_ms: summary.duration_nanos.map(Nanos),
            duration_invalid: summary.duration_invalid.then_some(true),
            spans: summary.span_count,
            errors: summary.error_count,
            services: services.map(|name| one_line(name, detail_level.name)).collect(),
            service_count: summary.services.len(),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} {}", self.trace_id, self.start);
        text.extend(self.duration_ms.map(|duration| format!(" {duration}")));
        if self.duration_invalid.is_some() {
            text += " (a duration that is below zero or no number of nanoseconds counts as 0)";
        }
        text += &format!(", {}", pluralize(self.spans, "span"));
        let errors = self.errors.filter(|errors| *errors > 0);
        text.extend(errors.map(|errors| format!(", {}", pluralize(errors, "error"))));
        text += &format!(" | {}", self.root);
        if self.service_count > 1 {
            let services = self.services.iter().map(|name| name_or_none(name, usize::MAX)).join(", ");
            text += &format!(" | {} services: {services}", self.service_count);
        }
        text
    }
}

/// Formats a number with a noun: "1 span", "2 spans".
pub(crate) fn pluralize(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A trace that is being read.
pub(crate) struct OpenedTrace {
    pub(crate) trace: TraceReader,
    pub(crate) outline: TraceOutline,
}

/// A trace with the brief data of its spans.
pub(crate) struct TraceOutline {
    pub(crate) summary: Summary,
    pub(crate) tree: Tree,
}

impl Context<'_> {
    /// Returns this call without some of its arguments, and with others.
    pub(crate) fn repeat(&self, to: &'static str, without: &[&str], with: &[(&str, Value)]) -> NextCall {
        NextCall::new(to, self.tool, modified_arguments(self.sent, without, with))
    }

    /// As [`Self::allowed_calls`], with this call in the largest size if the response leaves something out.
    pub(crate) fn next_calls(
        &self,
        next: impl IntoIterator<Item = NextCall>,
        budget: Budget,
        is_cut: bool,
    ) -> Vec<NextCall> {
        let larger = (is_cut && budget.can_grow()).then(|| self.repeat("see more of it", &[], &[largest()]));
        self.allowed_calls(next.into_iter().chain(larger))
    }

    /// Filters suggested calls: keeps those that the caller may make and that differ from this call. Sets their
    /// `max_tokens` to the value of this call.
    pub(crate) fn allowed_calls(&self, next: impl IntoIterator<Item = NextCall>) -> Vec<NextCall> {
        let size = self.sent.get("max_tokens");
        let allowed = |next: &NextCall| {
            Tool::parse(next.tool).is_some_and(|tool| self.principal.require_tool(Some(tool)).is_ok())
        };
        let sized = |mut next: NextCall| {
            if let (Some(size), Some(arguments)) = (size, next.arguments.as_object_mut()) {
                arguments.entry("max_tokens").or_insert_with(|| size.clone());
            }
            next
        };
        let is_new = |next: &NextCall| next.tool != self.tool.name() || next.arguments != *self.sent;
        next.into_iter().filter(allowed).map(sized).filter(is_new).collect()
    }

    /// Opens a trace and reads the brief data of all its spans. No data may be sent before the trace is closed.
    pub(crate) async fn open(
        &self,
        trace_id: &str,
        columns: Option<Vec<String>>,
    ) -> Result<OpenedTrace, Failure> {
        let mut trace = self.service.traces().open_trace(self.principal, trace_id, columns).await?;
        let summary = trace.summary().await?;
        let spans = trace.brief().await?;
        let tree = run_blocking(|| Tree::new(spans));
        Ok(OpenedTrace { trace, outline: TraceOutline { summary, tree } })
    }
}

/// Text for searches and statistics without results.
pub(crate) const NO_RESULTS: &str = "None. Either nothing in this window matches, or you may not read the \
                                  matching traces. Try a longer `last`, fewer conditions, or \
                                  svc_field_values to see which values there are.\n";

/// Returns a note about the spans of a large trace that were not read.
pub(crate) fn left_out(spans: u64) -> String {
    match spans {
        0 => String::new(),
        _ => format!("the trace is large: its last {spans} spans were not read\n"),
    }
}

impl TraceOutline {
    /// Number of spans that were not read.
    pub(crate) fn left_out(&self) -> u64 {
        self.summary.span_count.saturating_sub(self.tree.spans.len() as u64)
    }
}

/// Runs CPU-bound work, some hundred milliseconds for a large trace, without blocking other tasks.
pub(crate) fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
