//! Requests in protobuf's JSON, with hexadecimal ids as OTLP requires.
//!
//! Accepts everything that the mapping allows: names in lowerCamelCase or as in the schema, `null` or absence for a
//! default, integers as text and with a fraction or exponent, enumerations by name or number, both alphabets of base64,
//! unknown members. A span with an invalid value is left out without affecting the other spans.

mod numbers;
mod reader;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::IgnoredAny;

use self::numbers::{parse_double, parse_integer};
use self::reader::{Fault, Reader, type_fault};
use super::messages::{
    AnyValue, ArrayValue, Batch, Event, KeyValue, KeyValueList, Link, RequestPosition, Resource,
    ResourceSpans, SPAN_KINDS, STATUS_CODES, Scope, ScopeSpans, Span, Status, Value,
};

/// Maximum nesting of lists and maps in one attribute. The protobuf decoder has the same limit; writing them is
/// recursive.
const MAX_DEPTH: usize = 49;

/// Base64 as protobuf's JSON accepts it. The URL-safe alphabet is translated before decoding.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses an `ExportTraceServiceRequest`.
///
/// # Errors
/// When the text is not JSON, not an object, or `resourceSpans` is not a list.
pub fn read(text: &[u8]) -> Result<Batch, String> {
    serde_json::from_slice::<IgnoredAny>(text).map_err(|error| error.to_string())?;
    let mut batch = Batch::default();
    Reader::new(text)
        .members(|json, name| match name {
            "resourceSpans" | "resource_spans" => json.elements(|json, resource| {
                if !json.null() {
                    read_resource_spans(
                        json,
                        &mut batch,
                        RequestPosition { resource, ..RequestPosition::default() },
                    );
                }
                Ok(())
            }),
            _ => ignore(json),
        })
        .map_err(|fault| fault.to_string())?;
    Ok(batch)
}

fn ignore(json: &mut Reader<'_>) -> Result<(), Fault> {
    json.skip();
    Ok(())
}

/// Reads a resource with its spans. An error inside it affects only the spans that it concerns.
fn read_resource_spans(json: &mut Reader<'_>, batch: &mut Batch, position: RequestPosition) {
    let mut resource = Ok(Resource::default());
    let mut scopes = Vec::new();
    let read = json.attempt(|json| {
        json.members(|json, name| match name {
            "resource" => {
                resource = json.attempt(read_resource);
                Ok(())
            }
            "scopeSpans" | "scope_spans" => json.elements(|json, scope| {
                if !json.null() {
                    scopes.extend(read_scope_spans(
                        json,
                        batch,
                        RequestPosition { scope: Some(scope), ..position },
                    ));
                }
                Ok(())
            }),
            _ => ignore(json),
        })
    });
    if let Err(fault) = read {
        batch.rejected.add(1, &position, &fault);
    }
    match resource {
        Ok(resource) => batch.resources.push(ResourceSpans { resource, scopes }),
        // The spans cannot be stored without their resource.
        Err(fault) => {
            let spans = scopes.iter().map(|scope| scope.spans.len()).sum();
            batch.rejected.add(spans, &position, &format_args!("resource: {fault}"));
        }
    }
}

fn read_scope_spans(
    json: &mut Reader<'_>,
    batch: &mut Batch,
    position: RequestPosition,
) -> Option<ScopeSpans> {
    let mut scope = Ok(Scope::default());
    let mut spans = Vec::new();
    let read = json.attempt(|json| {
        json.members(|json, name| match name {
            "scope" => {
                scope = json.attempt(read_scope);
                Ok(())
            }
            "spans" => json.elements(|json, span| {
                if json.null() {
                    return Ok(());
                }
                let position = RequestPosition { span: Some(span), ..position };
                match json.attempt(read_span) {
                    Ok(span) => match span.check() {
                        Ok(()) => spans.push(span),
                        Err(reason) => batch.rejected.add(1, &position, &reason),
                    },
                    Err(fault) => batch.rejected.add(1, &position, &fault),
                }
                Ok(())
            }),
            _ => ignore(json),
        })
    });
    if let Err(fault) = read {
        batch.rejected.add(1, &position, &fault);
    }
    match scope {
        Ok(scope) => Some(ScopeSpans { scope, spans }),
        Err(fault) => {
            batch.rejected.add(spans.len(), &position, &format_args!("scope: {fault}"));
            None
        }
    }
}

