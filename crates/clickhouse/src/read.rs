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

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tracewarden_model::Binding;

use crate::search::Selection;
use crate::{ClickHouse, Result};
use columns::projection;
use parts::{Part, PartSizes, Parts};

pub use spans::{MAX_SPANS_BYTES, MAX_SPANS_PER_ID, SpanLine};

/// Stream of the spans of selected traces, the spans of each trace together, in the selection's order.
///
/// The stream ends without an error only when every trace arrived with at least as many spans as the selection counted. No
/// items follow an error. Dropping it ends the query in ClickHouse.
pub type SpanStream = BoxStream<'static, Result<SpanChunk>>;

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
    ) -> Result<SpanStream> {
        self.read_in_parts(PartSizes::default(), binding, selection, columns).await
    }

    /// Like [`Self::read`], in parts of these sizes.
    async fn read_in_parts(
        &self,
        sizes: PartSizes,
        binding: &Binding,
        selection: &Selection,
        columns: Option<&[String]>,
    ) -> Result<SpanStream> {
        let projection = projection(binding, &selection.table, columns)?;
        let mut parts = Parts::new(self, binding, selection, projection, sizes);
        // The first part is awaited here, so that its failure can still become an HTTP status.
        let current = parts.next().await?;
        let reader = PageReader { current, parts, spans: 0 };
        Ok(stream::try_unfold(reader, PageReader::next_chunk).boxed())
    }

    /// Checks that the bound table has these columns.
    ///
    /// # Errors
    /// The first missing column, or a failure of ClickHouse.
    pub async fn check_columns(&self, binding: &Binding, columns: &[String]) -> Result<()> {
        let table = self.bound_table(binding).await?;
        projection(binding, &table, Some(columns)).map(|_| ())
    }
}

/// Reads a page, part by part.
struct PageReader {
    /// The part that is being passed on; `None` after the last one.
    current: Option<Part>,
    parts: Parts,
    /// Number of spans that were passed on.
    spans: u64,
}

impl PageReader {
    async fn next_chunk(mut self) -> Result<Option<(SpanChunk, Self)>> {
        while let Some((body, lines)) = &mut self.current {
            let Some(bytes) = body.next().await.transpose()? else {
                lines.finish()?;
                self.current = self.parts.next().await?;
                continue;
            };
            if let Some(chunk) = lines.take(bytes)? {
                self.spans = self.spans.saturating_add(chunk.spans);
                return Ok(Some((chunk, self)));
            }
        }
        self.parts.record_trace_sizes(self.spans);
        Ok(None)
    }
}

#[cfg(test)]
mod one_endpoint;
#[cfg(test)]
mod tests;
