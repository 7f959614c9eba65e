//! The counting statement, and how its rows are read.
//!
//! Its innermost part groups the spans by trace and keeps those traces that satisfy everything, or the newest of them. Each trace, or
//! each of their spans in a second pass over the table, becomes one row for the total, and one for each group, bucket and value of a
//! facet that it is in. Values of traces are collected in the first pass if that reads the spans that count, and in a second one otherwise.

use super::buckets::Buckets;
use super::classes::{BUCKET, FIRST_FACET, GROUP, NO_GROUP, TOTAL};
use super::groups::{Groups, concatenated, is_group_unlistable, tuple};
use super::types::{
    FacetValue, MAX_FACET_VALUES, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers, StatsOrder,
    StatsRequest, StatsUnit,
};
use crate::schema::DisplayExpressions;
use crate::search::{Aggregates, SPANS_BEYOND_BOUNDS, Search, TraceScan, is_valid_trace_id};
use crate::sql::Statement;
use crate::{ClickHouseError, Result};

/// Class of the row, whether no list can show its values, and its values; traces, spans, errors; percentiles and maximum of
/// the duration, and whether one of the durations is invalid; numbers of distinct groups and of distinct values of each facet.
pub(super) type Row = (u8, u8, Vec<String>, u64, u64, u64, Vec<f64>, i64, u8, Vec<u64>);

/// Message with which the statement fails if there are more traces than are counted; see [`SPANS_BEYOND_BOUNDS`].
const MORE_TRACES: &str = "tracewarden: more traces";

/// Which traces are counted, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChosenTraces {
    /// All, whose values are collected while their spans are grouped; the statement throws if there are more than requested.
    AllInOnePass,
    /// All; the statement throws if there are more than requested.
    All,
    /// The newest. To find them, the statement reads the columns that their order depends on.
    Newest,
}

/// Why the statistics have to be computed in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryReason {
    MoreTraces,
    /// One pass needs more memory than two.
    Memory,
    SpansBeyondBounds,
}

impl RetryReason {
    /// Converts the exception of the statement.
    pub(super) fn from_error(error: &ClickHouseError, chosen: ChosenTraces) -> Option<Self> {
        if matches!(error, ClickHouseError::Memory(_)) {
            return (chosen == ChosenTraces::AllInOnePass).then_some(Self::Memory);
        }
        [(MORE_TRACES, Self::MoreTraces), (SPANS_BEYOND_BOUNDS, Self::SpansBeyondBounds)]
            .into_iter()
            .find_map(|(text, reason)| error.is_throw_if(text).then_some(reason))
    }
}

/// Names of the columns of counted groups.
const COUNTED: [&str; 7] = ["group", "traces", "spans", "errors", "percentiles", "longest", "invalid"];

/// Writes percentiles and the maximum of a duration. With `BFloat16` the percentiles are exact except for the rounding of each value, take
/// some thousand counters at most, and do not depend on the order of spans. A t-digest has none of these properties.
fn percentiles(nanos: &str, is_invalid: &str, statement: &Statement) -> String {
    let [.., percentiles, longest, invalid] = statement.aliases(COUNTED);
    format!(
        "quantilesBFloat16(0.5, 0.95, 0.99)({nanos}) AS {percentiles}, max({nanos}) AS {longest}, max({is_invalid}) AS {invalid}"
    )
}

pub(super) fn statement(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    chosen: ChosenTraces,
) -> Result<Statement> {
    let mut statement = search.table.statement().evaluated_per_row();
    let traces = Traces { search, scan, most: request.max_traces, chosen };
    let counted = match request.per {
        StatsUnit::Span => per_span(traces, display, request, &mut statement)?,
        StatsUnit::Trace => per_trace(traces, display, request, &mut statement)?,
    };
    statement.push(&listed(&counted, request, &statement));
    Ok(statement)
}

/// The traces that satisfy everything.
#[derive(Clone, Copy)]
struct Traces<'a> {
    search: &'a Search<'a>,
    scan: &'a TraceScan<'a>,
    /// Maximum number.
    most: u32,
    chosen: ChosenTraces,
}

