//! All traces of the window, as a part of a statement that aggregates over them.
//!
//! Which spans of a trace count depends on its entry in the trace index. Joining the index to every span would cost more than
//! the rest of the statement. Nearly always, the entry covers all spans of the trace. Then the join can follow the grouping:
//! once for each trace.

use std::pin::pin;

use futures::future::{Either, select};

use super::considered_spans::{considered_spans, scan_ranges, trace_id_condition};
use super::estimates::estimate_granules;
use super::long_traces::long_traces_statement;
use super::required_predicates::RequiredPredicate;
use super::search::{IndexRow, Search, TimeRange};
use super::trace_bounds::TimeRanges;
use super::trace_id::with_valid_trace_id;
use super::trace_set::TraceSet;
use crate::schema::{TraceIndex, WindowShare};
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
        /// Whether spans outside of it matter. Otherwise there are no long traces.
        needs_whole: bool,
        /// Traces that extend beyond this range; they are aggregated span by span.
        long: Vec<String>,
        /// Time ranges of all their spans.
        scan: TimeRanges,
        /// Only traces that satisfy this predicate. They are found first, since skip indexes and few columns make that cheap.
        only: Option<RequiredPredicate>,
    },
}

/// The spans that a reader needs of each trace. If something is required of the traces, all are read, since each could satisfy a
/// predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpansNeeded {
    /// Those in the window.
    InWindow,
    /// Those in the default range.
    InDefaultRange,
    /// All.
    All,
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
        let Some(scan) = Self::without_long_traces(search, SpansNeeded::All, None) else { return Ok(None) };
        let long = scan.list_long_traces(search).await?;
        scan.with_long_traces(search, long).await
    }

    /// Like [`Self::by_trace`], but only traces that satisfy all required predicates: those that satisfy the rarest are found
    /// first. Long traces are missing; see [`Self::unless_long_traces`].
    pub(crate) async fn matching_by_trace(search: &Search<'_>, needed: SpansNeeded) -> Option<Self> {
        if search.required_predicates.has_exclusions() {
            // Grouping first includes spans outside of the bounds, which must not exclude a trace.
            return None;
        }
        let required_predicates = search.required_predicates.all();
        let (needed, rarest) = match required_predicates.as_slice() {
            [] => (needed, None),
            [only] => (SpansNeeded::All, Some(*only)),
            several => (SpansNeeded::All, rarest(search, several).await),
        };
        Self::without_long_traces(search, needed, rarest)
    }

    /// Returns what was read of these traces, or the ids of long traces, with which it is to be read again. They are listed at the same
    /// time, since they are rare.
    pub(crate) async fn unless_long_traces<T>(
        &self,
        search: &Search<'_>,
        reading: impl Future<Output = Result<T>>,
    ) -> Result<std::result::Result<T, Vec<String>>> {
        let (long, found) = match select(pin!(self.list_long_traces(search)), pin!(reading)).await {
            // It may suffice for the list alone.
            Either::Left((Err(ClickHouseError::Memory(_)), _)) => {
                return self.list_long_traces(search).await.map(Err);
            }
            Either::Left((long, reading)) => match long? {
                long if long.is_empty() => (long, reading.await),
                long => return Ok(Err(long)),
            },
            // An error may be due to long traces.
            Either::Right((found, listing)) => (listing.await?, found),
        };
        if long.is_empty() { found.map(Ok) } else { Ok(Err(long)) }
    }

    fn without_long_traces(
        search: &Search<'_>,
        needed: SpansNeeded,
        only: Option<RequiredPredicate>,
    ) -> Option<Self> {
        search.index.as_ref().filter(|index| index.covers(search.window))?;
        let range = match needed {
            SpansNeeded::InWindow => Some((search.window.from(), search.window.to())),
            SpansNeeded::InDefaultRange | SpansNeeded::All => search.default_range,
        };
        let needs_whole = needed == SpansNeeded::All && range.is_some();
        Some(Self::ByTrace { range, needs_whole, long: Vec::new(), scan: TimeRanges::default(), only })
    }

    /// Returns the ids of long traces, at most one more than can be read.
    async fn list_long_traces(&self, search: &Search<'_>) -> Result<Vec<String>> {
        let (Some(index), Self::ByTrace { needs_whole: true, .. }) = (&search.index, self) else {
            return Ok(Vec::new());
        };
        let fully_read = fully_read_range(search);
        let statement =
            long_traces_statement(search, index, WindowShare::Part, fully_read, MAX_LONG_TRACES, true);
        let rows: Vec<IndexRow> = search.rows(statement).await?;
        Ok(rows.into_iter().map(|(id, ..)| id).collect())
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
        more: impl IntoIterator<Item = String>,
    ) -> Result<Option<Self>> {
        let Self::ByTrace { range, needs_whole, long, only, .. } = self else { return Ok(None) };
        let long: Vec<String> = long.iter().cloned().chain(more).collect();
        if long.len() > MAX_LONG_TRACES {
            return Ok(None);
        }
        let scan = match long.as_slice() {
            [] => TimeRanges::default(),
            long => scan_ranges(search, TraceSet::Given(long)).await?,
        };
        Ok(Some(Self::ByTrace { range: *range, needs_whole: *needs_whole, long, scan, only: *only }))
    }

    /// Whether the aggregates are of all spans of each trace in the default range, and no others.
    pub(crate) fn holds_default_range(&self, search: &Search<'_>) -> bool {
        let Self::ByTrace { range, long, .. } = self else { return false };
        range.is_some() && *range == search.default_range && long.is_empty()
    }

    /// SQL: the traces, one per row: `trace`; `latest`, its latest span in the window in ticks; `readable`, whether it
    /// satisfies all required predicates; `beyond`, whether spans were included that may not count; `crossing`, whether spans outside
    /// of the window may have been read; and the aggregates.
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
        let (Some(index), Self::ByTrace { range, needs_whole, long, only, .. }) = (&search.index, self)
        else {
            return Err(ClickHouseError::Internal("there is no trace index".to_owned()));
        };
        let [trace, latest, readable, beyond, first, last] =
            statement.aliases(["trace", "latest", "readable", "beyond", "first", "last"]);
        let [traces, bounds, indexed, start, end, is_open, crossing] =
            statement.aliases(["traces", "bounds", "indexed", "start", "end", "open", "crossing"]);
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
        let inside = search.window_condition(statement);
        // If nothing is required, a trace is decided by its spans in the window.
        let decides = if *needs_whole || range.is_none() { "1" } else { &inside };
        let times = format!(
            ", minIf({timestamp}, {decides}) AS {first}, maxIf({timestamp}, {decides}) AS {last}, max(NOT {inside}) AS {crossing}"
        );
        let mut all = grouped(search, aggregates, &others, &times, &spans, statement)?;
        if !long.is_empty() {
            let long = statement.string_array(long);
            all.push_str(&format!(" AND {trace} NOT IN {long}"));
        }
        let entries = search.bounds(index, statement).with_precision(search.table.coarse_precision);
        let of_indexed = of_indexed(search, index, statement);
        let within_entry = format!("{first} >= {bounds}.{start} AND {last} < {bounds}.{end}");
        let fully_read_range = fully_read_range(search).filter(|_| *needs_whole);
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
            "SELECT {trace}, {latest}, {readable}, {bounds}.{indexed} != '' AND {beyond_entry} AS {beyond}, {crossing}{names} \
             FROM ({all}) AS {traces} \
             GLOBAL LEFT ANY JOIN (SELECT {id} AS {indexed}, {start_time} AS {start}, {end_time} AS {end}, {unusable} AS {is_open} \
             FROM {index} WHERE {of_indexed} GROUP BY {id}) AS {bounds} ON {trace} = {bounds}.{indexed}",
            names = extra_columns(aggregates.names),
            start_time = entries.from,
            end_time = entries.to,
            unusable = entries.unusable,
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
    let estimated = required_predicates.iter().zip(granules).min_by_key(|(_, granules)| granules.selected);
    estimated.map(|(predicate, _)| predicate).or(required_predicates.first()).copied()
}

/// SQL: the entries near the window. A trace without one does not count as indexed. Further entries of a trace extend its bounds: a span
/// that is read and that only they cover is marked `beyond`, and [long traces](long_traces_statement) are listed with all of their entries.
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
    let [trace, latest, readable, beyond, crossing] =
        statement.aliases(["trace", "latest", "readable", "beyond", "crossing"]);
    Ok(format!(
        "SELECT {trace}, {latest}, {readable}, toUInt8(0) AS {beyond}, toUInt8(1) AS {crossing}{} FROM ({traces})",
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
