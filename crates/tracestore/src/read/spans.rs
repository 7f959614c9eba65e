//! Given spans of one chosen trace.

use bytes::Bytes;
use futures::StreamExt as _;
use tracewarden_model::Binding;

use super::lines::LineChecker;
use super::projection;
use crate::select::{SelectedTrace, Selection};
use crate::sql::{Statement, quote};
use crate::table::BoundTable;
use crate::{StoreError, TraceStore};

/// Most that is collected, in bytes of JSON: all of it is held at once.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Most spans of one id. Exporters repeat a batch now and then; and who sends one id a thousand times must not fill the
/// answer with it, so that the other spans are missing from it.
const MAX_OF_AN_ID: usize = 4;

impl TraceStore {
    /// Reads given spans of a chosen trace, by start and then by span id: each one JSON object, as [`TraceStore::read`]
    /// delivers it. With `columns`, only these and the structural ones. Of a selection of several traces it is the first.
    ///
    /// An id that no span of the trace has is passed over; of several spans with one id there are at most four.
    ///
    /// # Errors
    /// When a column is unknown, the store fails, or the answer is larger than 64 MiB ([`StoreError::TooLarge`]).
    pub async fn read_spans(
        &self,
        binding: &Binding,
        selection: &Selection,
        span_ids: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<String>, StoreError> {
        self.read_spans_within(MAX_BYTES, binding, selection, span_ids, columns).await
    }

    /// The same, of so many bytes at most.
    pub(super) async fn read_spans_within(
        &self,
        most: usize,
        binding: &Binding,
        selection: &Selection,
        span_ids: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<String>, StoreError> {
        let projection = projection(binding, &selection.table, columns)?;
        let Some(trace) = selection.traces.first().filter(|_| !span_ids.is_empty()) else {
            return Ok(Vec::new());
        };
        let statement = spans_statement(&selection.table, &projection, trace, span_ids);
        let answer = self.client.send(statement, "JSONEachRow").await?;
        // How many of the trace's spans these are, nobody has counted.
        let mut checker = LineChecker::new(binding, &[SelectedTrace { id: trace.id.clone(), spans: 0 }]);
        let mut body = std::pin::pin!(answer.into_stream());
        let (mut lines, mut bytes) = (Vec::new(), 0_usize);
        while let Some(part) = body.next().await {
            let part: Bytes = part?;
            bytes = bytes.saturating_add(part.len());
            if bytes > most {
                return Err(StoreError::TooLarge(format!("the spans are larger than {most} bytes")));
            }
            let Some(chunk) = checker.take(part)? else { continue };
            for line in chunk.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let line = std::str::from_utf8(line).map_err(|_| StoreError::Store {
                    code: None,
                    message: "a span is not UTF-8".to_owned(),
                })?;
                lines.push(line.to_owned());
            }
        }
        checker.finish()?;
        Ok(lines)
    }
}

fn spans_statement(
    table: &BoundTable,
    projection: &[String],
    trace: &SelectedTrace,
    span_ids: &[String],
) -> Statement {
    let mut statement = table.statement();
    let columns: Vec<String> = projection.iter().map(|name| quote(name)).collect();
    let (id, spans) = (statement.string(&trace.id), statement.strings(span_ids));
    statement.by_id = true;
    statement.push(&format!(
        "SELECT {columns} FROM {name} WHERE {column} = {id} AND {span} IN {spans} \
         ORDER BY {timestamp}, {span} LIMIT {MAX_OF_AN_ID} BY {span}",
        columns = columns.join(", "),
        name = table.name,
        column = table.trace_id_column,
        timestamp = table.timestamp,
        span = table.span_id,
    ));
    statement
}
