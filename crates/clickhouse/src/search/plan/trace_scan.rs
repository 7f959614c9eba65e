//! All traces of the window, as a part of a statement that aggregates over them.
//!
//! Which spans of a trace count depends on its entry in the trace index. Joining the index to every span would cost more than
//! the rest of the statement. Nearly always, the entry covers all spans of the trace. Then the join can follow the grouping:
//! once for each trace.

use std::collections::BTreeSet;

use super::considered_spans::{considered_spans, scan_ranges, trace_id_condition};
use super::estimates::estimate_granules;
use super::long_traces::long_traces_statement;
use super::required_predicates::RequiredPredicate;
use super::search::{IndexRow, Search, TimeRange};
use super::trace_bounds::TimeRanges;
use super::trace_id::with_valid_trace_id;
use super::trace_set::TraceSet;
use crate::schema::{IndexBounds, TraceIndex, WindowShare};
use crate::sql::Statement;
use crate::{ClickHouseError, Result};

/// Maximum traces that are aggregated separately because they extend beyond the range read, or beyond their entries.
pub(crate) const MAX_LONG_TRACES: usize = 1_000;

/// Message with which a statement fails if spans were read that may not count. A result column that reports it would need the traces a
/// second time, and planning that sub-query again takes longer than a rare exception.
pub(crate) const SPANS_BEYOND_BOUNDS: &str = "tracewarden: spans beyond bounds";

/// How the spans of traces are read.
pub(crate) enum TraceScan<'a> {
    /// Each span is compared with the bounds of its trace.
    BySpan {
        /// The traces.
        trace_set: TraceSet<'a>,
        /// Time ranges of all their spans.
        scan: TimeRanges,
    },
    /// All traces of the window, grouped first and compared with their bounds afterwards. A trace for which that does not
    /// suffice is marked `beyond`.
    ByTrace {
        /// The range of spans that is read.
        range: TimeRange,
        /// Traces that extend beyond this range; they are aggregated span by span.
        long: Vec<String>,
        /// Time ranges of all their spans.
        scan: TimeRanges,
        /// Only traces that satisfy this predicate. They are found first, since skip indexes and few columns make that cheap.
        only: Option<RequiredPredicate>,
    },
}

/// Aggregates over the spans of each trace.
pub(crate) struct Aggregates<'s> {
    /// Expressions with their names.
    pub(crate) columns: &'s str,
    /// The names.
    pub(crate) names: &'s str,
    /// Which traces are wanted, as `AND …`; empty for all. A wanted trace must remain wanted when spans are included that do
    /// not count.
    pub(crate) having: &'s str,
}

