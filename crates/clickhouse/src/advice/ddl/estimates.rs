//! Estimates cost and gain of suggestions: from ClickHouse's own estimates and sizes, with the arithmetic in the
//! documentation.
//!
//! A fact that cannot be determined in a few seconds is unknown. ClickHouse counts the sampled spans; only the number of
//! distinct values and their average length leave it.

use tracewarden_model::Timestamp;

use super::drafts::{DraftSubject, Drafts, IndexedExpression};
use super::facts::Facts;
use super::order::ordered;
use super::parts::Parts;
use super::suggestion::{DdlAdvice, DdlSuggestion, Reads};
use crate::catalogue::newest_hour;
use crate::client::{Client, QueryLimits};
use crate::schema::{BoundTable, column_named};
use crate::sql::{Statement, quote};
use crate::{ClickHouse, Result};

/// Time limit of each statement, in seconds.
const TIMEOUT_SECONDS: u32 = 5;
/// Maximum number of rows that are counted.
const SAMPLE_ROWS: u64 = 20_000;
/// Number of traces of a page.
const PAGE_TRACES: u64 = 50;
/// Rows of a granule, the default of `index_granularity`.
const GRANULE_ROWS: f64 = 8_192.0;
/// Bytes of a bloom filter of 1 % for each value: 9.6 bits.
const FILTER_BYTES: f64 = 1.2;
/// Share of false positives among granules.
const FALSE_POSITIVE_RATE: f64 = 0.01;

/// Sizes of sampled values.
#[derive(Debug, Clone, Copy)]
struct ValueSample {
    rows: f64,
    /// Number of distinct values.
    distinct: f64,
    /// Average length in bytes.
    length: f64,
}

/// Inputs of the estimates.
struct Estimator<'a> {
    client: Client,
    table: &'a BoundTable,
    trace_id: &'a str,
    parts: &'a Parts,
    samples: bool,
    /// Number of rows of the table.
    rows: Option<f64>,
    /// The newest hour of its data: the window of the search that estimates are for.
    window: Option<(Timestamp, Timestamp)>,
    /// Number of rows in that hour.
    in_window: Option<f64>,
}

/// Adds cost and gain to each suggestion, and sorts them by it.
pub(super) async fn estimated(
    store: &ClickHouse,
    facts: &Facts<'_>,
    table: &BoundTable,
    drafts: Drafts,
    samples: bool,
) -> Result<DdlAdvice> {
    let mut estimator = Estimator {
        client: store.client.with_limits(QueryLimits { seconds: TIMEOUT_SECONDS, rows: 0 }),
        table,
        trace_id: &facts.binding.trace_id,
        parts: facts.parts,
        samples,
        rows: facts.layout.rows.filter(|rows| *rows > 0).map(|rows| rows as f64),
        window: None,
        in_window: None,
    };
    if estimator.rows.is_some() {
        estimator.window = newest_hour(&estimator.client, table).await?;
        estimator.in_window = estimator.rows_in_window().await?;
    }
    let max_trace_nanos = store.config.max_trace_duration_nanos;
    let mut suggestions = Vec::with_capacity(drafts.missing.len());
    for draft in drafts.missing {
        let estimates = estimator.estimates(&draft.subject, max_trace_nanos).await?;
        let mut suggestion = DdlSuggestion {
            measured_on: estimates.operation.to_owned(),
            reads_before: estimates.before,
            reads_after: estimates.after,
            disk_bytes: estimates.disk.map(rounded),
            ..draft.suggestion
        };
        suggestion.gain = suggestion.reads().map(|(before, after)| before as f64 / after.max(1) as f64);
        suggestions.push(suggestion);
    }
    Ok(DdlAdvice { suggestions: ordered(suggestions), in_place: drafts.in_place, notes: drafts.notes })
}

/// Estimates of a suggestion.
#[derive(Default)]
struct Estimates {
    operation: &'static str,
    before: Option<Reads>,
    after: Option<Reads>,
    disk: Option<f64>,
}

