//! The OTLP/HTTP receiver for traces.

pub mod attributes;
pub mod commit;
pub mod json;
pub mod messages;
#[cfg(test)]
mod property_tests;
pub mod protobuf;
pub mod request;
pub mod rows;
pub mod table;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::commit::Committer;
use self::messages::RejectedSpans;
use self::request::{Encoding, Refusal};
use crate::http::guard;

/// Maximum number of requests that are decoded concurrently; others wait.
const MAX_CONCURRENT_DECODES: usize = 8;

pub struct Receiver {
    committer: Committer,
    decode_permits: Semaphore,
}

impl Receiver {
    pub fn new(committer: Committer) -> Arc<Self> {
        Arc::new(Self { committer, decode_permits: Semaphore::new(MAX_CONCURRENT_DECODES) })
    }
}

pub fn router(receiver: Arc<Receiver>, listen: SocketAddr) -> Router {
    Router::new()
        .route("/v1/traces", post(receive))
        .with_state(receiver)
        .layer(DefaultBodyLimit::max(request::MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(listen, guard::refuse_browsers))
}

async fn receive(State(receiver): State<Arc<Receiver>>, request: Request) -> Response {
    let encoding = match Encoding::from_headers(request.headers()) {
        Ok(encoding) => encoding,
        Err(refusal) => return error_response(Encoding::Json, refusal),
    };
    match store(&receiver, encoding, request).await {
        Ok(rejected) => success_response(encoding, rejected),
        Err(refusal) => error_response(encoding, refusal),
    }
}

async fn store(receiver: &Receiver, encoding: Encoding, request: Request) -> Result<RejectedSpans, Refusal> {
    let content_encoding = request::content_encoding(request.headers())?;
    let body = Bytes::from_request(request, &()).await.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::too_large(),
        _ => Refusal::new(StatusCode::BAD_REQUEST, format!("the body ended early: {error}")),
    })?;
    let permit = receiver.decode_permits.acquire().await;
    let (rows, rejected) = tokio::task::spawn_blocking(move || {
        request::decode(encoding, content_encoding, body).map(|batch| (rows::write(&batch), batch.rejected))
    })
    .await
    .map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot decode the request: {error}"))
    })??;
    drop(permit);
    if rows.count > 0 {
        // Senders retry after this status.
        receiver
            .committer
            .commit(rows.data)
            .await
            .map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.message))?;
    }
    Ok(rejected)
}

/// `ExportTraceServiceResponse`
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`
#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

fn success_response(encoding: Encoding, rejected: RejectedSpans) -> Response {
    let partial_success =
        rejected.reason.map(|error_message| PartialSuccess { rejected_spans: rejected.spans, error_message });
    let json = match &partial_success {
        None => json!({}),
        Some(PartialSuccess { rejected_spans, error_message }) => json!({
            "partialSuccess": { "rejectedSpans": rejected_spans.to_string(), "errorMessage": error_message }
        }),
    };
    respond(StatusCode::OK, encoding, &ExportResponse { partial_success }, &json)
}

/// Body of an error response, as OTLP requires: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

fn error_response(encoding: Encoding, refusal: Refusal) -> Response {
    let (code, message) = (refusal.rpc_code(), refusal.message);
    let json = json!({ "code": code, "message": message });
    respond(refusal.status, encoding, &RpcStatus { code, message }, &json)
}

fn respond(status: StatusCode, encoding: Encoding, message: &impl Message, json: &Value) -> Response {
    let body = match encoding {
        Encoding::Protobuf => message.encode_to_vec(),
        Encoding::Json => json.to_string().into_bytes(),
    };
    (status, [(header::CONTENT_TYPE, encoding.content_type())], body).into_response()
}
