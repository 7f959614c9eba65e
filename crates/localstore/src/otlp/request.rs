//! Decoding of OTLP requests.

use std::io::Read;

use axum::http::{HeaderMap, StatusCode, header};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::Value;

use crate::otlp::attributes::unsupported_double;

/// The most bytes of a body as it is sent.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// The most bytes of a body after decompression.
pub const MAX_DECODED_BYTES: usize = 128 << 20;

/// The encoding of a request and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`
    Protobuf,
    /// `application/json`
    Json,
}

/// Why a request is refused.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// For the sender's log.
    pub message: String,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The body is too large.
    pub fn too_large() -> Self {
        let text =
            format!("a body may have {MAX_BODY_BYTES} bytes, and {MAX_DECODED_BYTES} after decompression");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    /// The number for `google.rpc.Status`.
    pub fn rpc_code(&self) -> i32 {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => 14,
            StatusCode::INTERNAL_SERVER_ERROR => 13,
            StatusCode::PAYLOAD_TOO_LARGE => 8,
            _ => 3,
        }
    }
}

impl Encoding {
    /// What the request's `Content-Type` says.
    pub fn of_request(headers: &HeaderMap) -> Result<Self, Refusal> {
        let value =
            headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/x-protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            _ => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send application/x-protobuf or application/json",
            )),
        }
    }

    /// The answer's `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// Whether the body is compressed.
pub fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()).as_deref()
    {
        None | Some(b"" | b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => {
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body may be compressed with gzip only"))
        }
    }
}

/// Decodes a body.
pub fn decode(encoding: Encoding, gzip: bool, body: &[u8]) -> Result<ExportTraceServiceRequest, Refusal> {
    let mut unpacked = Vec::new();
    let body = if gzip {
        flate2::read::MultiGzDecoder::new(body)
            .take(MAX_DECODED_BYTES as u64 + 1)
            .read_to_end(&mut unpacked)
            .map_err(|error| {
                Refusal::new(StatusCode::BAD_REQUEST, format!("the body is not gzip: {error}"))
            })?;
        if unpacked.len() > MAX_DECODED_BYTES {
            return Err(Refusal::too_large());
        }
        unpacked.as_slice()
    } else {
        body
    };
    match encoding {
        Encoding::Protobuf => ExportTraceServiceRequest::decode(body).map_err(|error| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("the body is not an ExportTraceServiceRequest: {error}"),
            )
        }),
        Encoding::Json => decode_json(body).map_err(|error| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("the body is not an ExportTraceServiceRequest: {error}"),
            )
        }),
    }
}

fn decode_json(body: &[u8]) -> Result<ExportTraceServiceRequest, serde_json::Error> {
    let mut value: Value = serde_json::from_slice(body)?;
    if !value.is_object() {
        return Err(serde::de::Error::custom("expected an object"));
    }
    follow_protojson(&mut value);
    blank_malformed_ids(&mut value);
    serde_json::from_value(value)
}

/// What protobuf's JSON allows and the message types do not read: `null` for a member that is absent, and doubles as
/// strings, `"NaN"` and the infinities among them. JSON cannot hold those; they become the text that they are stored as.
/// The parser bounds how deep a value nests.
fn follow_protojson(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(follow_protojson),
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            if let Some(double) = members.get("doubleValue").and_then(Value::as_str) {
                let parsed = match double {
                    "Infinity" => Some(f64::INFINITY),
                    "-Infinity" => Some(f64::NEG_INFINITY),
                    other => other.parse::<f64>().ok(),
                };
                if let Some(parsed) = parsed {
                    members.remove("doubleValue");
                    match serde_json::Number::from_f64(parsed) {
                        Some(number) => members.insert("doubleValue".to_owned(), Value::Number(number)),
                        None => {
                            members.insert("stringValue".to_owned(), Value::from(unsupported_double(parsed)))
                        }
                    };
                }
            }
            members.values_mut().for_each(follow_protojson);
        }
        _ => {}
    }
}

/// Empties ids that are not hexadecimal, so that their spans are rejected and not the whole request.
fn blank_malformed_ids(request: &mut Value) {
    let Some(resources) = request.get_mut("resourceSpans").and_then(Value::as_array_mut) else { return };
    let scopes =
        resources.iter_mut().filter_map(|resource| resource.get_mut("scopeSpans")?.as_array_mut()).flatten();
    for span in scopes.filter_map(|scope| scope.get_mut("spans")?.as_array_mut()).flatten() {
        // A malformed parent must not turn its span into a root: a single byte is rejected later on.
        for (name, replacement) in [("traceId", ""), ("spanId", ""), ("parentSpanId", "00")] {
            if let Some(id) = span.get_mut(name)
                && id.as_str().is_none_or(|text| hex::decode(text).is_err())
            {
                *id = Value::from(replacement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobufs_json_is_read() {
        let mut value = serde_json::json!({"a": null, "list": [null, {"doubleValue": "NaN"}, {"doubleValue": "1.5"}, {"doubleValue": 2.5}]});
        follow_protojson(&mut value);
        let expected = serde_json::json!({"list": [null, {"stringValue": "json: unsupported value: NaN"}, {"doubleValue": 1.5}, {"doubleValue": 2.5}]});
        assert_eq!(value, expected);
    }
}
