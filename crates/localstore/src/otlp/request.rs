//! Decodes OTLP requests.

use std::io::Read;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;

use super::messages::Batch;
use super::{json, protobuf};
use crate::http::compression::Encoding as ContentEncoding;

/// Maximum length of a body as sent.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// Maximum length of a body after decompression.
pub const MAX_DECODED_BYTES: usize = 128 << 20;

/// The encoding of a request and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Protobuf,
    Json,
}

#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// Message for the sender's log.
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn too_large() -> Self {
        let text =
            format!("a body may have {MAX_BODY_BYTES} bytes, and {MAX_DECODED_BYTES} after decompression");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    /// Returns the number for `google.rpc.Status`.
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
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, Refusal> {
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

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// Returns how the body is compressed.
pub fn content_encoding(headers: &HeaderMap) -> Result<ContentEncoding, Refusal> {
    let name = headers.get(header::CONTENT_ENCODING).map_or(Ok(""), HeaderValue::to_str);
    let known = name.ok().and_then(ContentEncoding::named);
    known.filter(|known| matches!(known, ContentEncoding::Identity | ContentEncoding::Gzip)).ok_or_else(
        || Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body may be compressed with gzip only"),
    )
}

/// Decodes a body. The result counts the spans that cannot be read.
pub fn decode(encoding: Encoding, content_encoding: ContentEncoding, body: Bytes) -> Result<Batch, Refusal> {
    let invalid = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
    let mut unpacked = Vec::new();
    content_encoding
        .decode(body.as_ref())
        .and_then(|body| body.take(MAX_DECODED_BYTES as u64 + 1).read_to_end(&mut unpacked))
        .map_err(|error| invalid(format!("the body is not gzip: {error}")))?;
    if unpacked.len() > MAX_DECODED_BYTES {
        return Err(Refusal::too_large());
    }
    let body = Bytes::from(unpacked);
    let decoded = match encoding {
        Encoding::Protobuf => protobuf::read(body).map_err(|error| error.to_string()),
        Encoding::Json => json::read(&body),
    };
    decoded.map_err(|error| invalid(format!("the body is not an ExportTraceServiceRequest: {error}")))
}
