//! Spans as rows of the exporter's table, in ClickHouse's `RowBinary`.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use super::attributes::{as_text, deduplicated};

/// What became of a request's spans.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The good ones, in `RowBinary`.
    pub data: Vec<u8>,
    /// How many they are.
    pub accepted: u64,
    /// How many were left out.
    pub rejected: i64,
    /// Why the first was left out.
    pub reason: Option<&'static str>,
}

/// Writes a request's spans.
pub fn write(request: &ExportTraceServiceRequest) -> Rows {
    let mut rows = Rows::default();
    let mut resource_map = Vec::new();
    for resource_spans in &request.resource_spans {
        let resource = resource_spans
            .resource
            .as_ref()
            .map(|resource| resource.attributes.as_slice())
            .unwrap_or_default();
        let service_name = resource
            .iter()
            .rev()
            .find(|attribute| attribute.key == "service.name")
            .map(|attribute| as_text(attribute.value.as_ref()));
        let service_name = service_name.unwrap_or_default();
        resource_map.clear();
        write_map(&mut resource_map, resource);
        for scope_spans in &resource_spans.scope_spans {
            let (scope_name, scope_version) = scope_spans
                .scope
                .as_ref()
                .map(|scope| (scope.name.as_str(), scope.version.as_str()))
                .unwrap_or_default();
            let context = Context {
                service_name: &service_name,
                resource_map: &resource_map,
                scope_name,
                scope_version,
            };
            for span in &scope_spans.spans {
                match fault(span) {
                    None => {
                        write_span(&mut rows.data, span, &context);
                        rows.accepted += 1;
                    }
                    Some(reason) => {
                        rows.rejected += 1;
                        rows.reason.get_or_insert(reason);
                    }
                }
            }
        }
    }
    rows
}

struct Context<'a> {
    service_name: &'a str,
    resource_map: &'a [u8],
    scope_name: &'a str,
    scope_version: &'a str,
}

/// Why a span cannot be stored.
fn fault(span: &Span) -> Option<&'static str> {
    let valid = |id: &[u8], length: usize| id.len() == length && id.iter().any(|byte| *byte != 0);
    if !valid(&span.trace_id, 16) {
        return Some("a trace id must be 16 bytes, not all zero");
    }
    if !valid(&span.span_id, 8) {
        return Some("a span id must be 8 bytes, not all zero");
    }
    if !matches!(span.parent_span_id.len(), 0 | 8) {
        return Some("a parent span id must be empty or 8 bytes");
    }
    // The column counts nanoseconds in 64 bits with a sign.
    let times = [span.start_time_unix_nano, span.end_time_unix_nano]
        .into_iter()
        .chain(span.events.iter().map(|event| event.time_unix_nano));
    if times.into_iter().any(|time| i64::try_from(time).is_err()) {
        return Some("a time is after the year 2262");
    }
    None
}

fn write_span(out: &mut Vec<u8>, span: &Span, context: &Context<'_>) {
    let status = span.status.clone().unwrap_or_default();
    write_time(out, span.start_time_unix_nano);
    write_id(out, &span.trace_id);
    write_id(out, &span.span_id);
    write_id(out, &span.parent_span_id);
    write_string(out, span.trace_state.as_bytes());
    write_string(out, span.name.as_bytes());
    write_string(out, kind(span.kind).as_bytes());
    write_string(out, context.service_name.as_bytes());
    out.extend_from_slice(context.resource_map);
    write_string(out, context.scope_name.as_bytes());
    write_string(out, context.scope_version.as_bytes());
    write_map(out, &span.attributes);
    out.extend_from_slice(&span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano).to_le_bytes());
    write_string(out, status_code(&status).as_bytes());
    write_string(out, status.message.as_bytes());
    write_events(out, &span.events);
    write_links(out, &span.links);
}

/// A nested column is one list for each of its fields.
fn write_events(out: &mut Vec<u8>, events: &[Event]) {
    write_length(out, events.len());
    events.iter().for_each(|event| write_time(out, event.time_unix_nano));
    write_length(out, events.len());
    events.iter().for_each(|event| write_string(out, event.name.as_bytes()));
    write_length(out, events.len());
    events.iter().for_each(|event| write_map(out, &event.attributes));
}

fn write_links(out: &mut Vec<u8>, links: &[Link]) {
    write_length(out, links.len());
    links.iter().for_each(|link| write_id(out, &link.trace_id));
    write_length(out, links.len());
    links.iter().for_each(|link| write_id(out, &link.span_id));
    write_length(out, links.len());
    links.iter().for_each(|link| write_string(out, link.trace_state.as_bytes()));
    write_length(out, links.len());
    links.iter().for_each(|link| write_map(out, &link.attributes));
}

/// The exporter's names.
fn kind(kind: i32) -> &'static str {
    match SpanKind::try_from(kind) {
        Ok(SpanKind::Unspecified) => "Unspecified",
        Ok(SpanKind::Internal) => "Internal",
        Ok(SpanKind::Server) => "Server",
        Ok(SpanKind::Client) => "Client",
        Ok(SpanKind::Producer) => "Producer",
        Ok(SpanKind::Consumer) => "Consumer",
        Err(_) => "",
    }
}

fn status_code(status: &Status) -> &'static str {
    match StatusCode::try_from(status.code) {
        Ok(StatusCode::Unset) => "Unset",
        Ok(StatusCode::Ok) => "Ok",
        Ok(StatusCode::Error) => "Error",
        Err(_) => "",
    }
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len());
    out.extend_from_slice(text);
}

/// An id in lower-case hexadecimal, an absent one (empty or all zero) as an empty string.
fn write_id(out: &mut Vec<u8>, id: &[u8]) {
    if id.iter().all(|byte| *byte == 0) {
        write_string(out, b"");
    } else {
        write_string(out, hex::encode(id).as_bytes());
    }
}

/// Nanoseconds since 1970; [`fault`] has checked the range.
fn write_time(out: &mut Vec<u8>, nanoseconds: u64) {
    out.extend_from_slice(&i64::try_from(nanoseconds).unwrap_or(i64::MAX).to_le_bytes());
}

fn write_map(out: &mut Vec<u8>, attributes: &[KeyValue]) {
    let attributes = deduplicated(attributes);
    write_length(out, attributes.len());
    for attribute in attributes {
        write_string(out, attribute.key.as_bytes());
        write_string(out, as_text(attribute.value.as_ref()).as_bytes());
    }
}
