//! Writes a request as JSON, in one of the many forms that protobuf's mapping allows.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::{MARK, Random};

pub(super) struct Writer {
    random: Random,
    /// Whether the writer makes no random choices and uses the form in OTLP's documentation.
    pub(super) plain: bool,
}

impl Writer {
    pub(super) fn new(random: Random) -> Self {
        Self { random, plain: false }
    }

    fn once_in(&mut self, times: usize) -> bool {
        !self.plain && self.random.once_in(times)
    }

    /// Writes an object; a member is its name, whether its value is the default, and its value.
    fn object(&mut self, members: Vec<(&str, bool, String)>) -> String {
        let mut written = Vec::new();
        for (name, is_default, value) in members {
            let value = match is_default {
                true if self.once_in(3) => continue,
                true if self.once_in(2) => "null".to_owned(),
                _ => value,
            };
            let name = if self.once_in(3) { snake_case(name) } else { name.to_owned() };
            written.push(format!("{}:{value}", self.string(&name)));
        }
        if self.once_in(4) {
            written.push(self.random.choose(&[
                r#""later": [1, {"}": "\ud800]"}]"#.to_owned(),
                r#""droppedAttributesCount": 5.0"#.to_owned(),
                r#""flags" : null"#.to_owned(),
                r#""entityRefs":[{"type":"service","idKeys":["service.name"]}]"#.to_owned(),
            ]));
        }
        if !self.plain {
            let count = written.len();
            (1..count).for_each(|position| written.swap(position, self.random.below(position + 1)));
        }
        let space = if self.once_in(3) { " \n\t" } else { "" };
        format!("{{{space}{}{space}}}", written.join(&format!("{space},{space}")))
    }

