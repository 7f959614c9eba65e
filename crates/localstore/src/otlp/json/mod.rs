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
use serde_json::value::RawValue;

use self::numbers::{parse_double, parse_integer};
use self::reader::{Fault, boolean, elements, members, message, messages, number, string, type_fault};
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

/// Parses an `ExportTraceServiceRequest`. Bytes that are not UTF-8 become U+FFFD. Errors: the text is not JSON or not an
/// object, or `resourceSpans` is not a list.
pub fn read(text: &[u8]) -> Result<Batch, String> {
    let text = String::from_utf8_lossy(text);
    let request: &RawValue = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut batch = Batch::default();
    members(request.get(), |name, json| match name {
        "resourceSpans" | "resource_spans" => elements(json, |resource, json| {
            read_resource_spans(json, &mut batch, RequestPosition { resource, ..RequestPosition::default() });
            Ok(())
        }),
        _ => Ok(()),
    })
    .map_err(|fault| fault.to_string())?;
    Ok(batch)
}

/// Reads a resource with its spans. An error inside it affects only the spans that it concerns.
fn read_resource_spans(json: &str, batch: &mut Batch, position: RequestPosition) {
    if json == "null" {
        return;
    }
    let mut resource = Ok(Resource::default());
    let mut scopes = Vec::new();
    let read = members(json, |name, json| {
        match name {
            "resource" => resource = read_resource(json),
            "scopeSpans" | "scope_spans" => elements(json, |scope, json| {
                let position = RequestPosition { scope: Some(scope), ..position };
                scopes.extend(read_scope_spans(json, batch, position));
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
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

fn read_scope_spans(json: &str, batch: &mut Batch, position: RequestPosition) -> Option<ScopeSpans> {
    if json == "null" {
        return None;
    }
    let mut scope = Ok(Scope::default());
    let mut spans = Vec::new();
    let read = members(json, |name, json| {
        match name {
            "scope" => scope = read_scope(json),
            "spans" => elements(json, |span, json| {
                let position = RequestPosition { span: Some(span), ..position };
                if json != "null" {
                    spans.extend(batch.rejected.checked(read_span(json), &position));
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
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

/// Defines a function that reads a message: names of a member, field that it sets, and function that reads its value.
macro_rules! message_reader {
    ($reader:ident: $message:ty { $($($member:literal)|+ => $field:ident = $read:expr,)+ }) => {
        fn $reader(json: &str) -> Result<$message, Fault> {
            message(json, |message: &mut $message, name, json| {
                match name {
                    $($($member)|+ => message.$field = $read(json)?,)+
                    _ => {}
                }
                Ok(())
            })
        }
    };
}

message_reader!(read_resource: Resource {
    "attributes" => attributes = read_attributes,
});

message_reader!(read_scope: Scope {
    "name" => name = read_text,
    "version" => version = read_text,
});

message_reader!(read_span: Span {
    "traceId" | "trace_id" => trace_id = read_id,
    "spanId" | "span_id" => span_id = read_id,
    "traceState" | "trace_state" => trace_state = read_text,
    "parentSpanId" | "parent_span_id" => parent_span_id = read_id,
    "name" => name = read_text,
    "kind" => kind = |json| read_enumeration(json, &SPAN_KINDS),
    "startTimeUnixNano" | "start_time_unix_nano" => start_time_unix_nano = read_integer,
    "endTimeUnixNano" | "end_time_unix_nano" => end_time_unix_nano = read_integer,
    "attributes" => attributes = read_attributes,
    "events" => events = |json| messages(json, read_event),
    "links" => links = |json| messages(json, read_link),
    "status" => status = |json| read_status(json).map(Some),
});

message_reader!(read_event: Event {
    "timeUnixNano" | "time_unix_nano" => time_unix_nano = read_integer,
    "name" => name = read_text,
    "attributes" => attributes = read_attributes,
});

message_reader!(read_link: Link {
    "traceId" | "trace_id" => trace_id = read_id,
    "spanId" | "span_id" => span_id = read_id,
    "traceState" | "trace_state" => trace_state = read_text,
    "attributes" => attributes = read_attributes,
});

message_reader!(read_status: Status {
    "message" => message = read_text,
    "code" => code = |json| read_enumeration(json, &STATUS_CODES),
});

fn read_attributes(json: &str) -> Result<Vec<KeyValue>, Fault> {
    read_key_values(json, 0)
}

fn read_key_values(json: &str, depth: usize) -> Result<Vec<KeyValue>, Fault> {
    messages(json, |json| {
        message(json, |entry: &mut KeyValue, name, json| {
            match name {
                "key" => entry.key = read_text(json)?,
                "value" => entry.value = Some(read_value(json, depth)?),
                _ => {}
            }
            Ok(())
        })
    })
}

fn read_value(json: &str, depth: usize) -> Result<AnyValue, Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault::new(format!(
            "has lists and maps that are nested more than {MAX_DEPTH} levels deep"
        )));
    }
    message(json, |any: &mut AnyValue, name, json| {
        any.value = Some(match name {
            "stringValue" | "string_value" => Value::String(read_text(json)?),
            "boolValue" | "bool_value" => Value::Bool(boolean(json)?),
            "intValue" | "int_value" => Value::Int(read_integer(json)?),
            "doubleValue" | "double_value" => Value::Double(read_double(json)?),
            "bytesValue" | "bytes_value" => Value::Bytes(read_bytes(json)?),
            "arrayValue" | "array_value" => Value::Array(read_list(json, depth + 1)?),
            "kvlistValue" | "kvlist_value" => Value::Map(read_map(json, depth + 1)?),
            _ => return Ok(()),
        });
        Ok(())
    })
}

fn read_list(json: &str, depth: usize) -> Result<ArrayValue, Fault> {
    message(json, |list: &mut ArrayValue, name, json| match name {
        // A null remains as an element.
        "values" => elements(json, |_, json| {
            list.values.push(if json == "null" { AnyValue::default() } else { read_value(json, depth)? });
            Ok(())
        }),
        _ => Ok(()),
    })
}

fn read_map(json: &str, depth: usize) -> Result<KeyValueList, Fault> {
    message(json, |map: &mut KeyValueList, name, json| {
        if name == "values" {
            map.values = read_key_values(json, depth)?;
        }
        Ok(())
    })
}

fn read_text(json: &str) -> Result<Bytes, Fault> {
    string(json).map(Bytes::from)
}

fn read_id(json: &str) -> Result<Bytes, Fault> {
    let text = string(json)?;
    hex::decode(&text).map(Bytes::from).map_err(|_| type_fault("hexadecimal", &text))
}

fn read_bytes(json: &str) -> Result<Bytes, Fault> {
    let text = string(json)?;
    let standard = text.replace('-', "+").replace('_', "/");
    LENIENT_BASE64.decode(&standard).map(Bytes::from).map_err(|_| type_fault("base64", &text))
}

fn read_integer<T: TryFrom<i128>>(json: &str) -> Result<T, Fault> {
    let signed = T::try_from(-1).is_ok();
    let expected = if signed { "an integer of 64 bits" } else { "an integer of 64 bits, not negative" };
    let text = number(json, expected)?;
    parse_integer(&text).and_then(|value| T::try_from(value).ok()).ok_or_else(|| type_fault(expected, &text))
}

fn read_double(json: &str) -> Result<f64, Fault> {
    let text = number(json, "a number")?;
    parse_double(&text).ok_or_else(|| type_fault("a number of 64 bits, NaN, Infinity or -Infinity", &text))
}

/// Reads an enumeration by name or number. Numbers of later versions are kept.
fn read_enumeration(json: &str, names: &[(&str, &str)]) -> Result<i32, Fault> {
    let expected = || {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("one of {}, or its number", all.join(", "))
    };
    let text = number(json, "an enumeration's name or number")?;
    let named = names.iter().position(|(name, _)| *name == text).map(|position| position as i128);
    let number = named.or_else(|| parse_integer(&text)).and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| type_fault(&expected(), &text))
}
