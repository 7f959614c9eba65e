//! Spans on their way from the trace store to a client, counted, and recorded when they end.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{self, Stream, StreamExt as _};
use tracewarden_tracestore::{SpanChunk, StoreError};

use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::pending::Pending;
use crate::query_limit::Asked;

/// Spans in chunks of whole lines. It ends with `None` only when every span came and the completing audit record is
/// durable: write the end of the document then, and break the answer off at an error. Dropped before, the record says
/// `aborted`.
pub struct SpanStream(Pin<Box<dyn Stream<Item = Result<SpanChunk, ServiceError>> + Send>>);

impl Stream for SpanStream {
    type Item = Result<SpanChunk, ServiceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for SpanStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpanStream(..)")
    }
}

/// Spans on their way out, with the record of it: what fails is told as the caller may know it.
pub(crate) fn audited<S>(source: S, pending: Pending, asked: Asked) -> SpanStream
where
    S: Stream<Item = Result<SpanChunk, StoreError>> + Send + Unpin + 'static,
{
    let spans = stream::unfold(Some((source, pending, asked)), |state| async move {
        let (mut source, mut pending, asked) = state?;
        match source.next().await {
            Some(Ok(chunk)) => {
                pending.spans = pending.spans.saturating_add(chunk.spans);
                Some((Ok(chunk), Some((source, pending, asked))))
            }
            Some(Err(error)) => Some((Err(pending.fail(asked.error(error)).await), None)),
            None => match pending.complete(Outcome::Success, None).await {
                Ok(()) => None,
                Err(error) => Some((Err(error), None)),
            },
        }
    });
    SpanStream(Box::pin(spans.fuse()))
}
