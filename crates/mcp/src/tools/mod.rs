//! The tools, a file each: arguments, answer, how it is said in text.

pub(crate) mod compare_traces;
pub(crate) mod critical_path;
pub(crate) mod explain_access;
pub(crate) mod field_values;
pub(crate) mod filter_schema;
pub(crate) mod get_spans;
pub(crate) mod get_trace;
pub(crate) mod query_traces;
pub(crate) mod span_values;
pub(crate) mod trace_stats;

use serde_json::Value;
use tracewarden_service::{OpenTrace, Principal, Service, Summary, Tool};

use crate::answer::{MOST, Next};
use crate::arguments::again;
use crate::failure::Failure;
use crate::numbers::{at, lasting, milliseconds};
use crate::span_text::{NO_NAME, name_or_none, one_line};
use crate::trace::tree::Tree;

/// What a call has to do with.
pub(crate) struct Context<'a> {
    pub(crate) service: &'a Service,
    pub(crate) principal: &'a Principal,
    /// Where people reach the service, without a trailing slash.
    pub(crate) origin: &'a str,
    pub(crate) tool: Tool,
    /// The arguments, as they were sent.
    pub(crate) sent: &'a Value,
}

/// How much is said of a trace: characters of names, and services that are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Brevity {
    pub(crate) name: usize,
    services: usize,
}

impl Brevity {
    /// Whether there is place for what could be done without.
    pub(crate) fn names_services(self) -> bool {
        self.services > 0
    }
}

/// What is tried until something fits.
pub(crate) const BREVITIES: [Brevity; 3] = [
    Brevity { name: 80, services: 10 },
    Brevity { name: 30, services: 3 },
    Brevity { name: 12, services: 0 },
];

/// A service and an operation as one name; either is absent where no column is bound that says it.
pub(crate) fn named_in(service: Option<&str>, name: Option<&str>, most: usize) -> String {
    let service = service.filter(|service| !service.is_empty()).map(|service| one_line(service, most));
    let name = name.map(|name| name_or_none(name, most));
    joined(service.as_deref(), name.as_deref())
}

/// The same of names that are ready to be shown.
pub(crate) fn joined(service: Option<&str>, name: Option<&str>) -> String {
    match (service.filter(|service| !service.is_empty()), name) {
        (None, None) => NO_NAME.to_owned(),
        (None, Some(name)) => name.to_owned(),
        (Some(service), None) => service.to_owned(),
        (Some(service), Some(name)) => format!("{service}: {name}"),
    }
}

/// A whole trace, in numbers.
#[derive(Debug, Clone, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Totals {
    pub(crate) trace_id: String,
    /// "service: operation" of the root span.
    pub(crate) root: String,
    pub(crate) start: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<f64>,
    /// Whether a span has a duration that is below zero or no number of nanoseconds, which counts as 0; absent where none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_invalid: Option<bool>,
    pub(crate) spans: u64,
    /// Spans that failed; absent where no column says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) errors: Option<u64>,
    /// Services that took part; some of them.
    pub(crate) services: Vec<String>,
    pub(crate) service_count: usize,
}

impl Totals {
    pub(crate) fn of(summary: &Summary, brevity: Brevity) -> Self {
        let services = summary.services.iter().take(brevity.services);
        Self {
            trace_id: one_line(&summary.trace_id, 256),
            root: named_in(summary.root_service.as_deref(), summary.root_name.as_deref(), brevity.name),
            start: at(summary.start),
            duration_ms: summary.duration_nanos.map(milliseconds),
            duration_invalid: summary.duration_invalid.then_some(true),
            spans: summary.span_count,
            errors: summary.error_count,
            services: services.map(|name| one_line(name, brevity.name)).collect(),
            service_count: summary.services.len(),
        }
    }

    /// In one line; `duration` in nanoseconds.
    pub(crate) fn text(&self, duration: Option<i64>) -> String {
        let mut text = self.trace_id.clone();
        text.push_str(&format!(" {}", self.start));
        if let Some(nanos) = duration {
            text.push_str(&format!(" {}", lasting(nanos)));
        }
        if self.duration_invalid.is_some() {
            text.push_str(" (a duration that is below zero or no number of nanoseconds counts as 0)");
        }
        text.push_str(&format!(", {}", counted(self.spans, "span")));
        if let Some(errors) = self.errors.filter(|errors| *errors > 0) {
            text.push_str(&format!(", {}", counted(errors, "error")));
        }
        text.push_str(&format!(" | {}", self.root));
        if self.service_count > 1 {
            let services: Vec<String> =
                self.services.iter().map(|name| name_or_none(name, usize::MAX)).collect();
            text.push_str(&format!(" | {} services: {}", self.service_count, services.join(", ")));
        }
        text
    }
}

/// "1 span", "2 spans".
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A trace that is being read.
pub(crate) struct Opened {
    pub(crate) trace: OpenTrace,
    pub(crate) seen: Seen,
}

/// A trace with its spans in a few words.
pub(crate) struct Seen {
    pub(crate) summary: Summary,
    pub(crate) tree: Tree,
}

impl Context<'_> {
    /// Of the calls that would go on, those that the caller may make and that are not this very call, in answers of the size
    /// that this one was asked in.
    pub(crate) fn offered(&self, next: Vec<Next>) -> Vec<Next> {
        let size = self.sent.get("max_tokens");
        let allowed = |next: &Next| {
            Tool::parse(next.tool).is_some_and(|tool| self.principal.require_tool(Some(tool)).is_ok())
        };
        let sized = |mut next: Next| {
            if let (Some(size), Some(arguments)) = (size, next.arguments.as_object_mut()) {
                arguments.entry("max_tokens").or_insert_with(|| size.clone());
            }
            next
        };
        let is_new = |next: &Next| next.tool != self.tool.name() || next.arguments != *self.sent;
        next.into_iter().filter(allowed).map(sized).filter(is_new).collect()
    }

    /// This call, for an answer that holds more.
    pub(crate) fn larger(&self) -> Next {
        let arguments = again(self.sent, &[], &[("max_tokens", Value::from(MOST))]);
        Next { to: "see more of it", tool: self.tool.name(), arguments }
    }

    /// Opens a trace and looks at all of it. Nothing of it may leave before it is closed.
    pub(crate) async fn open(&self, trace_id: &str, columns: Option<Vec<String>>) -> Result<Opened, Failure> {
        let mut trace = self.service.open_trace(self.principal, trace_id, columns).await?;
        let summary = trace.summary().await?;
        let spans = trace.brief().await?;
        let tree = busy(|| Tree::new(spans));
        Ok(Opened { trace, seen: Seen { summary, tree } })
    }
}

/// What a search and statistics say when they found nothing.
pub(crate) const NOTHING: &str = "None. Either nothing in this window matches, or your access does not open what does. Try a longer \
     `last`, fewer conditions, or svc_field_values to see which values there are.\n";

/// What is said of a trace that was looked at in part, since it is too large.
pub(crate) fn left_out(spans: u64) -> String {
    if spans == 0 {
        String::new()
    } else {
        format!("the trace is large: its last {spans} spans were not looked at\n")
    }
}

impl Seen {
    /// Spans that were not looked at.
    pub(crate) fn left_out(&self) -> u64 {
        self.summary.span_count.saturating_sub(self.tree.spans.len() as u64)
    }
}

/// Work that keeps a thread busy: of a large trace, some hundred milliseconds. Others go on meanwhile.
pub(crate) fn busy<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