impl Traces<'_> {
    /// Writes their ids as `trace`, and these aggregates. Traces for which `wanted` is false are left out at the end: they count for the
    /// maximum.
    fn ids(self, (columns, names): (&str, &str), wanted: &str, statement: &mut Statement) -> Result<String> {
        let Self { search, scan, most, chosen } = self;
        let [trace, id, tier, position, rank, readable, beyond, crossing] =
            statement.aliases(["trace", "id", "tier", "position", "place", "readable", "beyond", "crossing"]);
        let (mut columns, mut names) = (columns.to_owned(), names.to_owned());
        if chosen == ChosenTraces::Newest {
            columns.push_str(&search.order(&tier, &position, statement)?);
            names.push_str(&format!("{tier}, {position}"));
        }
        let (order, is_counted) = match chosen {
            ChosenTraces::AllInOnePass | ChosenTraces::All => {
                (String::new(), format!("throwIf({rank} > {most}, '{MORE_TRACES}') = 0"))
            }
            ChosenTraces::Newest => {
                (format!("ORDER BY {tier} DESC, {position} DESC, {trace} ASC"), format!("{rank} <= {most}"))
            }
        };
        let having = format!(" AND {readable}");
        let aggregates = Aggregates { columns: &columns, names: &names, having: &having };
        let traces = scan.traces(search, &aggregates, statement)?;
        let names = if names.is_empty() { names } else { format!(", {names}") };
        // One condition, so that ClickHouse evaluates the exceptions for every trace, wanted or not.
        Ok(format!(
            "SELECT {id} AS {trace}{names} FROM (\
             SELECT {trace} AS {id}, {beyond}, {crossing}, row_number() OVER ({order}) AS {rank}{names} FROM ({traces})) \
             WHERE if(throwIf({beyond}, '{SPANS_BEYOND_BOUNDS}') = 0 AND {is_counted}, {wanted}, 0)"
        ))
    }

    /// Writes their spans in the default range. They are read separately, so that memory is needed only for the spans' groups.
    fn spans(self, statement: &mut Statement) -> Result<String> {
        let Self { search, scan, chosen, .. } = self;
        let (table, near) = (search.table, search.range(search.default_range, statement));
        let [trace, crossing] = statement.aliases(["trace", "crossing"]);
        let (id, chosen_id) = (&table.trace_id.column, table.trace_id.stored(&trace));
        let is_all = search.required_predicates.all().is_empty() && chosen != ChosenTraces::Newest;
        let is_chosen = if is_all && scan.holds_default_range(search) {
            // A span in the window makes its trace one of these. Spans around the window are compared with the ids of the traces that
            // have some there. A span that is written between the passes may count, too: the caller may read it.
            let inside = search.window_condition(statement);
            let crossing = self.ids(("", ""), &crossing, statement)?;
            format!(
                "({inside} AND {is_valid} OR {id} GLOBAL IN (SELECT {chosen_id} FROM ({crossing})))",
                is_valid = is_valid_trace_id(&table.trace_id.text),
            )
        } else {
            format!("{id} GLOBAL IN (SELECT {chosen_id} FROM ({}))", self.ids(("", ""), "1", statement)?)
        };
        Ok(table.spans(&format!("{near} AND {is_chosen}"), statement))
    }
}

/// Writes counts of spans, by group. If the table is distributed, each shard groups its own spans.
fn per_span(
    chosen: Traces<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    statement: &mut Statement,
) -> Result<String> {
    let [group, traces, count, errors, ..] = statement.aliases(COUNTED);
    let (search, table) = (chosen.search, chosen.search.table);
    let mut groups = Groups::of_request(request, &table.columns, statement)?;
    if let Some(buckets) = request.buckets {
        let inside = search.window_condition(statement);
        groups.push(Groups::bucket(&buckets.index(&table.ticks, table.nanos_per_tick), inside));
    }
    // If a span is in at most one group, it makes one row, and ClickHouse computes the total from the groups: half the time.
    let one = if let [one] = groups.as_slice() { one.as_one() } else { None };
    let (of_span, by) = match one {
        // A bare tuple would be several keys, with a total for each.
        Some(of_span) => (format!("identity({of_span})"), format!("ROLLUP({group})")),
        None => {
            let groups: Vec<String> = groups.iter().map(Groups::of_span).collect();
            (format!("arrayJoin({})", with_total(&concatenated(&groups))), group.clone())
        }
    };
    let nanos = if display.has_duration() { display.duration_nanos() } else { "toInt64(0)" };
    // Ids are counted by hashes of 64 bits instead of 128: the probability that two of a million are equal is 1 to 37 million.
    Ok(format!(
        "SELECT {of_span} AS {group}, uniqExact(sipHash64({id})) AS {traces}, count() AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM {spans} GROUP BY {by}",
        id = table.trace_id.text,
        failed = display.is_error(statement),
        durations = percentiles(nanos, display.is_duration_invalid(), statement),
        spans = chosen.spans(statement)?,
    ))
}

