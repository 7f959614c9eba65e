//! Converts spans to rows of the exporter's table, in ClickHouse's `RowBinary`.

use bytes::Bytes;

use super::attributes::{as_text, deduplicated};
use super::messages::{Batch, KeyValue, SPAN_KINDS, STATUS_CODES, Scope, ScopeSpans, Span, Status, text};

/// The spans of a request as rows in `RowBinary`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub data: Vec<u8>,
    pub count: u64,
}

pub fn write(batch: &Batch) -> Rows {
    let mut rows = Rows::default();
    let mut resource = Vec::new();
    for resource_spans in &batch.resources {
        let attributes = resource_spans.resource.attributes.as_slice();
        let service_name = attributes.iter().rev().find(|attribute| attribute.key == "service.name");
        let service_name =
            service_name.map(|attribute| as_text(attribute.value.as_ref())).unwrap_or_default();
        resource.clear();
        write_string(&mut resource, service_name.as_bytes());
        write_map(&mut resource, attributes);
        for ScopeSpans { scope, spans } in &resource_spans.scopes {
            for span in spans {
                write_span(&mut rows.data, span, &resource, scope);
                rows.count += 1;
            }
        }
    }
    rows
}

/// Writes a row. `resource` holds its columns `ServiceName` and `ResourceAttributes`.
fn write_span(out: &mut Vec<u8>, span: &Span, resource: &[u8], scope: &Scope) {
    let Status { message, code } = span.status.clone().unwrap_or_default();
    write_time(out, span.start_time_unix_nano);
    write_id(out, &span.trace_id);
    write_id(out, &span.span_id);
    write_id(out, &span.parent_span_id);
    write_text(out, &span.trace_state);
    write_text(out, &span.name);
    write_string(out, name(&SPAN_KINDS, span.kind).as_bytes());
    out.extend_from_slice(resource);
    write_text(out, &scope.name);
    write_text(out, &scope.version);
    write_map(out, &span.attributes);
    out.extend_from_slice(&span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano).to_le_bytes());
    write_string(out, name(&STATUS_CODES, code).as_bytes());
    write_text(out, &message);
    write_list(out, &span.events, |out, event| write_time(out, event.time_unix_nano));
    write_list(out, &span.events, |out, event| write_text(out, &event.name));
    write_list(out, &span.events, |out, event| write_map(out, &event.attributes));
    write_list(out, &span.links, |out, link| write_id(out, &link.trace_id));
    write_list(out, &span.links, |out, link| write_id(out, &link.span_id));
    write_list(out, &span.links, |out, link| write_text(out, &link.trace_state));
    write_list(out, &span.links, |out, link| write_map(out, &link.attributes));
}

/// Writes one field of a nested column, which consists of one list per field.
fn write_list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    write_length(out, items.len());
    items.iter().for_each(|item| write(out, item));
}

/// Returns the exporter's name for an enumeration's number; empty for a number of a later version.
fn name(names: &[(&str, &'static str)], number: i32) -> &'static str {
    usize::try_from(number).ok().and_then(|number| names.get(number)).map_or("", |(_, name)| name)
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    prost::encoding::encode_varint(length as u64, out);
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len());
    out.extend_from_slice(text);
}

fn write_text(out: &mut Vec<u8>, bytes: &Bytes) {
    write_string(out, text(bytes).as_bytes());
}

/// Writes an id in lower-case hexadecimal; an absent one (empty or all zero) as an empty string.
fn write_id(out: &mut Vec<u8>, id: &[u8]) {
    let text = if id.iter().all(|byte| *byte == 0) { String::new() } else { hex::encode(id) };
    write_string(out, text.as_bytes());
}

/// Writes nanoseconds since 1970; [`Span::check`] has checked the range.
fn write_time(out: &mut Vec<u8>, nanoseconds: u64) {
    out.extend_from_slice(&i64::try_from(nanoseconds).unwrap_or(i64::MAX).to_le_bytes());
}

fn write_map(out: &mut Vec<u8>, attributes: &[KeyValue]) {
    let attributes = deduplicated(attributes);
    write_length(out, attributes.len());
    for (key, value) in attributes {
        write_string(out, key.as_bytes());
        write_string(out, as_text(value).as_bytes());
    }
}
