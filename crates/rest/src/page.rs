//! Responses with pages of traces and single traces. Spans are streamed. The first one is awaited before the status is sent, so
//! an immediate failure of ClickHouse gets an error status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderValue, header};
use serde_json::json;
use tracewarden_service::{
    AnswerBody, QueryAnswer, RequestInfo, SchemaEcho, ServiceError, SpanStream, Summary, TraceAnswer,
};
use utoipa::ToSchema;

use crate::abort_on_error::abort_on_error;
use crate::accept::Representation;
use crate::framing::{Frame, framed, text};
use crate::problem::Problem;
use crate::schema_wire::SchemaBinding;

/// A page of traces. The view determines which of the three lists is present.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the streamed format")]
pub(crate) struct SpanPage {
    /// The bound table and its structural columns.
    schema: SchemaBinding,
    /// Spans of whole traces, with the columns of the bound table.
    #[schema(value_type = Option<Vec<Object>>, nullable = false)]
    spans: Option<Vec<serde_json::Value>>,
    /// One object for each trace.
    #[schema(nullable = false)]
    traces: Option<Vec<Summary>>,
    /// The trace ids only.
    #[schema(nullable = false)]
    trace_ids: Option<Vec<String>>,
    /// Absent on the last page.
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// One trace.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the streamed format")]
pub(crate) struct TraceSpans {
    /// The bound table and its structural columns.
    schema: SchemaBinding,
    /// All spans, ordered by timestamp.
    #[schema(value_type = Vec<Object>)]
    spans: Vec<serde_json::Value>,
}

/// A page whose rows are being streamed or are complete.
pub(crate) struct Page {
    schema: SchemaEcho,
    next_cursor: Option<String>,
    traces: u64,
    /// Names of the rows in a document: plural and singular.
    names: (&'static str, &'static str),
    rows: Rows,
}

/// A chunk of a streamed document.
type ChunkResult = Result<Bytes, ServiceError>;

impl Page {
    /// Waits for the first row or for the end of an empty result.
    ///
    /// # Errors
    /// When ClickHouse fails before the first row.
    pub(crate) async fn await_first_row(answer: QueryAnswer) -> Result<Self, ServiceError> {
        let QueryAnswer { schema, next_cursor, traces, body } = answer;
        let (names, rows) = match body {
            AnswerBody::Spans(spans) => (("spans", "span"), span_rows(spans).await?),
            AnswerBody::Summaries(summaries) => {
                let summaries = summaries.iter().map(text);
                (("traces", "trace"), complete_rows(summaries))
            }
            AnswerBody::Ids(ids) => (("trace_ids", "trace_id"), complete_rows(ids.iter().map(text))),
        };
        Ok(Self { schema, next_cursor, traces, names, rows })
    }

    /// Returns the page as one JSON document.
    pub(crate) fn json(self) -> impl Stream<Item = ChunkResult> + Send {
        let next_cursor = self.next_cursor;
        let tail = move || match next_cursor {
            Some(cursor) => format!("],\"next_cursor\":{}}}\n", text(&cursor)),
            None => "]}\n".to_owned(),
        };
        let head = format!("{{\"schema\":{},\"{}\":[", schema_json(&self.schema), self.names.0);
        framed(Frame::JsonArray, head, self.rows.stream, tail)
    }

    /// Returns the first line of the NDJSON page.
    pub(crate) fn ndjson_head(&self) -> Bytes {
        ndjson_head(&self.schema)
    }

    /// Returns the NDJSON page without the first line.
    pub(crate) fn lines(self) -> impl Stream<Item = ChunkResult> + Send {
        let Self { next_cursor, traces, names, rows: Rows { stream, spans }, .. } = self;
        let tail = move || {
            let spans = spans.load(Ordering::Relaxed);
            text(&json!({ "end": { "next_cursor": next_cursor, "traces": traces, "spans": spans } })) + "\n"
        };
        framed(Frame::Ndjson(names.1), String::new(), stream, tail)
    }
}

/// Returns the first line of an NDJSON page.
pub(crate) fn ndjson_head(schema: &SchemaEcho) -> Bytes {
    format!("{{\"schema\":{}}}\n", schema_json(schema)).into()
}

/// Returns one trace as a response.
///
/// # Errors
/// When ClickHouse fails before the first span.
pub(crate) async fn trace(answer: TraceAnswer, info: &RequestInfo) -> Result<Response, Problem> {
    let rows = span_rows(answer.spans).await?;
    let head = format!("{{\"schema\":{},\"spans\":[", schema_json(&answer.schema));
    let document = framed(Frame::JsonArray, head, rows.stream, || "]}\n".to_owned());
    Ok(respond(document, Representation::Json, info))
}

fn schema_json(schema: &SchemaEcho) -> String {
    text(&SchemaBinding::new(schema))
}

/// Returns a streamed document as a response, which is aborted when the stream fails.
pub(crate) fn respond(
    document: impl Stream<Item = ChunkResult> + Send + 'static,
    representation: Representation,
    info: &RequestInfo,
) -> Response {
    let kind = HeaderValue::from_static(representation.media_type());
    let body = abort_on_error(document, representation, info.request_id.clone());
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response()
}

/// A stream of lines, and the number of spans sent so far.
struct Rows {
    stream: stream::BoxStream<'static, ChunkResult>,
    spans: Arc<AtomicU64>,
}

/// Returns rows that are complete.
fn complete_rows(rows: impl Iterator<Item = String>) -> Rows {
    let lines: String = rows.map(|row| row + "\n").collect();
    let stream = stream::once(async move { Ok(Bytes::from(lines)) }).boxed();
    Rows { stream, spans: Arc::default() }
}

/// Returns a stream of spans, after waiting for the first one or for the end of an empty result.
async fn span_rows(spans: SpanStream) -> Result<Rows, ServiceError> {
    let mut spans = spans.fuse();
    let first = spans.next().await.transpose()?;
    let counter = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&counter);
    let stream = stream::iter(first.map(Ok)).chain(spans).map(move |chunk| {
        let chunk = chunk?;
        count.fetch_add(chunk.spans, Ordering::Relaxed);
        Ok(chunk.lines)
    });
    Ok(Rows { stream: stream.boxed(), spans: counter })
}