/// Writes counts of traces, by group.
fn per_trace(
    chosen: Traces<'_>,
    display: &DisplayExpressions,
    request: StatsRequest<'_>,
    statement: &mut Statement,
) -> Result<String> {
    let [group, traces, count, errors, ..] = statement.aliases(COUNTED);
    let [trace, of_trace, failed, nanos, invalid, in_groups, tier, position] =
        statement.aliases(["trace", "of_trace", "failed", "nanos", "odd", "groups", "tier", "position"]);
    let search = chosen.search;
    let groups: Vec<String> = Groups::of_request(request, &search.table.columns, statement)?
        .iter()
        .map(|groups| groups.of_spans(statement))
        .collect();
    let mut columns = format!(
        "count() AS {of_trace}, countIf({is_failed}) > 0 AS {failed}, {duration} AS {nanos}, \
         max({is_invalid}) AS {invalid}, {groups} AS {in_groups}",
        is_failed = display.is_error(statement),
        duration = display.trace_duration(search.table),
        is_invalid = display.is_duration_invalid(),
        groups = concatenated(&groups),
    );
    let mut names_of_columns = format!("{of_trace}, {failed}, {nanos}, {invalid}, {in_groups}");
    if request.buckets.is_some() {
        columns.push_str(&format!(", {}", search.order(&tier, &position, statement)?));
        names_of_columns.push_str(&format!(", {tier}, {position}"));
    }
    let of_traces = if chosen.chosen == ChosenTraces::AllInOnePass {
        chosen.ids((&columns, &names_of_columns), "1", statement)?
    } else {
        let (id, spans) = (&search.table.trace_id.text, chosen.spans(statement)?);
        format!("SELECT {id} AS {trace}, {columns} FROM {spans} GROUP BY {trace}")
    };
    let groups_of_trace = match request.buckets {
        None => in_groups,
        Some(buckets) => {
            let bucket =
                Groups::bucket(&buckets.index(&position, search.table.nanos_per_tick), "1".to_owned());
            concatenated(&[in_groups, bucket.of_span()])
        }
    };
    Ok(format!(
        "SELECT arrayJoin({rows}) AS {group}, count() AS {traces}, sum({of_trace}) AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM ({of_traces}) GROUP BY {group}",
        rows = with_total(&groups_of_trace),
        durations = percentiles(&nanos, &invalid, statement),
    ))
}

/// Writes the rows of a span or a trace: one for the total, and one for each of its groups.
fn with_total(groups: &str) -> String {
    format!("arrayPushFront({groups}, {})", tuple(TOTAL, &[]))
}

/// Writes the total, and the first rows of each class. Groups that no list can show come last.
fn listed(counted: &str, request: StatsRequest<'_>, statement: &Statement) -> String {
    let [group, traces, spans, errors, percentiles, longest, invalid] = &statement.aliases(COUNTED);
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
    let unlistable = is_group_unlistable(group);
    let values = match request.group {
        [_, _] => format!("if({group}.1 = {GROUP}, [{group}.2, {group}.3], [{group}.2])"),
        _ => format!("[{group}.2]"),
    };
    format!(
        "SELECT {group}.1, toUInt8({unlistable}), if({unlistable}, [], {values}), {traces}, {spans}, {errors}, {percentiles}, {longest}, {invalid}, \
         [{distinct}] FROM ({counted}) \
         ORDER BY {group}.1 != {TOTAL}, {group}.1 = {NO_GROUP}, {unlistable}, {order}, {group}.2, {group}.3 {limit}",
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
