//! Reads selected traces: rows are passed on as ClickHouse writes them, checked for completeness and otherwise unchanged.
//!
//! A large page is read in several sequential statements; the next one is sent while the answer of the previous one is passed
//! on. ClickHouse sorts a statement's spans before it writes the first of them, and holds them all in memory for that.

mod columns;
pub(crate) mod lines;
mod parts;
mod spans;

mod span_identity;
mod span_summary;
mod summary;

pub use lines::SpanChunk;
pub use span_identity::SpanIdentity;
pub(crate) use span_identity::{IdentityRow, identity_columns, identity_names};
pub use span_summary::SpanSummary;
pub use summary::Summary;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt as _};
use tracewarden_model::Binding;

use crate::search::Selection;
use crate::{ClickHouse, ClickHouseError};
use columns::projection;
use parts::{Part, PartSizes, Parts};

pub use spans::{MAX_SPANS_BYTES, MAX_SPANS_PER_ID, SpanLine};

/// Stream of the spans of selected traces, the spans of each trace together, in the selection's order.
///
/// The stream ends without an error only when every trace arrived with at least as many spans as the selection counted.
/// Dropping it ends the query in ClickHouse.
pub struct SpanStream {
    /// The part that is being passed on; `None` while waiting for the next one.
    current: Option<Part>,
    parts: Parts,
    spans: u64,
}

impl ClickHouse {
    /// Reads all spans of the selected traces. With `columns`, only these and the structural ones.
    ///
    /// # Errors
    /// When a column is unknown or ClickHouse refuses the statement. Later failures come through the stream.
    pub async fn read(
        &self,
        binding: &Binding,
        selection: &Selection,
        columns: Option<&[String]>,
    ) -> Result<SpanStream, ClickHouseError> {
        self.read_in_parts(PartSizes::default(), binding, selection, columns).await
    }

    /// Like [`Self::read`], in parts of these sizes.
    async fn read_in_parts(
        &self,
        sizes: PartSizes,
        binding: &Binding,
        selection: &Selection,
        columns: Option<&[String]>,
    ) -> Result<SpanStream, ClickHouseError> {
        let projection = projection(binding, &selection.table, columns)?;
        let mut parts = Parts::new(self, binding, selection, projection, sizes);
        // The first part is awaited here, so that its failure can still become an HTTP status.
        let current = poll_fn(|context| parts.poll_next(context)).await.transpose()?;
        Ok(SpanStream { current, parts, spans: 0 })
    }

    /// Checks that the bound table has these columns.
    ///
    /// # Errors
    /// The first missing column, or a failure of ClickHouse.
    pub async fn check_columns(&self, binding: &Binding, columns: &[String]) -> Result<(), ClickHouseError> {
        let table = self.bound_table(binding).await?;
        projection(binding, &table, Some(columns)).map(|_| ())
    }
}

impl Stream for SpanStream {
    type Item = Result<SpanChunk, ClickHouseError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some((body, lines)) = &mut this.current else {
                match this.parts.poll_next(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => {
                        this.parts.record_trace_sizes(std::mem::take(&mut this.spans));
                        return Poll::Ready(None);
                    }
                    Poll::Ready(Some(Ok(part))) => this.current = Some(part),
                    Poll::Ready(Some(Err(error))) => return this.fail(error),
                }
                continue;
            };
            match body.poll_next_unpin(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => match lines.take(bytes) {
                    Ok(Some(chunk)) => {
                        this.spans = this.spans.saturating_add(chunk.spans);
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    Ok(None) => {}
                    Err(error) => return this.fail(error),
                },
                Poll::Ready(Some(Err(error))) => return this.fail(error),
                Poll::Ready(None) => match lines.finish() {
                    Ok(()) => this.current = None,
                    Err(error) => return this.fail(error),
                },
            }
        }
    }
}

impl SpanStream {
    /// No items follow an error, neither the rest of the part nor another part.
    fn fail(&mut self, error: ClickHouseError) -> Poll<Option<Result<SpanChunk, ClickHouseError>>> {
        self.current = None;
        self.parts.cancel();
        Poll::Ready(Some(Err(error)))
    }
}

#[cfg(test)]
mod one_endpoint;
#[cfg(test)]
mod tests;
