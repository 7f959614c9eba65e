//! Reads given spans of one selected trace.

use serde_json::Value;
use serde_json::value::RawValue;
use tracewarden_model::Binding;

use super::columns::returned_columns;
use super::projection;
use crate::schema::DisplayExpressions;
use crate::search::{SelectedTrace, Selection};
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, Result};

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
    ) -> Result<Vec<SpanLine>> {
        let reader = SpanReader::new(binding, selection, columns, max_bytes)?;
        let Some(trace) = selection.traces.first().filter(|_| !span_ids.is_empty()) else {
            return Ok(Vec::new());
        };
        let table = &selection.table;
        let mut statement = table.statement();
        let is_trace = table.trace_id.is(&trace.id, &mut statement);
        let span_ids = statement.string_array(span_ids);
        let condition = format!("{is_trace} AND {} IN {span_ids}", table.span_id.text);
        let limit = format!("{MAX_SPANS_PER_ID} BY {}", table.span_id.text);
        let found = reader.read(self, trace, statement, &condition, &[], &limit).await?;
        let lines = found.into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        reader.check_size(&lines)?;
        Ok(lines)
    }
}

/// Reads spans of a selected trace as lines.
pub(super) struct SpanReader<'a> {
    binding: &'a Binding,
    selection: &'a Selection,
    projection: Vec<String>,
    pub(super) display: DisplayExpressions,
    /// Maximum size of the lines.
    max_bytes: usize,
}

impl<'a> SpanReader<'a> {
    /// Fails when a column is unknown.
    pub(super) fn new(
        binding: &'a Binding,
        selection: &'a Selection,
        columns: Option<&[String]>,
        max_bytes: usize,
    ) -> Result<Self> {
        let projection = projection(binding, &selection.table, columns)?;
        let display = DisplayExpressions::new(&selection.table, &binding.display);
        Ok(Self { binding, selection, projection, display, max_bytes })
    }

    /// Reads the spans that satisfy a condition, each with its values of `expressions`. `limit` is the end of the statement.
    /// Fails when the answer is about twice as large as the lines may be.
    pub(super) async fn read(
        &self,
        store: &ClickHouse,
        trace: &SelectedTrace,
        mut statement: Statement,
        condition: &str,
        expressions: &[String],
        limit: &str,
    ) -> Result<Vec<(SpanLine, Vec<Box<RawValue>>)>> {
        let table = &self.selection.table;
        let mut columns = returned_columns(table, &self.projection);
        columns.extend_from_slice(expressions);
        let display = &self.binding.display;
        let duration = display.duration.as_ref().or(display.end.as_ref());
        let has_duration = duration.is_some_and(|duration| self.projection.contains(duration));
        let invalid = if has_duration { self.display.is_duration_invalid() } else { "0" };
        statement.filters_by_trace_id = true;
        let spans = table.spans(condition, &mut statement);
        statement.push(&format!(
            "SELECT {}, {invalid} FROM {spans} ORDER BY {}, {} LIMIT {limit}",
            columns.join(", "),
            table.timestamp,
            table.span_id.text,
        ));
        // Collected and not streamed: the number of these spans was never counted, so the answer itself has to state it.
        let most = self.max_bytes.saturating_mul(2).saturating_add(RESPONSE_OVERHEAD_BYTES);
        let client = store.client.pinned_to(self.selection.endpoint);
        let rows: Vec<Vec<Box<RawValue>>> = client.rows_within(statement, most).await?;
        let names: Vec<String> =
            self.projection.iter().map(|name| Value::from(name.as_str()).to_string()).collect();
        let mut found = Vec::with_capacity(rows.len());
        for mut row in rows {
            if row.len() != columns.len() + 1 {
                return Err(ClickHouseError::incomplete("columns are missing"));
            }
            let duration_invalid = row.pop().is_some_and(|invalid| invalid.get() == "1");
            let values = row.split_off(names.len());
            found.push((SpanLine { json: line(&names, &row, &trace.id)?, duration_invalid }, values));
        }
        Ok(found)
    }

    /// [`ClickHouseError::TooLarge`] when the lines are larger than they may be.
    pub(super) fn check_size<'l>(&self, lines: impl IntoIterator<Item = &'l SpanLine>) -> Result<()> {
        let bytes: usize = lines.into_iter().map(|line| line.json.len() + 1).sum();
        if bytes <= self.max_bytes {
            return Ok(());
        }
        Err(ClickHouseError::TooLarge(format!("the spans are larger than {} bytes", self.max_bytes)))
    }
}

/// Formats a span as the object that [`ClickHouse::read`] returns, from its values in the order of the projection.
fn line(names: &[String], row: &[Box<RawValue>], trace: &str) -> Result<String> {
    let of_another = || ClickHouseError::failed("a span of another trace arrived");
    let id = row.first().ok_or_else(of_another)?;
    if row.len() != names.len() || serde_json::from_str::<String>(id.get()).ok().as_deref() != Some(trace) {
        return Err(of_another());
    }
    let members: Vec<String> =
        names.iter().zip(row).map(|(name, value)| format!("{name}:{}", value.get())).collect();
    Ok(format!("{{{}}}", members.join(",")))
}
