//! Converts the frames of a response into an HTTP response. Status and headers are sent as late as possible; a later
//! error aborts the connection.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::connection::Flushes;
use super::output::{Frame, State, exception_text};
use crate::engine::Progress;
use crate::error::EngineError;

/// The response starts when this number of bytes is available; until then an error still gets its own status ...
const MAX_BUFFERED_BYTES: usize = 1 << 20;
/// ... or when its first part has waited for this time.
const MAX_BUFFERED_TIME: Duration = Duration::from_millis(50);

/// Values that the response headers need.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    pub query_id: String,
    pub tag: String,
    pub version: String,
    pub timezone: String,
    /// Whether the response starts only when it is complete.
    pub wait_end_of_query: bool,
    /// Start of the request, for the running time in the summary.
    pub started: std::time::Instant,
}

/// Waits for the first part of the response. `guard` is dropped when the client has received the whole response or has
/// disconnected.
pub async fn answer<G: Send + 'static>(
    mut frames: mpsc::Receiver<Frame>,
    head: ResponseHead,
    guard: G,
    flushes: Flushes,
) -> Response {
    let mut buffered: Vec<Bytes> = Vec::new();
    let mut buffered_bytes = 0_usize;
    let mut state = State::default();
    let mut deadline = None;
    loop {
        let received = match deadline {
            None => Ok(frames.recv().await),
            Some(deadline) => timeout_at(deadline, frames.recv()).await,
        };
        match received {
            Ok(Some(Frame::Data(bytes, now))) => {
                buffered_bytes = buffered_bytes.saturating_add(bytes.len());
                buffered.push(bytes);
                state = now;
                if head.wait_end_of_query {
                    continue;
                }
                if buffered_bytes >= MAX_BUFFERED_BYTES {
                    break;
                }
                deadline.get_or_insert_with(|| Instant::now() + MAX_BUFFERED_TIME);
            }
            Ok(Some(Frame::End(now))) => {
                drop(guard);
                return with_headers(Body::from(buffered.concat()), &head, &now);
            }
            Ok(Some(Frame::Failed { error, .. })) => return failure(&error, &head),
            Ok(None) => {
                let error = EngineError::local("the statement's thread has ended without an answer");
                return failure(&error, &head);
            }
            Err(_waited_long_enough) => break,
        }
    }
    let begun = stream::iter(buffered.into_iter().map(Ok));
    let rest = stream::unfold((frames, guard, false), move |(mut frames, guard, is_aborting)| {
        let flushes = flushes.clone();
        async move {
            if is_aborting {
                flushes.next().await;
                return Some((Err(ResponseAborted), (frames, guard, true)));
            }
            match frames.recv().await {
                Some(Frame::Data(bytes, _)) => Some((Ok(bytes), (frames, guard, false))),
                Some(Frame::End(_)) => None,
                Some(Frame::Failed { tail, .. }) => Some((Ok(tail), (frames, guard, true))),
                None => Some((Err(ResponseAborted), (frames, guard, false))),
            }
        }
    });
    with_headers(Body::from_stream(begun.chain(rest)), &head, &state)
}

#[derive(Debug, thiserror::Error)]
#[error("the statement failed after its answer had begun")]
struct ResponseAborted;

fn with_headers(body: Body, head: &ResponseHead, state: &State) -> Response {
    let mut response = Response::new(body);
    common_headers(&mut response, head, state);
    let format = state.format.as_deref().unwrap_or("TabSeparated");
    if let Ok(format) = HeaderValue::from_str(format) {
        response.headers_mut().insert("x-clickhouse-format", format);
    }
    response
}

/// Builds a response that consists of an error.
pub fn failure(error: &EngineError, head: &ResponseHead) -> Response {
    let mut response = Response::new(Body::from(exception_text(error, &head.version)));
    *response.status_mut() =
        StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    common_headers(&mut response, head, &State::default());
    response.headers_mut().insert("x-clickhouse-exception-code", HeaderValue::from(error.code));
    response
}

fn common_headers(response: &mut Response, head: &ResponseHead, state: &State) {
    let Progress { read_rows, read_bytes, written_rows, written_bytes, result_rows, result_bytes } =
        state.progress;
    let elapsed = head.started.elapsed().as_nanos();
    let summary = format!(
        "{{\"read_rows\":\"{read_rows}\",\"read_bytes\":\"{read_bytes}\",\"written_rows\":\"{written_rows}\",\
         \"written_bytes\":\"{written_bytes}\",\"total_rows_to_read\":\"0\",\"result_rows\":\"{result_rows}\",\
         \"result_bytes\":\"{result_bytes}\",\"elapsed_ns\":\"{elapsed}\",\"memory_usage\":\"0\"}}"
    );
    let headers = response.headers_mut();
    for (name, value) in [
        // ClickHouse has a type for each format; clients go by the format's own header.
        ("content-type", "text/plain; charset=UTF-8"),
        ("x-clickhouse-query-id", head.query_id.as_str()),
        ("x-clickhouse-timezone", &head.timezone),
        ("x-clickhouse-server-display-name", "tracewarden-localstore"),
        ("x-clickhouse-exception-tag", &head.tag),
        ("x-clickhouse-summary", &summary),
    ] {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.insert(name, value);
        }
    }
}