impl Estimator<'_> {
    /// Writes the condition that a span is in the newest hour, extended by `nanos` before and after.
    fn around(&self, statement: &mut Statement, nanos: i64) -> Option<String> {
        let (from, to) = self.window?;
        Some(self.table.within(from.saturating_sub(nanos), to.saturating_add(nanos), statement))
    }

    async fn rows_in_window(&self) -> Result<Option<f64>> {
        let mut statement = self.table.statement();
        let Some(in_window) = self.around(&mut statement, 0) else { return Ok(None) };
        let spans = self.table.spans(&in_window, &mut statement);
        statement.push(&format!("SELECT toFloat64(count()) FROM {spans}"));
        Ok(self.client.row_unless_refused::<(f64,)>(statement).await?.map(|(rows,)| rows))
    }

    /// Returns the number of rows that ClickHouse estimates it would read for these columns of the newest hour and `nanos`
    /// around it.
    async fn scanned(&self, columns: &[String], nanos: i64) -> Result<Option<f64>> {
        let mut statement = self.table.statement();
        let Some(around) = self.around(&mut statement, nanos) else { return Ok(None) };
        let quoted: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let spans = self.table.spans(&around, &mut statement);
        statement.push(&format!("EXPLAIN ESTIMATE SELECT {} FROM {spans}", quoted.join(", ")));
        self.estimate(statement).await
    }

    async fn estimate(&self, statement: Statement) -> Result<Option<f64>> {
        type Row = (String, String, u64, u64, u64);
        match self.client.rows::<Row>(statement).await {
            Err(error) if error.is_refusal() => Ok(None),
            rows => Ok(Some(rows?.iter().map(|(_, _, _, rows, _)| *rows as f64).sum())),
        }
    }

    async fn estimates(&self, subject: &DraftSubject, max_trace_nanos: Option<i64>) -> Result<Estimates> {
        match subject {
            DraftSubject::Key { map, key, column } => self.key(map, key, column).await,
            DraftSubject::Time { columns, new_keys } => self.time(columns, new_keys).await,
            DraftSubject::Trace => self.trace().await,
            DraftSubject::TraceIndex => self.trace_index(max_trace_nanos).await,
            DraftSubject::Index { column, indexed } => self.index(column, *indexed).await,
        }
    }

    async fn key(&self, map: &str, key: &str, column: &str) -> Result<Estimates> {
        let scanned = self.scanned(&[map.to_owned()], 0).await?;
        let after = self.key_row_bytes(map, key, column).await?;
        Ok(Estimates {
            operation: "searching the newest hour by this key",
            before: reads(scanned, self.parts.row_bytes(map)),
            after: reads(scanned, after),
            disk: product(self.rows, after),
        })
    }

    /// Returns bytes per row of a key column: the actual size if it exists, otherwise an upper bound.
    async fn key_row_bytes(&self, map: &str, key: &str, column: &str) -> Result<Option<f64>> {
        if let Some(bytes) = self.parts.row_bytes(column) {
            return Ok(Some(bytes));
        }
        let mut statement = self.table.statement();
        let (quoted, key) = (quote(map), statement.string(key));
        let value = format!("mapValues({quoted})[indexOf(mapKeys({quoted}), {key})]");
        let values = format!("if(mapContains({quoted}, {key}), [{value}], [])");
        let sampled = self.sample(statement, map, &values, 1.0).await?;
        Ok(sampled.map(|sampled| {
            // A dictionary index for each row, and each value once.
            let number = if sampled.distinct < 256.0 { 1.0 } else { 2.0 };
            let most = number + sampled.distinct * sampled.length / sampled.rows;
            // At most as much as the map.
            self.parts.row_bytes(map).map_or(most, |map| most.min(map))
        }))
    }

    /// Counts the strings in the arrays of this expression, in some rows of the newest hour.
    async fn sample(
        &self,
        mut statement: Statement,
        column: &str,
        strings: &str,
        share: f64,
    ) -> Result<Option<ValueSample>> {
        if !self.samples {
            return Ok(None);
        }
        let Some(in_window) = self.around(&mut statement, 0) else { return Ok(None) };
        let rows = (SAMPLE_ROWS as f64 * share) as u64;
        let values = statement.alias("values");
        let (column, spans) = (quote(column), self.table.spans(&in_window, &mut statement));
        statement.push(&format!(
            "SELECT toFloat64(count()), toFloat64(uniqArray({values})), \
             toFloat64(ifNotFinite(sum(arraySum(arrayMap({values}_1 -> length({values}_1), {values}))) / sum(length({values})), 0)) \
             FROM (SELECT arrayMap({values}_2 -> ifNull(toString({values}_2), ''), {strings}) AS {values} FROM \
             (SELECT {column} FROM {spans} LIMIT {rows}))"
        ));
        let row: Option<(f64, f64, f64)> = self.client.row_unless_refused(statement).await?;
        Ok(row.filter(|(rows, ..)| *rows > 0.0).map(|(rows, distinct, length)| ValueSample {
            rows,
            distinct,
            length,
        }))
    }

    async fn time(&self, columns: &[String], new_keys: &[(String, String)]) -> Result<Estimates> {
        let exists = |column: &&String| column_named(&self.table.columns, column).is_some();
        let existing: Vec<String> = columns.iter().filter(exists).cloned().collect();
        let mut before_columns = existing.clone();
        for (map, _) in new_keys {
            if !before_columns.contains(map) {
                before_columns.push(map.clone());
            }
        }
        let scanned = self.scanned(&before_columns, 0).await?;
        let mut after_bytes: Option<f64> = existing.iter().map(|column| self.parts.row_bytes(column)).sum();
        for (map, key) in new_keys {
            let more = self.key_row_bytes(map, key, "").await?;
            after_bytes = after_bytes.zip(more).map(|(bytes, more)| bytes + more);
        }
        let before_bytes = before_columns.iter().map(|column| self.parts.row_bytes(column)).sum();
        // Granules at both ends are read whole.
        let after_rows =
            self.in_window.map(|in_window| (in_window + GRANULE_ROWS).min(self.rows.unwrap_or(in_window)));
        Ok(Estimates {
            operation: "searching the newest hour",
            before: reads(scanned, before_bytes),
            after: reads(after_rows, after_bytes),
            disk: product(self.rows, after_bytes),
        })
    }

    async fn trace(&self) -> Result<Estimates> {
        let mut statement = self.table.statement();
        let ids: Option<(Vec<String>,)> = match self.around(&mut statement, 0) {
            Some(in_window) => {
                let spans = self.table.spans(&in_window, &mut statement);
                let id = &self.table.trace_id.text;
                statement.push(&format!("SELECT groupUniqArray({PAGE_TRACES})({id}) FROM {spans}"));
                self.client.row_unless_refused(statement).await?
            }
            None => None,
        };
        let columns = self.table.columns.iter().filter(|column| !column.is_derived());
        let row_bytes = columns.map(|column| self.parts.row_bytes(&column.name)).sum();
        let mut estimated = Estimates {
            operation: "reading 50 traces of the newest hour",
            disk: product(self.rows, row_bytes),
            ..Estimates::default()
        };
        let Some((ids,)) = ids.filter(|(ids,)| !ids.is_empty()) else { return Ok(estimated) };
        let mut statement = self.table.statement();
        let of_traces = self.table.trace_id.is_one_of(&ids, &mut statement);
        let spans = self.table.spans(&of_traces, &mut statement);
        statement.push(&format!("EXPLAIN ESTIMATE SELECT * FROM {spans}"));
        estimated.before = reads(self.estimate(statement).await?, row_bytes);
        let granules = ids.len() as f64 * GRANULE_ROWS;
        estimated.after = reads(self.rows.map(|rows| rows.min(granules)), row_bytes);
        Ok(estimated)
    }

    async fn trace_index(&self, max_trace_nanos: Option<i64>) -> Result<Estimates> {
        let columns = [self.trace_id.to_owned()];
        let before = match max_trace_nanos {
            Some(nanos) => self.scanned(&columns, nanos).await?,
            None => self.rows,
        };
        let after = self.scanned(&columns, 0).await?;
        Ok(Estimates {
            operation: "evaluating the traces of the newest hour",
            before: reads(before, None),
            after: reads(after, None),
            disk: None,
        })
    }

    async fn index(&self, column: &str, indexed: IndexedExpression) -> Result<Estimates> {
        let strings = match indexed {
            IndexedExpression::Column => format!("[{}]", quote(column)),
            indexed => indexed.write(&quote(column)),
        };
        // A sample as large as a granule.
        let share = GRANULE_ROWS / SAMPLE_ROWS as f64;
        let sampled = self.sample(self.table.statement(), column, &strings, share).await?;
        let scanned = self.scanned(&[column.to_owned()], 0).await?;
        let row_bytes = self.parts.row_bytes(column);
        let after = scanned.map(|rows| rows.min(GRANULE_ROWS + FALSE_POSITIVE_RATE * rows));
        Ok(Estimates {
            operation: "searching the newest hour for a value that one span has",
            before: reads(scanned, row_bytes),
            after: reads(after, row_bytes),
            disk: product(self.rows, sampled.map(|sampled| sampled.distinct * FILTER_BYTES / sampled.rows)),
        })
    }
}

fn product(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    Some(left? * right?)
}

fn rounded(value: f64) -> u64 {
    value.round() as u64
}

fn reads(rows: Option<f64>, row_bytes: Option<f64>) -> Option<Reads> {
    let rows = rows?;
    Some(Reads { rows: rounded(rows), bytes: row_bytes.map(|bytes| rounded(rows * bytes)) })
}
