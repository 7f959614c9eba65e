//! The counting statement, and how its rows are read.
//!
//! Its innermost part groups the spans by trace and keeps the newest traces that satisfy everything. In a second pass over
//! the table, each of their spans, or each trace, becomes one row for the total, and one for each group, bucket and value of
//! a facet that it is in.

use super::buckets::Buckets;
use super::classes::{BUCKET, FIRST_FACET, GROUP, NO_GROUP, TOTAL};
use super::groups::Groups;
use super::types::{
    FacetValue, MAX_FACET_VALUES, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers, StatsOrder,
    StatsRequest, StatsUnit,
};
use crate::schema::DisplayExpressions;
use crate::search::{Aggregates, SPANS_BEYOND_BOUNDS, Search, TraceScan};
use crate::sql::Statement;
use crate::{ClickHouseError, Result};

/// Class of the row, whether no list can show its values, and its values; traces, spans, errors; percentiles and maximum of
/// the duration, and whether one of the durations is invalid; numbers of distinct groups and of distinct values of each facet.
pub(super) type Row = (u8, u8, Vec<String>, u64, u64, u64, Vec<f64>, i64, u8, Vec<u64>);

/// Message with which the statement fails if there are more traces than are counted; see [`SPANS_BEYOND_BOUNDS`].
const MORE_TRACES: &str = "tracewarden: more traces";

/// Which traces are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChosenTraces {
    /// All; the statement throws if there are more than requested.
    All,
    /// The newest. To find them, the statement reads the columns that their order depends on.
    Newest,
}

/// Why the statistics have to be computed in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryReason {
    MoreTraces,
    SpansBeyondBounds,
}

impl RetryReason {
    /// Converts the exception of the statement.
    pub(super) fn from_error(error: &ClickHouseError) -> Option<Self> {
        [(MORE_TRACES, Self::MoreTraces), (SPANS_BEYOND_BOUNDS, Self::SpansBeyondBounds)]
            .into_iter()
            .find_map(|(text, reason)| error.is_throw_if(text).then_some(reason))
    }
}

/// Names that this crate introduces in the statement.
struct Names {
    chosen: String,
    trace: String,
    group: String,
    traces: String,
    spans: String,
    errors: String,
    percentiles: String,
    longest: String,
    invalid: String,
}

impl Names {
    fn new(statement: &Statement) -> Self {
        let alias = |name: &str| statement.alias(name);
        Self {
            chosen: alias("chosen"),
            trace: alias("trace"),
            group: alias("group"),
            traces: alias("traces"),
            spans: alias("spans"),
            errors: alias("errors"),
            percentiles: alias("percentiles"),
            longest: alias("longest"),
            invalid: alias("invalid"),
        }
    }

    /// Writes percentiles and the maximum of a duration. With `BFloat16` the percentiles are exact except for the rounding of
    /// each value, take some thousand counters at most, and do not depend on the order of spans. A t-digest has none of these
    /// properties.
    fn durations(&self, nanos: &str, invalid: &str) -> String {
        format!(
            "quantilesBFloat16(0.5, 0.95, 0.99)({nanos}) AS {}, max({nanos}) AS {}, max({invalid}) AS {}",
            self.percentiles, self.longest, self.invalid
        )
    }
}

pub(super) fn statement(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    chosen: ChosenTraces,
) -> Result<Statement> {
    let mut statement = search.table.statement().evaluated_per_row();
    let traces = traces(search, scan, request.max_traces, chosen, &mut statement)?;
    let names = Names::new(&statement);
    let counted = match request.per {
        StatsUnit::Span => per_span(search, display, request, &names, &mut statement)?,
        StatsUnit::Trace => per_trace(search, display, request, &names, &mut statement)?,
    };
    let listed = listed(&counted, request, &names);
    statement.push(&format!("WITH {} AS ({traces}) {listed}", names.chosen));
    Ok(statement)
}

/// Writes the sub-query for the ids of traces that satisfy everything.
fn traces(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    most: u32,
    chosen: ChosenTraces,
    statement: &mut Statement,
) -> Result<String> {
    let [trace, id, tier, position, rank, readable, beyond] =
        statement.aliases(["trace", "id", "tier", "position", "place", "readable", "beyond"]);
    let columns = match chosen {
        ChosenTraces::All => String::new(),
        ChosenTraces::Newest => search.order(&tier, &position, statement)?,
    };
    let (names, order, limit_condition) = match chosen {
        ChosenTraces::All => {
            (String::new(), String::new(), format!("throwIf({rank} > {most}, '{MORE_TRACES}') = 0"))
        }
        ChosenTraces::Newest => (
            format!("{tier}, {position}"),
            format!("ORDER BY {tier} DESC, {position} DESC, {trace} ASC"),
            format!("{rank} <= {most}"),
        ),
    };
    let having = format!(" AND {readable}");
    let aggregates = Aggregates { columns: &columns, names: &names, having: &having };
    let traces = scan.traces(search, &aggregates, statement)?;
    Ok(format!(
        "SELECT {id} AS {trace} FROM (SELECT {trace} AS {id}, {beyond}, row_number() OVER ({order}) AS {rank} FROM ({traces})) \
         WHERE throwIf({beyond}, '{SPANS_BEYOND_BOUNDS}') = 0 AND {limit_condition}"
    ))
}