fn read_resource(json: &mut Reader<'_>) -> Result<Resource, Fault> {
    let mut resource = Resource::default();
    json.members(|json, name| {
        match name {
            "attributes" => resource.attributes = read_attributes(json)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(resource)
}

fn read_scope(json: &mut Reader<'_>) -> Result<Scope, Fault> {
    let mut scope = Scope::default();
    json.members(|json, name| {
        match name {
            "name" => scope.name = read_text(json)?,
            "version" => scope.version = read_text(json)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(scope)
}

fn read_span(json: &mut Reader<'_>) -> Result<Span, Fault> {
    let mut span = Span::default();
    json.members(|json, name| {
        match name {
            "traceId" | "trace_id" => span.trace_id = read_id(json)?,
            "spanId" | "span_id" => span.span_id = read_id(json)?,
            "traceState" | "trace_state" => span.trace_state = read_text(json)?,
            "parentSpanId" | "parent_span_id" => span.parent_span_id = read_id(json)?,
            "name" => span.name = read_text(json)?,
            "kind" => span.kind = read_enumeration(json, &SPAN_KINDS)?,
            "startTimeUnixNano" | "start_time_unix_nano" => span.start_time_unix_nano = read_integer(json)?,
            "endTimeUnixNano" | "end_time_unix_nano" => span.end_time_unix_nano = read_integer(json)?,
            "attributes" => span.attributes = read_attributes(json)?,
            "events" => span.events = json.messages(read_event)?,
            "links" => span.links = json.messages(read_link)?,
            "status" => span.status = Some(read_status(json)?),
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(span)
}

fn read_event(json: &mut Reader<'_>) -> Result<Event, Fault> {
    let mut event = Event::default();
    json.members(|json, name| {
        match name {
            "timeUnixNano" | "time_unix_nano" => event.time_unix_nano = read_integer(json)?,
            "name" => event.name = read_text(json)?,
            "attributes" => event.attributes = read_attributes(json)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(event)
}

fn read_link(json: &mut Reader<'_>) -> Result<Link, Fault> {
    let mut link = Link::default();
    json.members(|json, name| {
        match name {
            "traceId" | "trace_id" => link.trace_id = read_id(json)?,
            "spanId" | "span_id" => link.span_id = read_id(json)?,
            "traceState" | "trace_state" => link.trace_state = read_text(json)?,
            "attributes" => link.attributes = read_attributes(json)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(link)
}

fn read_status(json: &mut Reader<'_>) -> Result<Status, Fault> {
    let mut status = Status::default();
    json.members(|json, name| {
        match name {
            "message" => status.message = read_text(json)?,
            "code" => status.code = read_enumeration(json, &STATUS_CODES)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(status)
}

fn read_attributes(json: &mut Reader<'_>) -> Result<Vec<KeyValue>, Fault> {
    read_key_values(json, 0)
}

fn read_key_values(json: &mut Reader<'_>, depth: usize) -> Result<Vec<KeyValue>, Fault> {
    json.messages(|json| {
        let mut entry = KeyValue::default();
        json.members(|json, name| {
            match name {
                "key" => entry.key = read_text(json)?,
                "value" => entry.value = Some(read_value(json, depth)?),
                _ => json.skip(),
            }
            Ok(())
        })?;
        Ok(entry)
    })
}

fn read_value(json: &mut Reader<'_>, depth: usize) -> Result<AnyValue, Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault::new(format!(
            "has lists and maps that are nested more than {MAX_DEPTH} levels deep"
        )));
    }
    let mut value = None;
    json.members(|json, name| {
        value = Some(match name {
            "stringValue" | "string_value" => Value::String(read_text(json)?),
            "boolValue" | "bool_value" => Value::Bool(json.boolean()?),
            "intValue" | "int_value" => Value::Int(read_integer(json)?),
            "doubleValue" | "double_value" => Value::Double(read_double(json)?),
            "bytesValue" | "bytes_value" => Value::Bytes(read_bytes(json)?),
            "arrayValue" | "array_value" => Value::Array(read_list(json, depth + 1)?),
            "kvlistValue" | "kvlist_value" => Value::Map(read_map(json, depth + 1)?),
            _ => return ignore(json),
        });
        Ok(())
    })?;
    Ok(AnyValue { value })
}

fn read_list(json: &mut Reader<'_>, depth: usize) -> Result<ArrayValue, Fault> {
    let mut values = Vec::new();
    json.members(|json, name| match name {
        // A null remains as an element.
        "values" => json.elements(|json, _| {
            values.push(if json.null() { AnyValue::default() } else { read_value(json, depth)? });
            Ok(())
        }),
        _ => ignore(json),
    })?;
    Ok(ArrayValue { values })
}

fn read_map(json: &mut Reader<'_>, depth: usize) -> Result<KeyValueList, Fault> {
    let mut values = Vec::new();
    json.members(|json, name| {
        match name {
            "values" => values = read_key_values(json, depth)?,
            _ => json.skip(),
        }
        Ok(())
    })?;
    Ok(KeyValueList { values })
}

fn read_text(json: &mut Reader<'_>) -> Result<Bytes, Fault> {
    json.string().map(Bytes::from)
}

fn read_id(json: &mut Reader<'_>) -> Result<Bytes, Fault> {
    let text = json.string()?;
    hex::decode(&text).map(Bytes::from).map_err(|_| type_fault("hexadecimal", &text))
}

fn read_bytes(json: &mut Reader<'_>) -> Result<Bytes, Fault> {
    let text = json.string()?;
    let standard = text.replace('-', "+").replace('_', "/");
    LENIENT_BASE64.decode(&standard).map(Bytes::from).map_err(|_| type_fault("base64", &text))
}

fn read_integer<T: TryFrom<i128>>(json: &mut Reader<'_>) -> Result<T, Fault> {
    let signed = T::try_from(-1).is_ok();
    let expected = if signed { "an integer of 64 bits" } else { "an integer of 64 bits, not negative" };
    let text = json.number(expected)?;
    parse_integer(&text).and_then(|value| T::try_from(value).ok()).ok_or_else(|| type_fault(expected, &text))
}

fn read_double(json: &mut Reader<'_>) -> Result<f64, Fault> {
    let text = json.number("a number")?;
    parse_double(&text).ok_or_else(|| type_fault("a number of 64 bits, NaN, Infinity or -Infinity", &text))
}

/// Reads an enumeration by name or number. Numbers of later versions are kept.
fn read_enumeration(json: &mut Reader<'_>, names: &[(&str, &str)]) -> Result<i32, Fault> {
    let expected = || {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("one of {}, or its number", all.join(", "))
    };
    let text = json.number("an enumeration's name or number")?;
    let named = names.iter().position(|(name, _)| *name == text).map(|position| position as i128);
    let number = named.or_else(|| parse_integer(&text)).and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| type_fault(&expected(), &text))
}
