//! Reads given spans of one selected trace.

use serde_json::Value;
use serde_json::value::RawValue;
use tracewarden_model::Binding;

use super::projection;
use crate::schema::{BoundTable, DisplayExpressions};
use crate::search::{SelectedTrace, Selection};
use crate::sql::{Statement, quote};
use crate::{ClickHouse, ClickHouseError};

/// Maximum size of spans that are collected, in bytes of JSON: all are held in memory at once.
pub const MAX_SPANS_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of an answer apart from its spans, in bytes: names and types of columns, and tabs.
const RESPONSE_OVERHEAD_BYTES: usize = 1024 * 1024;
/// Maximum number of spans with one id. Exporters sometimes repeat a batch. A client that sends one id a thousand times must
/// not fill the answer with it, so that other spans are missing.
pub const MAX_SPANS_PER_ID: usize = 4;

/// A span that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanLine {
    /// The span as one JSON object, as [`ClickHouse::read`] returns it.
    pub json: String,
    /// Whether the duration column is among the columns, and its value is not a valid duration. JSON alone does not show it:
    /// it has null for floats that are not numbers.
    pub duration_invalid: bool,
}

impl ClickHouse {
    /// Reads given spans of a selected trace, sorted by start and then by span id. With `columns`, only these and the
    /// structural ones. If several traces are selected, it reads the first.
    ///
    /// Ids without a span in the trace are ignored. Of several spans with one id, at most four are returned.
    ///
    /// # Errors
    /// When a column is unknown, ClickHouse fails, or the spans have more than `max_bytes` bytes ([`ClickHouseError::TooLarge`]).
    pub async fn read_span_lines(
        &self,
        max_bytes: usize,
        binding: &Binding,
        selection: &Selection,
        span_ids: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<SpanLine>, ClickHouseError> {
        let projection = projection(binding, &selection.table, columns)?;
        let Some(trace) = selection.traces.first().filter(|_| !span_ids.is_empty()) else {
            return Ok(Vec::new());
        };
        let statement = spans_statement(binding, &selection.table, &projection, trace, span_ids);
        // Collected and not streamed: the number of these spans was never counted, so the answer itself has to state it.
        let rows: Vec<Vec<Box<RawValue>>> = self
            .client
            .pinned_to(selection.endpoint)
            .rows_within(statement, max_bytes.saturating_mul(2).saturating_add(RESPONSE_OVERHEAD_BYTES))
            .await?;
        let names: Vec<String> =
            projection.iter().map(|name| Value::from(name.as_str()).to_string()).collect();
        let (mut lines, mut bytes) = (Vec::with_capacity(rows.len()), 0_usize);
        for mut row in rows {
            let duration_invalid = row.pop().is_some_and(|invalid| invalid.get() == "1");
            let json = line(&names, &row, &trace.id)?;
            bytes = bytes.saturating_add(json.len() + 1);
            if bytes > max_bytes {
                return Err(ClickHouseError::TooLarge(format!(
                    "the spans are larger than {max_bytes} bytes"
                )));
            }
            lines.push(SpanLine { json, duration_invalid });
        }
        Ok(lines)
    }

    /// Like [`ClickHouse::read_span_lines`], but returns only the JSON objects.
    ///
    /// # Errors
    /// As [`ClickHouse::read_span_lines`].
    pub async fn read_spans(
        &self,
        max_bytes: usize,
        binding: &Binding,
        selection: &Selection,
        span_ids: &[String],
        columns: Option<&[String]>,
    ) -> Result<Vec<String>, ClickHouseError> {
        let lines = self.read_span_lines(max_bytes, binding, selection, span_ids, columns).await?;
        Ok(lines.into_iter().map(|line| line.json).collect())
    }
}

/// Formats a span as the object that [`ClickHouse::read`] returns, from its values in the order of the projection.
pub(crate) fn line(names: &[String], row: &[Box<RawValue>], trace: &str) -> Result<String, ClickHouseError> {
    let of_another =
        || ClickHouseError::Exception { code: None, message: "a span of another trace arrived".to_owned() };
    let id = row.first().ok_or_else(of_another)?;
    if row.len() != names.len() || serde_json::from_str::<String>(id.get()).ok().as_deref() != Some(trace) {
        return Err(of_another());
    }
    let members: Vec<String> =
        names.iter().zip(row).map(|(name, value)| format!("{name}:{}", value.get())).collect();
    Ok(format!("{{{}}}", members.join(",")))
}

/// Writes whether the duration column is among the columns, and its value is not a valid duration.
pub(crate) fn invalid_duration(
    binding: &Binding,
    projection: &[String],
    display: &DisplayExpressions,
) -> String {
    let has_duration =
        binding.display.duration.as_ref().is_some_and(|duration| projection.contains(duration));
    if has_duration { display.is_duration_invalid().to_owned() } else { "0".to_owned() }
}

/// Returns the statement for the columns, followed by whether the span's duration is invalid.
fn spans_statement(
    binding: &Binding,
    table: &BoundTable,
    projection: &[String],
    trace: &SelectedTrace,
    span_ids: &[String],
) -> Statement {
    let mut statement = table.statement();
    let columns: Vec<String> = projection.iter().map(|name| quote(name)).collect();
    let invalid = invalid_duration(binding, projection, &DisplayExpressions::new(table, &binding.display));
    let (id, spans) = (statement.string(&trace.id), statement.string_array(span_ids));
    statement.filters_by_trace_id = true;
    statement.push(&format!(
        "SELECT {columns}, {invalid} FROM {name} WHERE {column} = {id} AND {span} IN {spans} \
         ORDER BY {timestamp}, {span} LIMIT {MAX_SPANS_PER_ID} BY {span}",
        columns = columns.join(", "),
        name = table.name,
        column = table.trace_id_column,
        timestamp = table.timestamp,
        span = table.span_id,
    ));
    statement
}
