//! Traces as OTLP export requests.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    self as wire, ResourceSpans, ScopeSpans, span::SpanKind, status::StatusCode,
};

use super::attributes::{Attributes, Value};
use super::services::{Environment, Service};
use super::span::{Kind, Span, SpanId, Status, Trace, TraceId};

/// Maximum number of spans that [`super::Shop::batches`] puts into a request.
pub const SPANS_PER_REQUEST: usize = 5_000;

/// Schema URL of the semantic conventions that define the attribute names.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// One request.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The request to send.
    pub request: ExportTraceServiceRequest,
    /// Number of spans in the request.
    pub spans: usize,
}

type ResourceKey = (Service, Environment, u8);

/// Splits traces into requests with a limited number of spans. A trace may be split too, as in reality, where each service sends
/// its own spans.
pub struct Batches<Traces> {
    traces: Traces,
    max_spans: usize,
    /// Spans of the current trace that did not fit into the last request.
    rest: std::vec::IntoIter<Span>,
    current_trace: (TraceId, Environment),
}

impl<Traces: Iterator<Item = Trace>> Batches<Traces> {
    /// Creates requests with at most `max_spans` spans, and at least one.
    pub fn new(traces: Traces, max_spans: usize) -> Self {
        let current_trace = (TraceId([0; 16]), Environment::Production);
        Self { traces, max_spans: max_spans.max(1), rest: Vec::new().into_iter(), current_trace }
    }

    fn next_span(&mut self) -> Option<Span> {
        loop {
            if let Some(span) = self.rest.next() {
                return Some(span);
            }
            let trace = self.traces.next()?;
            self.current_trace = (trace.id, trace.environment);
            self.rest = trace.spans.into_iter();
        }
    }
}

impl<Traces: Iterator<Item = Trace>> Iterator for Batches<Traces> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut by_resource: BTreeMap<ResourceKey, Vec<wire::Span>> = BTreeMap::new();
        let mut spans = 0;
        while spans < self.max_spans {
            let Some(span) = self.next_span() else { break };
            let (trace_id, environment) = self.current_trace;
            let resource_key = (span.service, environment, span.instance);
            by_resource.entry(resource_key).or_default().push(span_of(trace_id, span));
            spans += 1;
        }
        let resource_spans = by_resource
            .into_iter()
            .map(|(resource_key, spans)| resource_spans_of(resource_key, spans))
            .collect();
        (spans > 0).then_some(Batch { request: ExportTraceServiceRequest { resource_spans }, spans })
    }
}

fn resource_spans_of((service, environment, instance): ResourceKey, spans: Vec<wire::Span>) -> ResourceSpans {
    let resource =
        Resource { attributes: attributes(service.resource(environment, instance)), ..Resource::default() };
    let scope = InstrumentationScope {
        name: format!("shop/{}", service.name()),
        version: service.version().to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA.to_owned() };
    ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans], schema_url: SCHEMA.to_owned() }
}

fn span_of(trace_id: TraceId, span: Span) -> wire::Span {
    const SAMPLED: u32 = 1;
    wire::Span {
        trace_id: trace_id.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map(|SpanId(id)| id.to_vec()).unwrap_or_default(),
        flags: SAMPLED,
        name: span.name.into_owned(),
        kind: kind(span.kind).into(),
        start_time_unix_nano: span.start_unix_nanos,
        end_time_unix_nano: span.end_unix_nanos,
        attributes: attributes(span.attributes),
        events: span
            .events
            .into_iter()
            .map(|event| wire::span::Event {
                time_unix_nano: event.time_unix_nanos,
                name: event.name.to_owned(),
                attributes: attributes(event.attributes),
                ..wire::span::Event::default()
            })
            .collect(),
        links: span
            .links
            .into_iter()
            .map(|link| wire::span::Link {
                trace_id: link.trace_id.0.to_vec(),
                span_id: link.span_id.0.to_vec(),
                attributes: attributes(link.attributes),
                flags: SAMPLED,
                ..wire::span::Link::default()
            })
            .collect(),
        status: Some(status(span.status)),
        ..wire::Span::default()
    }
}

fn kind(kind: Kind) -> SpanKind {
    match kind {
        Kind::Internal => SpanKind::Internal,
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
        Kind::Producer => SpanKind::Producer,
        Kind::Consumer => SpanKind::Consumer,
    }
}

fn status(status: Status) -> wire::Status {
    let (code, message) = match status {
        Status::Unset => (StatusCode::Unset, String::new()),
        Status::Ok => (StatusCode::Ok, String::new()),
        Status::Error(message) => (StatusCode::Error, message.into_owned()),
    };
    wire::Status { code: code.into(), message }
}

fn attributes(attributes: Attributes) -> Vec<KeyValue> {
    attributes
        .into_iter()
        .map(|(key, value)| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(any(value)) }),
            ..KeyValue::default()
        })
        .collect()
}

fn any(value: Value) -> any_value::Value {
    match value {
        Value::Text(text) => any_value::Value::StringValue(text.into_owned()),
        Value::Boolean(value) => any_value::Value::BoolValue(value),
        Value::Integer(value) => any_value::Value::IntValue(value),
        Value::Number(value) => any_value::Value::DoubleValue(value),
        Value::List(values) => any_value::Value::ArrayValue(ArrayValue {
            values: values
                .into_iter()
                .map(|value| AnyValue { value: Some(any_value::Value::StringValue(value.into_owned())) })
                .collect(),
        }),
    }
}
