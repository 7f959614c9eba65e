//! A trace as the shop's services report it, before it is converted to the wire format.

use std::borrow::Cow;
use std::fmt;

use super::attributes::Attributes;
use super::services::{Environment, Service};

/// Identifies a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub [u8; 16]);

/// Identifies a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpanId(pub [u8; 8]);

impl fmt::Display for TraceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, out)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, out)
    }
}

fn hexadecimal(bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Span kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are OpenTelemetry's")]
pub enum Kind {
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

impl Kind {
    /// Returns the value that the exporter stores in `SpanKind`.
    pub fn as_exported(self) -> &'static str {
        match self {
            Self::Internal => "Internal",
            Self::Server => "Server",
            Self::Client => "Client",
            Self::Producer => "Producer",
            Self::Consumer => "Consumer",
        }
    }
}

/// Status of a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// No status was set.
    Unset,
    /// Explicitly successful.
    Ok,
    /// Failed, with a message.
    Error(Cow<'static, str>),
}

impl Status {
    /// Returns the value that the exporter stores in `StatusCode`.
    pub fn as_exported(&self) -> &'static str {
        match self {
            Self::Unset => "Unset",
            Self::Ok => "Ok",
            Self::Error(_) => "Error",
        }
    }
}

/// An event of a span.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Time in nanoseconds since 1970.
    pub time_unix_nanos: u64,
    /// Name, for example `exception`.
    pub name: &'static str,
    /// Attributes of the event.
    pub attributes: Attributes,
}

/// A reference to a span of another trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The other trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
    /// Attributes of the link.
    pub attributes: Attributes,
}

/// One span.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// Id, unique in the trace.
    pub id: SpanId,
    /// Parent span; `None` for the root.
    pub parent: Option<SpanId>,
    /// The service that reports the span.
    pub service: Service,
    /// Number of the service's instance.
    pub instance: u8,
    /// Name of the operation.
    pub name: Cow<'static, str>,
    /// Span kind.
    pub kind: Kind,
    /// Start in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// End in nanoseconds since 1970, never before the start.
    pub end_unix_nanos: u64,
    /// Status.
    pub status: Status,
    /// Attributes of the span.
    pub attributes: Attributes,
    /// Events of the span.
    pub events: Vec<Event>,
    /// Links to other traces.
    pub links: Vec<Link>,
}

impl Span {
    /// Returns the attribute's text as the exporter stores it; `None` if the span does not have the key.
    pub fn attribute(&self, key: &str) -> Option<Cow<'_, str>> {
        self.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_exported())
    }
}

/// One trace: its first span is the root.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// Id, unique in the sample.
    pub id: TraceId,
    /// Environment of the services.
    pub environment: Environment,
    /// Spans: the root first, the others in no particular order.
    pub spans: Vec<Span>,
}

impl Trace {
    /// Returns the earliest start of a span.
    pub fn start_unix_nanos(&self) -> u64 {
        self.spans.iter().map(|span| span.start_unix_nanos).min().unwrap_or_default()
    }

    /// Returns the latest end of a span.
    pub fn end_unix_nanos(&self) -> u64 {
        self.spans.iter().map(|span| span.end_unix_nanos).max().unwrap_or_default()
    }
}
