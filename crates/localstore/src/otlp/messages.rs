//! The OTLP trace messages, as far as the exporter's table stores them.
//!
//! Text fields have the type bytes, which protobuf encodes like strings: a text that is not UTF-8 must not fail the
//! whole request. [`text`] converts them. Fields that are not stored are skipped like unknown ones.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

/// Converts text to its stored form: bytes that are not UTF-8 become U+FFFD.
pub fn text(bytes: &Bytes) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A name and a value. Lists of them are in the sender's order, and keys may repeat.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Empty if the sender omitted it.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value of any type, or null.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<Value>,
}

/// A value that is not null.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    #[prost(bytes = "bytes", tag = "1")]
    String(Bytes),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    /// A double, including NaN and the infinities.
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Map(KeyValueList),
    #[prost(bytes = "bytes", tag = "7")]
    Bytes(Bytes),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}

/// The resource that sent spans.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The instrumentation scope that created spans.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub version: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub trace_id: Bytes,
    /// 8 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub span_id: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub trace_state: Bytes,
    /// 8 bytes, or empty for a root.
    #[prost(bytes = "bytes", tag = "4")]
    pub parent_span_id: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub name: Bytes,
    /// Index into [`SPAN_KINDS`], or a kind of a later version.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// Absent means unset.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub name: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// A reference to another span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Link {
    #[prost(bytes = "bytes", tag = "1")]
    pub trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub span_id: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub trace_state: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    #[prost(bytes = "bytes", tag = "2")]
    pub message: Bytes,
    /// Index into [`STATUS_CODES`], or a code of a later version.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// Span kinds by number: names in OTLP and in the exporter.
pub const SPAN_KINDS: [(&str, &str); 6] = [
    ("SPAN_KIND_UNSPECIFIED", "Unspecified"),
    ("SPAN_KIND_INTERNAL", "Internal"),
    ("SPAN_KIND_SERVER", "Server"),
    ("SPAN_KIND_CLIENT", "Client"),
    ("SPAN_KIND_PRODUCER", "Producer"),
    ("SPAN_KIND_CONSUMER", "Consumer"),
];

/// Status codes by number: names in OTLP and in the exporter.
pub const STATUS_CODES: [(&str, &str); 3] =
    [("STATUS_CODE_UNSET", "Unset"), ("STATUS_CODE_OK", "Ok"), ("STATUS_CODE_ERROR", "Error")];

/// The spans of a request that can be stored, and the number of rejected ones.
#[derive(Debug, Default)]
pub struct Batch {
    pub resources: Vec<ResourceSpans>,
    pub rejected: RejectedSpans,
}

/// The spans of one resource.
#[derive(Debug, Default)]
pub struct ResourceSpans {
    pub resource: Resource,
    pub scopes: Vec<ScopeSpans>,
}

/// The spans of one scope.
#[derive(Debug, Default)]
pub struct ScopeSpans {
    pub scope: Scope,
    /// In the sender's order. Each span has passed [`Span::check`].
    pub spans: Vec<Span>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct RejectedSpans {
    /// Number of spans. An unreadable list of spans counts as one.
    pub spans: i64,
    /// Position of the first rejected span, and the reason.
    pub reason: Option<String>,
}

impl RejectedSpans {
    pub fn add(&mut self, spans: usize, position: &RequestPosition, reason: &impl fmt::Display) {
        self.spans = self.spans.saturating_add(i64::try_from(spans).unwrap_or(i64::MAX));
        self.reason.get_or_insert_with(|| format!("{position}: {reason}"));
    }

    /// Returns a span that was read and can be stored; otherwise counts it.
    pub fn checked(
        &mut self,
        span: Result<Span, impl fmt::Display>,
        position: &RequestPosition,
    ) -> Option<Span> {
        let checked = span.map_err(|error| error.to_string());
        let checked = checked.and_then(|span| span.check().map(|()| span).map_err(str::to_owned));
        checked.inspect_err(|reason| self.add(1, position, reason)).ok()
    }
}

/// A position in a request, with indexes from 0 as in a path into its JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestPosition {
    pub resource: usize,
    /// Index of the scope within the resource.
    pub scope: Option<usize>,
    /// Index of the span within the scope.
    pub span: Option<usize>,
}

impl fmt::Display for RequestPosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "resourceSpans[{}]", self.resource)?;
        if let Some(scope) = self.scope {
            write!(out, ".scopeSpans[{scope}]")?;
        }
        self.span.map_or(Ok(()), |span| write!(out, ".spans[{span}]"))
    }
}

impl Span {
    /// Checks that the span can be stored.
    pub fn check(&self) -> Result<(), &'static str> {
        let valid = |id: &[u8], length: usize| id.len() == length && id.iter().any(|byte| *byte != 0);
        if !valid(&self.trace_id, 16) {
            return Err("a trace id must be 16 bytes, not all zero");
        }
        if !valid(&self.span_id, 8) {
            return Err("a span id must be 8 bytes, not all zero");
        }
        if !matches!(self.parent_span_id.len(), 0 | 8) {
            return Err("a parent span id must be empty or 8 bytes");
        }
        // The column stores nanoseconds as signed 64-bit integers.
        let times = [self.start_time_unix_nano, self.end_time_unix_nano]
            .into_iter()
            .chain(self.events.iter().map(|event| event.time_unix_nano));
        if times.into_iter().any(|time| i64::try_from(time).is_err()) {
            return Err("a time is after the year 2262");
        }
        Ok(())
    }
}
