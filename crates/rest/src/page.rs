//! Pages of traces and single traces as answers. Spans are streamed; the first of them is awaited before the status goes
//! out, so that a store that fails at once is answered with a status that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderValue, header};
use serde::Serialize;
use tracewarden_service::{
    AnswerBody, QueryAnswer, RequestInfo, SchemaEcho, ServiceError, SpanStream, Summary, TraceAnswer,
};
use utoipa::ToSchema;

use crate::accept::Representation;
use crate::ending::broken_off_on_failure;
use crate::framing::{Document, Frame, text};
use crate::problem::Problem;
use crate::schema_wire::SchemaBinding;
use crate::wire::Time;

/// A page of traces. The view decides which of the three lists is there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is streamed")]
pub(crate) struct SpanPage {
    /// The bound table and its structural columns.
    schema: SchemaBinding,
    /// Spans of whole traces, with the columns of the bound table.
    #[schema(value_type = Option<Vec<Object>>, nullable = false)]
    spans: Option<Vec<serde_json::Value>>,
    /// One object a trace.
    #[schema(nullable = false)]
    traces: Option<Vec<TraceSummary>>,
    /// The ids alone.
    #[schema(nullable = false)]
    trace_ids: Option<Vec<String>>,
    /// Absent on the last page.
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// One trace.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is streamed")]
pub(crate) struct TraceSpans {
    /// The bound table and its structural columns.
    schema: SchemaBinding,
    /// All spans, by timestamp.
    #[schema(value_type = Vec<Object>)]
    spans: Vec<serde_json::Value>,
}

/// One trace in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceSummary {
    /// Trace id.
    trace_id: String,
    /// Name of the root span.
    #[schema(required = true)]
    root_name: Option<String>,
    /// Service of the root span.
    #[schema(required = true)]
    root_service: Option<String>,
    /// Start of the earliest span.
    start: Time,
    /// From the earliest start to the latest end.
    #[schema(required = true)]
    duration_nanos: Option<i64>,
    /// Whether a span's duration is below zero or no number of nanoseconds: one that wrapped round in an unsigned column, a float
    /// that is no number, infinite or beyond 64 bits. Such a span counts as one that took no time.
    duration_invalid: bool,
    /// Spans.
    span_count: u64,
    /// Spans with an error.
    #[schema(required = true)]
    error_count: Option<u64>,
    /// Services that took part.
    services: Vec<String>,
    /// Spans that satisfy a condition of the filter.
    matched_span_ids: Vec<String>,
}

impl From<Summary> for TraceSummary {
    fn from(summary: Summary) -> Self {
        Self {
            trace_id: summary.trace_id,
            root_name: summary.root_name,
            root_service: summary.root_service,
            start: summary.start.into(),
            duration_nanos: summary.duration_nanos,
            duration_invalid: summary.duration_invalid,
            span_count: summary.span_count,
            error_count: summary.error_count,
            services: summary.services,
            matched_span_ids: summary.matched_span_ids,
        }
    }
}

/// The last line of a page in lines.
#[derive(Serialize)]
struct End {
    end: EndOfPage,
}

#[derive(Serialize)]
struct EndOfPage {
    next_cursor: Option<String>,
    traces: u64,
    spans: u64,
}

/// A page of which the rows are on their way, or there.
pub(crate) struct Page {
    schema: SchemaEcho,
    next_cursor: Option<String>,
    traces: u64,
    /// What the rows are called in a document: all of them, and one.
    names: (&'static str, &'static str),
    rows: Rows,
}

/// A document on its way.
type Lines = Result<Bytes, ServiceError>;

impl Page {
    /// Waits until it is known that the rows begin to come, or that none will.
    ///
    /// # Errors
    /// When the trace store fails before the first row.
    pub(crate) async fn of(answer: QueryAnswer) -> Result<Self, ServiceError> {
        let QueryAnswer { schema, next_cursor, traces, body } = answer;
        let (names, rows) = match body {
            AnswerBody::Spans(spans) => (("spans", "span"), spans_of(spans).await?),
            AnswerBody::Summaries(summaries) => {
                let summaries = summaries.into_iter().map(|summary| text(&TraceSummary::from(summary)));
                (("traces", "trace"), ready(summaries))
            }
            AnswerBody::Ids(ids) => (("trace_ids", "trace_id"), ready(ids.iter().map(text))),
        };
        Ok(Self { schema, next_cursor, traces, names, rows })
    }

    /// As one JSON document.
    pub(crate) fn json(self) -> impl Stream<Item = Lines> + Send {
        let next_cursor = self.next_cursor;
        let tail = move || match next_cursor {
            Some(cursor) => format!("],\"next_cursor\":{}}}\n", text(&cursor)),
            None => "]}\n".to_owned(),
        };
        let head = format!("{{\"schema\":{},\"{}\":[", schema_of(&self.schema), self.names.0);
        Document::new(Frame::Elements, head, self.rows.stream, tail)
    }

    /// The first of its lines.
    pub(crate) fn begin_lines(&self) -> Bytes {
        begin_lines(&self.schema)
    }

    /// As lines, without the first.
    pub(crate) fn lines(self) -> impl Stream<Item = Lines> + Send {
        let Self { next_cursor, traces, names, rows: Rows { stream, spans }, .. } = self;
        let tail = move || {
            let end = EndOfPage { next_cursor, traces, spans: spans.load(Ordering::Relaxed) };
            text(&End { end }) + "\n"
        };
        Document::new(Frame::Lines(names.1), String::new(), stream, tail)
    }
}

/// The first line of a page in lines.
pub(crate) fn begin_lines(schema: &SchemaEcho) -> Bytes {
    format!("{{\"schema\":{}}}\n", schema_of(schema)).into()
}

/// One trace as an answer.
///
/// # Errors
/// When the trace store fails before the first span.
pub(crate) async fn trace(answer: TraceAnswer, info: &RequestInfo) -> Result<Response, Problem> {
    let rows = spans_of(answer.spans).await?;
    let head = format!("{{\"schema\":{},\"spans\":[", schema_of(&answer.schema));
    let document = Document::new(Frame::Elements, head, rows.stream, || "]}\n".to_owned());
    Ok(respond(document, Representation::Json, info))
}

fn schema_of(schema: &SchemaEcho) -> String {
    text(&SchemaBinding::new(schema))
}

/// A document as an answer, which is broken off when the document fails.
pub(crate) fn respond(
    document: impl Stream<Item = Lines> + Send + 'static,
    representation: Representation,
    info: &RequestInfo,
) -> Response {
    let kind = HeaderValue::from_static(representation.media_type());
    let body = broken_off_on_failure(document, representation, info.request_id.clone());
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response()
}

/// Lines on their way, and the number of spans that passed so far.
struct Rows {
    stream: stream::BoxStream<'static, Lines>,
    spans: Arc<AtomicU64>,
}

/// Rows that are all there.
fn ready(rows: impl Iterator<Item = String>) -> Rows {
    let lines: String = rows.map(|row| row + "\n").collect();
    let stream = stream::once(async move { Ok(Bytes::from(lines)) }).boxed();
    Rows { stream, spans: Arc::default() }
}

/// Spans as they come, once the first of them came or it is known that none will.
async fn spans_of(spans: SpanStream) -> Result<Rows, ServiceError> {
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
