//! Stream of spans from ClickHouse to a client, which counts the spans and completes the audit record.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{self, Stream, StreamExt as _};
use tracewarden_clickhouse::{ClickHouseError, SpanChunk};

use crate::core::{OpenAuditRecord, Outcome, Result};

/// Spans in chunks of whole lines. The stream ends with `None` only after all spans have arrived and the completing audit
/// record is durable: the transport then writes the end of the document, and aborts the answer at an error. If the stream is
/// dropped before, the record says `aborted`.
pub struct SpanStream(Pin<Box<dyn Stream<Item = Result<SpanChunk>> + Send>>);

impl Stream for SpanStream {
    type Item = Result<SpanChunk>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for SpanStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpanStream(..)")
    }
}

/// Wraps a stream of spans with its audit record; converts errors for the caller.
pub(crate) fn with_audit_record<S>(source: S, record: OpenAuditRecord) -> SpanStream
where
    S: Stream<Item = Result<SpanChunk, ClickHouseError>> + Send + Unpin + 'static,
{
    let spans = stream::unfold(Some((source, record)), |state| async move {
        let (mut source, mut record) = state?;
        match source.next().await {
            Some(Ok(chunk)) => {
                record.returned.spans = record.returned.spans.saturating_add(chunk.spans);
                Some((Ok(chunk), Some((source, record))))
            }
            Some(Err(error)) => Some((Err(record.fail(error).await), None)),
            None => record.complete(Outcome::Success, None).await.err().map(|error| (Err(error), None)),
        }
    });
    SpanStream(Box::pin(spans.fuse()))
}
