//! A trace as the shop's services would report it, before it is put into the wire format.

use std::borrow::Cow;
use std::fmt;

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

/// An attribute's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A string.
    Text(Cow<'static, str>),
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Number(f64),
    /// A list of strings.
    List(Vec<Cow<'static, str>>),
}

impl Value {
    /// The text that the OpenTelemetry exporter for ClickHouse stores: strings as they are, everything else as JSON.
    pub fn as_exported(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Boolean(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Integer(value) => Cow::Owned(value.to_string()),
            Self::Number(value) => Cow::Owned(serde_json::json!(value).to_string()),
            Self::List(values) => Cow::Owned(serde_json::json!(values).to_string()),
        }
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

/// Attributes in the order in which they were set; no key twice.
pub type Attributes = Vec<(&'static str, Value)>;

/// What a span did towards others.
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
    /// As the exporter stores it in `SpanKind`.
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

/// How a span ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// Nothing was said about it.
    Unset,
    /// Explicitly well.
    Ok,
    /// Badly, with a message.
    Error(Cow<'static, str>),
}

impl Status {
    /// As the exporter stores it in `StatusCode`.
    pub fn as_exported(&self) -> &'static str {
        match self {
            Self::Unset => "Unset",
            Self::Ok => "Ok",
            Self::Error(_) => "Error",
        }
    }
}

/// Something that happened during a span.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// In nanoseconds since 1970.
    pub time_unix_nanos: u64,
    /// For instance `exception`.
    pub name: &'static str,
    /// What is known about it.
    pub attributes: Attributes,
}

/// A reference to a span of another trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The other trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
    /// What is known about the reference.
    pub attributes: Attributes,
}

/// One span.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// Unique in the trace.
    pub id: SpanId,
    /// Absent for the root.
    pub parent: Option<SpanId>,
    /// The service that reports it.
    pub service: Service,
    /// Which of the service's instances.
    pub instance: u8,
    /// The operation.
    pub name: Cow<'static, str>,
    /// What it did towards others.
    pub kind: Kind,
    /// Start in nanoseconds since 1970.
    pub start_unix_nanos: u64,
    /// End in nanoseconds since 1970, never before the start.
    pub end_unix_nanos: u64,
    /// How it ended.
    pub status: Status,
    /// What is known about it.
    pub attributes: Attributes,
    /// What happened during it.
    pub events: Vec<Event>,
    /// References to other traces.
    pub links: Vec<Link>,
}

impl Span {
    /// The attribute's text as the exporter stores it; `None` when the span does not have the key.
    pub fn attribute(&self, key: &str) -> Option<Cow<'_, str>> {
        self.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_exported())
    }
}

/// One trace: its first span is the root.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// Unique in the sample.
    pub id: TraceId,
    /// Where it ran.
    pub environment: Environment,
    /// In no particular order but for the root, which is first.
    pub spans: Vec<Span>,
}

impl Trace {
    /// When its first span began.
    pub fn start_unix_nanos(&self) -> u64 {
        self.spans.iter().map(|span| span.start_unix_nanos).min().unwrap_or_default()
    }

    /// When its last span ended.
    pub fn end_unix_nanos(&self) -> u64 {
        self.spans.iter().map(|span| span.end_unix_nanos).max().unwrap_or_default()
    }
}