/// Writes the spans of the traces.
fn spans(search: &Search<'_>, names: &Names, statement: &mut Statement) -> String {
    let condition = format!(
        "{near} AND {id} GLOBAL IN (SELECT {chosen_id} FROM {chosen})",
        near = search.range(search.default_range, statement),
        id = search.table.trace_id.column,
        chosen_id = search.table.trace_id.stored(&names.trace),
        chosen = names.chosen,
    );
    search.table.spans(&condition, statement)
}

/// Writes counts of spans, by group. If the table is distributed, each shard groups its own spans.
fn per_span(
    search: &Search<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    names: &Names,
    statement: &mut Statement,
) -> Result<String> {
    let Names { group, traces, spans: count, errors, .. } = names;
    let table = search.table;
    let bucket = request.buckets.map(|buckets| {
        let inside = search.window_condition(statement);
        buckets.bucket(&table.ticks, table.nanos_per_tick, &inside)
    });
    // If a span is in at most one group, it makes one row, and ClickHouse computes the total from the groups: half the time.
    let (of_span, by) = match Groups::of_span(request, bucket, &table.columns, statement)? {
        // A bare tuple would be several keys, with a total for each.
        Groups::One(of_span) => (format!("identity({of_span})"), format!("ROLLUP({group})")),
        Groups::Many(groups) => (format!("arrayJoin({})", rows(&groups)), group.clone()),
    };
    Ok(format!(
        "SELECT {of_span} AS {group}, uniqExact({id}) AS {traces}, count() AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM {spans} GROUP BY {by}",
        id = table.trace_id.text,
        failed = display.is_error(statement),
        durations = names.durations(durations(display), display.is_duration_invalid()),
        spans = spans(search, names, statement),
    ))
}

/// Writes counts of traces, by group.
fn per_trace(
    search: &Search<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    names: &Names,
    statement: &mut Statement,
) -> Result<String> {
    let Names { trace, group, traces, spans: count, errors, .. } = names;
    let [of_trace, failed, nanos, unlistable, in_groups, group_of_span, tier, position] =
        statement.aliases(["of_trace", "failed", "nanos", "odd", "groups", "of_span", "tier", "position"]);
    let groups = Groups::of_span(request, None, &search.table.columns, statement)?;
    let (order, groups_of_trace) = match request.buckets {
        None => (String::new(), in_groups.clone()),
        Some(buckets) => {
            let bucket = buckets.bucket(&position, search.table.nanos_per_tick, "1");
            let order = format!(", {}", search.order(&tier, &position, statement)?);
            (order, format!("arrayPushBack({in_groups}, {bucket})"))
        }
    };
    Ok(format!(
        "SELECT arrayJoin({rows}) AS {group}, count() AS {traces}, sum({of_trace}) AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM (\
         SELECT {id} AS {trace}, count() AS {of_trace}, countIf({is_failed}) > 0 AS {failed}, {duration} AS {nanos}, max({is_odd}) AS {unlistable}, \
         {collected} AS {in_groups}{order} FROM {spans} GROUP BY {trace}) GROUP BY {group}",
        rows = rows(&groups_of_trace),
        durations = names.durations(&nanos, &unlistable),
        id = search.table.trace_id.text,
        is_failed = display.is_error(statement),
        duration = display.trace_duration(search.table),
        is_odd = display.is_duration_invalid(),
        collected = match groups {
            Groups::One(group) =>
                format!("groupUniqArrayIf({group} AS {group_of_span}, {group_of_span}.1 != {NO_GROUP})"),
            Groups::Many(groups) => format!("groupUniqArrayArray({groups})"),
        },
        spans = spans(search, names, statement),
    ))
}

/// Writes the duration of a span, or zero without a duration column.
fn durations(display: &DisplayExpressions) -> &str {
    if display.has_duration() { display.duration_nanos() } else { "toInt64(0)" }
}

/// Writes the rows of a span or a trace: one for the total, and one for each of its groups.
fn rows(groups: &str) -> String {
    format!("arrayPushFront({groups}, (toUInt8({TOTAL}), toUInt8(0), emptyArrayString()))")
}