impl TraceScan<'_> {
    /// All traces of the window, grouped first. `None` without a trace index that covers the window, or with too many long traces.
    pub(crate) async fn by_trace(search: &Search<'_>) -> Result<Option<Self>> {
        Self::with_bounds(search, search.default_range, None).await
    }

    /// Like [`Self::by_trace`], but only traces that satisfy all required predicates: those that satisfy the rarest are found
    /// first. `of_all` is the range of spans that is read if nothing is required.
    pub(crate) async fn matching_by_trace(search: &Search<'_>, of_all: TimeRange) -> Result<Option<Self>> {
        if search.required_predicates.has_exclusions() {
            // Grouping first includes spans outside of the bounds, which must not exclude a trace.
            return Ok(None);
        }
        let required_predicates = search.required_predicates.all();
        let (range, rarest) = match required_predicates.as_slice() {
            [] => (of_all, None),
            [only] => (search.default_range, Some(*only)),
            several => (search.default_range, rarest(search, several).await),
        };
        Self::with_bounds(search, range, rarest).await
    }

    async fn with_bounds(
        search: &Search<'_>,
        range: TimeRange,
        only: Option<RequiredPredicate>,
    ) -> Result<Option<Self>> {
        let Some(index) = search.index.as_ref().filter(|index| index.covers(search.window)) else {
            return Ok(None);
        };
        let (mut long, mut scan) = (Vec::new(), TimeRanges::default());
        if range.is_some() && range == search.default_range {
            let fully_read = fully_read_range(search);
            let statement =
                long_traces_statement(search, index, WindowShare::Part, fully_read, MAX_LONG_TRACES);
            let rows: Vec<IndexRow> = search.rows(statement).await?;
            if rows.len() > MAX_LONG_TRACES {
                return Ok(None);
            }
            long.extend(rows.into_iter().map(|(id, ..)| id));
            if !long.is_empty() {
                scan = scan_ranges(search, TraceSet::Given(&long)).await?;
            }
        }
        Ok(Some(Self::ByTrace { range, long, scan, only }))
    }

    /// All traces of the window, span by span.
    pub(crate) async fn by_span(search: &Search<'_>) -> Result<Self> {
        let trace_set = TraceSet::Window;
        Ok(Self::BySpan { trace_set, scan: scan_ranges(search, trace_set).await? })
    }

    /// Adds further traces that are aggregated span by span; `None` if there are too many.
    pub(crate) async fn with_long_traces(
        &self,
        search: &Search<'_>,
        more: &BTreeSet<String>,
    ) -> Result<Option<Self>> {
        let Self::ByTrace { range, long, only, .. } = self else { return Ok(None) };
        let long: Vec<String> = long.iter().chain(more).cloned().collect();
        if long.len() > MAX_LONG_TRACES {
            return Ok(None);
        }
        let scan = scan_ranges(search, TraceSet::Given(&long)).await?;
        Ok(Some(Self::ByTrace { range: *range, long, scan, only: *only }))
    }

    /// SQL: the traces, one per row: `trace`; `latest`, its latest span in the window in ticks; `readable`, whether it
    /// satisfies all required predicates; `beyond`, whether spans were included that may not count; and the aggregates.
    pub(crate) fn traces(
        &self,
        search: &Search<'_>,
        aggregates: &Aggregates<'_>,
        statement: &mut Statement,
    ) -> Result<String> {
        match self {
            Self::BySpan { trace_set, scan } => by_span(search, aggregates, *trace_set, scan, statement),
            Self::ByTrace { long, scan, .. } => {
                let all = self.by_bounds(search, aggregates, statement)?;
                if long.is_empty() {
                    return Ok(all);
                }
                let long = by_span(search, aggregates, TraceSet::Given(long), scan, statement)?;
                Ok(format!("{all} UNION ALL {long}"))
            }
        }
    }

    /// Writes all traces except the long ones. Each is marked if some of its spans that are read lie outside its entry, or if
    /// its entry extends beyond the range that is read.
    fn by_bounds(
        &self,
        search: &Search<'_>,
        aggregates: &Aggregates<'_>,
        statement: &mut Statement,
    ) -> Result<String> {
        let (Some(index), Self::ByTrace { range, long, only, .. }) = (&search.index, self) else {
            return Err(ClickHouseError::Internal("there is no trace index".to_owned()));
        };
        let [trace, latest, readable, beyond, first, last] =
            statement.aliases(["trace", "latest", "readable", "beyond", "first", "last"]);
        let [traces, bounds, indexed, start, end, is_open] =
            statement.aliases(["traces", "bounds", "indexed", "start", "end", "open"]);
        let (table, timestamp) = (search.table, &search.table.timestamp);
        let mut condition = search.range(*range, statement);
        if let Some(only) = only {
            let id = &table.trace_id.column;
            let near = search.range(*range, statement);
            let span_condition = statement
                .filtering_rows(|statement| search.required_predicates.span_condition(*only, statement))?;
            let only = table.spans(&format!("{near} AND {span_condition}"), statement);
            condition.push_str(&format!(" AND {id} GLOBAL IN (SELECT {id} FROM {only})"));
        }
        let spans = format!(" FROM {}", table.spans(&condition, statement));
        let others: Vec<RequiredPredicate> = search
            .required_predicates
            .all()
            .into_iter()
            .filter(|predicate| Some(*predicate) != *only)
            .collect();
        let times = format!(", min({timestamp}) AS {first}, max({timestamp}) AS {last}");
        let mut all = grouped(search, aggregates, &others, &times, &spans, statement)?;
        if !long.is_empty() {
            let long = statement.string_array(long);
            all.push_str(&format!(" AND {trace} NOT IN {long}"));
        }
        let IndexBounds { from, to, unusable, .. } =
            search.bounds(index, statement).with_precision(search.table.coarse_precision);
        let of_indexed = of_indexed(search, index, statement);
        let within_entry = format!("{first} >= {bounds}.{start} AND {last} < {bounds}.{end}");
        let fully_read_range = fully_read_range(search).filter(|_| *range == search.default_range);
        let beyond_entry = match fully_read_range {
            // All spans that can count are read.
            None => format!("NOT {bounds}.{is_open} AND NOT ({within_entry})"),
            Some((low, high)) => {
                let [low, high] = [low, high].map(|time| statement.time(time));
                format!(
                    "({bounds}.{is_open} OR NOT ({within_entry} AND {bounds}.{start} >= {low} AND {bounds}.{end} <= {high}))"
                )
            }
        };
        // With join_use_nulls = 0, a trace without an entry has an empty id here.
        Ok(format!(
            "SELECT {trace}, {latest}, {readable}, {bounds}.{indexed} != '' AND {beyond_entry} AS {beyond}{names} \
             FROM ({all}) AS {traces} \
             GLOBAL LEFT ANY JOIN (SELECT {id} AS {indexed}, {from} AS {start}, {to} AS {end}, {unusable} AS {is_open} \
             FROM {index} WHERE {of_indexed} GROUP BY {id}) AS {bounds} ON {trace} = {bounds}.{indexed}",
            names = extra_columns(aggregates.names),
            id = index.trace_id,
            index = index.name,
        ))
    }
}