    /// Writes a list of messages, which may contain nulls.
    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T) -> String) -> String {
        let mut written = Vec::new();
        for item in items {
            if self.once_in(8) {
                written.push("null".to_owned());
            }
            written.push(write(self, item));
        }
        format!("[{}]", written.join(","))
    }

    fn string(&mut self, text: &str) -> String {
        if self.plain || text.contains(MARK) || !self.random.once_in(3) {
            return serde_json::to_string(text).unwrap();
        }
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{units}\"")
    }

    fn integer(&mut self, number: i128) -> String {
        let (digits, zeros) = (number.to_string().trim_end_matches('0').len(), number.to_string().len());
        let exponent = zeros - digits;
        let written = match self.random.below(if self.plain { 1 } else { 5 }) {
            0 => number.to_string(),
            1 => format!("{number}.0"),
            2 => format!("{number}e0"),
            3 if number != 0 => format!("{number}0E-1"),
            _ if number != 0 => format!("{}e+{exponent}", &number.to_string()[..digits]),
            _ => "0.000".to_owned(),
        };
        if self.once_in(2) { format!("\"{written}\"") } else { written }
    }

    fn double(&mut self, number: f64) -> String {
        let written = match number {
            f64::INFINITY => return "\"Infinity\"".to_owned(),
            f64::NEG_INFINITY => return "\"-Infinity\"".to_owned(),
            _ if number.is_nan() => return "\"NaN\"".to_owned(),
            _ if self.once_in(2) => format!("{number:e}"),
            _ => number.to_string(),
        };
        if self.once_in(2) { format!("\"{written}\"") } else { written }
    }

    fn id(&mut self, id: &[u8]) -> String {
        let digits = hex::encode(id);
        if self.once_in(2) { format!("\"{}\"", digits.to_uppercase()) } else { format!("\"{digits}\"") }
    }

    fn enumeration(&mut self, number: i32, name: Option<&str>) -> String {
        match name {
            Some(name) if self.once_in(2) => format!("\"{name}\""),
            _ => self.integer(number.into()),
        }
    }

    fn value(&mut self, value: &AnyValue) -> String {
        let (name, written) = match &value.value {
            None => return self.object(vec![("stringValue", true, "null".to_owned())]),
            Some(Value::StringValue(text)) => ("stringValue", self.string(text)),
            Some(Value::BoolValue(truth)) => ("boolValue", truth.to_string()),
            Some(Value::IntValue(number)) => ("intValue", self.integer((*number).into())),
            Some(Value::DoubleValue(number)) => ("doubleValue", self.double(*number)),
            Some(Value::BytesValue(bytes)) => {
                let text = match self.random.below(4) {
                    0 => STANDARD.encode(bytes),
                    1 => STANDARD_NO_PAD.encode(bytes),
                    2 => URL_SAFE.encode(bytes),
                    _ => URL_SAFE_NO_PAD.encode(bytes),
                };
                ("bytesValue", format!("\"{text}\""))
            }
            Some(Value::ArrayValue(list)) => {
                let mut values = Vec::new();
                for value in &list.values {
                    let is_null = value.value.is_none() && self.once_in(2);
                    values.push(if is_null { "null".to_owned() } else { self.value(value) });
                }
                let members = vec![("values", list.values.is_empty(), format!("[{}]", values.join(",")))];
                ("arrayValue", self.object(members))
            }
            Some(Value::KvlistValue(map)) => {
                let values = self.attributes(&map.values);
                ("kvlistValue", self.object(vec![("values", map.values.is_empty(), values)]))
            }
            Some(Value::StringValueStrindex(_)) => panic!("these tests send no such request"),
        };
        self.object(vec![(name, false, written)])
    }

    fn attributes(&mut self, attributes: &[KeyValue]) -> String {
        self.list(attributes, |writer, attribute| {
            let value = attribute.value.as_ref().map(|value| writer.value(value));
            let members = vec![
                ("key", attribute.key.is_empty(), writer.string(&attribute.key)),
                ("value", value.is_none(), value.unwrap_or_else(|| "null".to_owned())),
            ];
            writer.object(members)
        })
    }

    fn status(&mut self, status: &Status) -> String {
        let name = StatusCode::try_from(status.code).ok().map(|code| code.as_str_name());
        let members = vec![
            ("message", status.message.is_empty(), self.string(&status.message)),
            ("code", status.code == 0, self.enumeration(status.code, name)),
        ];
        self.object(members)
    }

    pub(super) fn span(&mut self, span: &Span) -> String {
        let kind = SpanKind::try_from(span.kind).ok().map(|kind| kind.as_str_name());
        let events = self.list(&span.events, |writer, event| {
            let members = vec![
                ("timeUnixNano", event.time_unix_nano == 0, writer.integer(event.time_unix_nano.into())),
                ("name", event.name.is_empty(), writer.string(&event.name)),
                ("attributes", event.attributes.is_empty(), writer.attributes(&event.attributes)),
            ];
            writer.object(members)
        });
        let links = self.list(&span.links, |writer, link| {
            let members = vec![
                ("traceId", false, writer.id(&link.trace_id)),
                ("spanId", false, writer.id(&link.span_id)),
                ("traceState", link.trace_state.is_empty(), writer.string(&link.trace_state)),
                ("attributes", link.attributes.is_empty(), writer.attributes(&link.attributes)),
            ];
            writer.object(members)
        });
        let status = span.status.as_ref().map(|status| self.status(status));
        let members = vec![
            ("traceId", false, self.id(&span.trace_id)),
            ("spanId", false, self.id(&span.span_id)),
            ("parentSpanId", span.parent_span_id.is_empty(), self.id(&span.parent_span_id)),
            ("traceState", span.trace_state.is_empty(), self.string(&span.trace_state)),
            ("name", span.name.is_empty(), self.string(&span.name)),
            ("kind", span.kind == 0, self.enumeration(span.kind, kind)),
            (
                "startTimeUnixNano",
                span.start_time_unix_nano == 0,
                self.integer(span.start_time_unix_nano.into()),
            ),
            ("endTimeUnixNano", span.end_time_unix_nano == 0, self.integer(span.end_time_unix_nano.into())),
            ("attributes", span.attributes.is_empty(), self.attributes(&span.attributes)),
            ("events", span.events.is_empty(), events),
            ("links", span.links.is_empty(), links),
            ("status", status.is_none(), status.unwrap_or_else(|| "null".to_owned())),
        ];
        self.object(members)
    }

    fn scope_spans(&mut self, scope_spans: &ScopeSpans) -> String {
        let scope = scope_spans.scope.as_ref().map(|scope| {
            let members = vec![
                ("name", scope.name.is_empty(), self.string(&scope.name)),
                ("version", scope.version.is_empty(), self.string(&scope.version)),
            ];
            self.object(members)
        });
        let spans = self.list(&scope_spans.spans, Self::span);
        let members = vec![
            ("scope", scope.is_none(), scope.unwrap_or_else(|| "null".to_owned())),
            ("spans", scope_spans.spans.is_empty(), spans),
        ];
        self.object(members)
    }

    fn resource_spans(&mut self, resource_spans: &ResourceSpans) -> String {
        let resource = resource_spans.resource.as_ref().map(|resource| {
            let attributes = self.attributes(&resource.attributes);
            self.object(vec![("attributes", resource.attributes.is_empty(), attributes)])
        });
        let scopes = self.list(&resource_spans.scope_spans, Self::scope_spans);
        let members = vec![
            ("resource", resource.is_none(), resource.unwrap_or_else(|| "null".to_owned())),
            ("scopeSpans", resource_spans.scope_spans.is_empty(), scopes),
        ];
        self.object(members)
    }

    pub(super) fn request(&mut self, request: &ExportTraceServiceRequest) -> String {
        let resources = self.list(&request.resource_spans, Self::resource_spans);
        self.object(vec![("resourceSpans", request.resource_spans.is_empty(), resources)])
    }
}

fn snake_case(name: &str) -> String {
    let mut written = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            written.push('_');
        }
        written.push(letter.to_ascii_lowercase());
    }
    written
}