/// Writes the total, and the first rows of each class. Groups that no list can show come last.
fn listed(counted: &str, request: StatsRequest<'_>, names: &Names) -> String {
    let Names { group, traces, spans, errors, percentiles, longest, invalid, .. } = names;
    let count = match request.per {
        StatsUnit::Span => spans,
        StatsUnit::Trace => traces,
    };
    let first = match request.order {
        StatsOrder::Count => count.clone(),
        StatsOrder::Errors => errors.clone(),
        StatsOrder::ErrorRate => format!("{errors} / {count}"),
        StatsOrder::Duration => format!("{percentiles}[2]"),
    };
    let order = if request.facets.is_empty() {
        format!("{first} DESC, {count} DESC")
    } else {
        // Values of facets by their traces alone. A product, because `if` finds no common type of integers and floats.
        let is_facet = format!("({group}.1 >= {FIRST_FACET})");
        format!("(1 - {is_facet}) * {first} DESC, if({is_facet}, {traces}, {count}) DESC")
    };
    // With a limit for each class, ClickHouse sorts all rows; with a plain one, it keeps only as many. There is one limit for all
    // classes: the rest of each is dropped when the rows are read.
    let limit = if request.facets.is_empty() && request.buckets.is_none() {
        format!("LIMIT {}", u64::from(request.limit) + 1)
    } else {
        let buckets = request.buckets.map_or(0, |buckets| buckets.count());
        let facets = if request.facets.is_empty() { 0 } else { MAX_FACET_VALUES };
        let most = (request.limit as usize).max(buckets).max(facets);
        format!("LIMIT {most} BY {group}.1")
    };
    let classes = (0..request.facets.len()).map(|at| FIRST_FACET as usize + at);
    let distinct: Vec<String> = std::iter::once(usize::from(GROUP))
        .chain(classes)
        .map(|class| format!("countIf({group}.1 = {class}) OVER ()"))
        .collect();
    format!(
        "SELECT {group}.1, {group}.2, if({group}.2 = 0, {group}.3, []), {traces}, {spans}, {errors}, {percentiles}, {longest}, {invalid}, \
         [{distinct}] FROM ({counted}) \
         ORDER BY {group}.1 != {TOTAL}, {group}.1 = {NO_GROUP}, {group}.2 != 0, {order}, {group}.3 {limit}",
        distinct = distinct.join(", "),
    )
}

/// Converts the rows: the total comes first, and there are no rows if there are no traces.
pub(super) fn stats(
    rows: Vec<Row>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    complete: bool,
) -> Result<Stats> {
    let mut stats = empty_stats(display, request);
    stats.complete = complete;
    let mut rows = rows.into_iter();
    let Some(total) = rows.next() else { return Ok(stats) };
    let (TOTAL, [distinct, distinct_values @ ..]) = (total.0, total.9.as_slice()) else {
        return Err(ClickHouseError::incomplete("the total is missing"));
    };
    stats.distinct = *distinct;
    for (facet, distinct) in stats.facets.iter_mut().zip(distinct_values) {
        facet.distinct = *distinct;
    }
    stats.total = numbers(&total, display)?;
    for mut row in rows.filter(|row| row.1 == 0 && row.0 != NO_GROUP) {
        let mut values = std::mem::take(&mut row.2);
        match (row.0, values.as_mut_slice()) {
            (GROUP, _) if stats.groups.len() < request.limit as usize => {
                stats.groups.push(StatsGroup { values, numbers: numbers(&row, display)? });
            }
            (BUCKET, [index]) => {
                // A span that was written between the two passes may lie in none.
                let index = index.parse().ok();
                if let Some(bucket) = index.and_then(|index: usize| stats.buckets.get_mut(index)) {
                    bucket.numbers = numbers(&row, display)?;
                }
            }
            (FIRST_FACET.., [value]) => {
                let facet = stats.facets.get_mut(usize::from(row.0 - FIRST_FACET));
                if let Some(facet) = facet.filter(|facet| facet.values.len() < MAX_FACET_VALUES) {
                    facet.values.push(FacetValue { value: std::mem::take(value), traces: row.3 });
                }
            }
            _ => {}
        }
    }
    Ok(stats)
}

/// Returns the statistics of no traces.
pub(super) fn empty_stats(display: &DisplayExpressions, request: StatsRequest<'_>) -> Stats {
    let total = StatsNumbers { errors: display.has_status().then_some(0), ..StatsNumbers::default() };
    let bucket = |(from, to)| StatsBucket { from, to, numbers: total.clone() };
    let buckets = request.buckets.iter().flat_map(Buckets::ranges).map(bucket).collect();
    let facets = vec![StatsFacet::default(); request.facets.len()];
    Stats { buckets, facets, total, groups: Vec::new(), distinct: 0, complete: true }
}

fn numbers(row: &Row, display: &DisplayExpressions) -> Result<StatsNumbers> {
    let (_, _, _, traces, spans, errors, percentiles, longest, invalid, _) = row;
    let [p50, p95, p99] = percentiles.as_slice() else {
        return Err(ClickHouseError::incomplete("percentiles are missing"));
    };
    // A value that is rounded to a float before it is truncated can become slightly larger than it was.
    let nanos = |nanos: f64| display.has_duration().then_some((nanos as i64).min(*longest));
    Ok(StatsNumbers {
        traces: *traces,
        spans: *spans,
        errors: display.has_status().then_some(*errors),
        p50_nanos: nanos(*p50),
        p95_nanos: nanos(*p95),
        p99_nanos: nanos(*p99),
        max_nanos: display.has_duration().then_some(*longest),
        duration_invalid: *invalid == 1,
    })
}