/// Returns the range in which all spans of a trace are certainly read, if its bounds lie within it. It is shorter by a
/// tick at both ends: bounds may be finer than timestamps, which are rounded down.
fn fully_read_range(search: &Search<'_>) -> TimeRange {
    let tick = search.table.nanos_per_tick;
    search.default_range.map(|(low, high)| (low.saturating_add(tick), high.saturating_sub(tick)))
}

/// Returns the required predicate that the fewest granules may satisfy, by estimate.
async fn rarest(search: &Search<'_>, required_predicates: &[RequiredPredicate]) -> Option<RequiredPredicate> {
    let reads: Vec<(Option<RequiredPredicate>, TimeRange)> =
        required_predicates.iter().map(|predicate| (Some(*predicate), search.default_range)).collect();
    let granules = estimate_granules(search, &reads).await.unwrap_or_default();
    let selected = |at: usize| granules.get(at).map(|granules| granules.selected);
    required_predicates
        .iter()
        .enumerate()
        .min_by_key(|(at, _)| selected(*at))
        .map(|(_, predicate)| *predicate)
}

/// SQL: the entries near the window. A trace without one does not count as indexed. Further entries of a trace extend its bounds: a span
/// that only they cover is marked `beyond`, and [long traces](long_traces_statement) are listed with all of their entries.
fn of_indexed(search: &Search<'_>, index: &TraceIndex, statement: &mut Statement) -> String {
    if search.default_range.is_none() {
        // Every entry is near the window.
        return format!("{} {}", index.trace_id, trace_id_condition(search, TraceSet::Window, statement));
    }
    index.entry_overlaps(search.window, search.default_range, statement)
}

/// Writes traces by the bounds of each of their spans.
fn by_span(
    search: &Search<'_>,
    aggregates: &Aggregates<'_>,
    trace_set: TraceSet<'_>,
    scan: &TimeRanges,
    statement: &mut Statement,
) -> Result<String> {
    let spans = considered_spans(search, trace_set, scan, statement);
    let traces = grouped(search, aggregates, &search.required_predicates.all(), "", &spans, statement)?;
    let [trace, latest, readable, beyond] = statement.aliases(["trace", "latest", "readable", "beyond"]);
    Ok(format!(
        "SELECT {trace}, {latest}, {readable}, toUInt8(0) AS {beyond}{} FROM ({traces})",
        extra_columns(aggregates.names)
    ))
}

/// Writes spans grouped by their traces, which are in the window; `readable` is whether they satisfy these predicates.
fn grouped(
    search: &Search<'_>,
    aggregates: &Aggregates<'_>,
    required_predicates: &[RequiredPredicate],
    more: &str,
    spans: &str,
    statement: &mut Statement,
) -> Result<String> {
    let [trace, latest, readable] = statement.aliases(["trace", "latest", "readable"]);
    let inside = search.window_condition(statement);
    let having_clause = search.required_predicates.filter_having_clause(required_predicates, statement)?;
    Ok(format!(
        "SELECT {id} AS {trace}, maxIf({ticks}, {inside}) AS {latest}, ({having_clause}) AS {readable}{columns}{more}{spans} \
         GROUP BY {trace} HAVING {is_valid_trace_id}",
        id = search.table.trace_id.text,
        ticks = search.table.ticks,
        columns = extra_columns(aggregates.columns),
        is_valid_trace_id =
            with_valid_trace_id(&trace, &format!("countIf({inside}) > 0{}", aggregates.having)),
    ))
}

/// Writes additional columns of a list.
fn extra_columns(columns: &str) -> String {
    if columns.is_empty() { String::new() } else { format!(", {columns}") }
}
