//! The one statement that counts, and what its rows say.
//!
//! Its innermost part is the grouped pass: the definition of the traces, word for word. Every span of theirs then becomes
//! one row for the total and one for each group that it is in, in a single pass over the table.

use tracewarden_model::{LogicalType, MarkedField};

use super::{Stats, StatsGroup, StatsNumbers, StatsOrder, StatsPer, StatsRequest};
use crate::StoreError;
use crate::plan::{Search, TimeRanges, TraceSet};
use crate::predicate_sql::{render, strings};
use crate::shown::Shown;
use crate::sql::Statement;
use crate::values::{MAX_VALUE_BYTES, sought};

/// Elements of one array that make a group each. Nobody is shown so many, but who sends spans decides how many there are, and
/// each is a row more to count.
const MAX_ELEMENTS: u32 = 1_000;
/// Elements of each of two arrays, which make a group in pairs.
const MAX_ELEMENTS_OF_TWO: u32 = 50;

/// What a row is about: the total, a group that can be listed, or, with more, one that no list can show.
const TOTAL: u8 = 0;
const LISTED: u8 = 1;

/// Kind and values of the group; traces, spans, errors; percentiles and maximum of the duration, and whether one of them is
/// none; how many groups there are, and whether there are more traces.
pub(super) type Row = (u8, Vec<String>, u64, u64, u64, Vec<f64>, i64, u8, u64, u8);

/// Names of ours in the statement.
struct Names {
    newest: String,
    trace: String,
    group: String,
    traces: String,
    spans: String,
    errors: String,
    percentiles: String,
    longest: String,
    invalid: String,
    more: String,
}

impl Names {
    fn of(statement: &Statement) -> Self {
        let own = |name: &str| statement.own(name);
        Self {
            newest: own("newest"),
            trace: own("trace"),
            group: own("group"),
            traces: own("traces"),
            spans: own("spans"),
            errors: own("errors"),
            percentiles: own("percentiles"),
            longest: own("longest"),
            invalid: own("invalid"),
            more: own("more"),
        }
    }

    /// Percentiles and the maximum of a duration. Those of `BFloat16` are exact but for the rounding of each value, take some
    /// thousand counters at most, and are the same in whichever order spans are met; a t-digest is none of that.
    fn durations(&self, nanos: &str, invalid: &str) -> String {
        format!(
            "quantilesBFloat16(0.5, 0.95, 0.99)({nanos}) AS {}, max({nanos}) AS {}, max({invalid}) AS {}",
            self.percentiles, self.longest, self.invalid
        )
    }

    /// Whether there are more traces than those that are counted. The same sub-query as the one that says which these are, so
    /// the store makes one set of both: that an empty id is in it is how a set says more than which ids are.
    fn cut(&self) -> String {
        format!("max('' GLOBAL IN (SELECT {} FROM {}))", self.trace, self.newest)
    }
}

pub(super) fn statement(
    search: &Search<'_>,
    scan: &TimeRanges,
    shown: &Shown,
    request: StatsRequest<'_>,
) -> Result<Statement, StoreError> {
    let mut statement = search.grouped_statement(TraceSet::Window, scan, None)?;
    let grouped = std::mem::take(&mut statement.text);
    let newest = newest(&grouped, request.most_traces, &statement);
    let names = Names::of(&statement);
    let groups = groups(request.group, &search.table.columns, &mut statement)?;
    let counted = match request.per {
        StatsPer::Span => per_span(search, shown, &groups, &names, &mut statement),
        StatsPer::Trace => per_trace(search, shown, &groups, &names, &mut statement),
    };
    let listed = listed(&counted, request, &names);
    statement.push(&format!("WITH {} AS ({newest}) {listed}", names.newest));
    Ok(statement)
}

/// Ids of the newest traces; and an empty one, which is none, where there are more.
fn newest(grouped: &str, most: u32, statement: &Statement) -> String {
    let [trace, id, tier, position, place] =
        ["trace", "id", "tier", "position", "place"].map(|name| statement.own(name));
    format!(
        "SELECT if({place} > {most}, '', {id}) AS {trace} FROM (SELECT {trace} AS {id}, \
         row_number() OVER (ORDER BY {tier} DESC, {position} DESC, {trace} ASC) AS {place} FROM ({grouped}))"
    )
}

/// The spans of the traces.
fn spans(search: &Search<'_>, names: &Names, statement: &mut Statement) -> String {
    format!(
        "{name} WHERE {near} AND {column} GLOBAL IN (SELECT {trace} FROM {newest}) AND notEmpty({id})",
        name = search.table.name,
        near = search.range(search.default, statement),
        column = search.table.trace_id_column,
        trace = names.trace,
        newest = names.newest,
        id = search.table.trace_id,
    )
}

/// Counts of spans, by group. Where the table is distributed, each shard groups its own.
fn per_span(
    search: &Search<'_>,
    shown: &Shown,
    groups: &str,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { group, traces, spans: count, errors, more, .. } = names;
    format!(
        "SELECT arrayJoin({rows}) AS {group}, uniqExact({id}) AS {traces}, count() AS {count}, \
         countIf({failed}) AS {errors}, {durations}, {cut} AS {more} FROM {spans} GROUP BY {group}",
        rows = rows(groups),
        id = search.table.trace_id,
        failed = shown.failed(),
        durations = names.durations(durations(shown), shown.is_invalid()),
        cut = names.cut(),
        spans = spans(search, names, statement),
    )
}

/// Counts of traces, by group.
fn per_trace(
    search: &Search<'_>,
    shown: &Shown,
    groups: &str,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { trace, group, traces, spans: count, errors, more, .. } = names;
    let [of_trace, failed, nanos, odd, in_groups, was_cut] =
        ["of_trace", "failed", "nanos", "odd", "groups", "was_cut"].map(|name| statement.own(name));
    format!(
        "SELECT arrayJoin({rows}) AS {group}, count() AS {traces}, sum({of_trace}) AS {count}, \
         countIf({failed}) AS {errors}, {durations}, max({was_cut}) AS {more} FROM (\
         SELECT {id} AS {trace}, count() AS {of_trace}, countIf({is_failed}) > 0 AS {failed}, {duration} AS {nanos}, max({is_odd}) AS {odd}, \
         groupUniqArrayArray({groups}) AS {in_groups}, {cut} AS {was_cut} FROM {spans} GROUP BY {trace}) GROUP BY {group}",
        rows = rows(&in_groups),
        durations = names.durations(&nanos, &odd),
        id = search.table.trace_id,
        is_failed = shown.failed(),
        duration = shown.whole(search.table),
        is_odd = shown.is_invalid(),
        cut = names.cut(),
        spans = spans(search, names, statement),
    )
}

/// How long a span took, and nothing where nothing says so.
fn durations(shown: &Shown) -> &str {
    if shown.has_durations() { shown.nanos() } else { "toInt64(0)" }
}

/// The rows that a span or a trace becomes: one for the total, and one for each of its groups.
fn rows(groups: &str) -> String {
    format!("arrayPushFront({groups}, (toUInt8({TOTAL}), emptyArrayString()))")
}

/// Of a span: its groups, each as kind and values.
fn groups(
    fields: &[MarkedField],
    columns: &[crate::Column],
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let arrays = fields.iter().filter(|field| field.logical == LogicalType::StringArray).count();
    let most = if arrays > 1 { MAX_ELEMENTS_OF_TWO } else { MAX_ELEMENTS };
    let values = fields
        .iter()
        .map(|field| values(field, most, columns, statement))
        .collect::<Result<Vec<String>, StoreError>>()?;
    let [one, other] = ["one", "other"].map(|name| statement.own(name));
    Ok(match values.as_slice() {
        [values] => format!("arrayMap({one} -> (toUInt8({LISTED} + {one}.1), [{one}.2]), {values})"),
        [values, others] => format!(
            "arrayFlatten(arrayMap({one} -> arrayMap({other} -> \
             (toUInt8({LISTED} + {one}.1 + 2 * {other}.1), [{one}.2, {other}.2]), {others}), {values}))"
        ),
        _ => "CAST([], 'Array(Tuple(UInt8, Array(String)))')".to_owned(),
    })
}

/// Of a span: the values of a field, each with whether no list can show it. Those are told apart without being kept: one of
/// them can be as large as a span, and in pairs there are many copies.
fn values(
    field: &MarkedField,
    most: u32,
    columns: &[crate::Column],
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let (field, having) = sought(field, None, columns)?;
    let having = render(&having, statement);
    let values = strings(&field, None, statement);
    let values = if having == "1" { values } else { format!("if({having}, {values}, [])") };
    Ok(told_apart(&format!("arraySlice({values}, 1, {most})"), statement))
}

/// Values of an array, each as whether no list can show it and the value, or what stands for it.
fn told_apart(values: &str, statement: &Statement) -> String {
    let text = statement.own("text");
    let odd = format!("(length({text}) > {MAX_VALUE_BYTES} OR NOT isValidUTF8({text}))");
    format!(
        "arrayMap({text} -> ({odd}, if({odd}, hex(sipHash128({text})), {text})), \
         arrayMap({text} -> toString({text}), {values}))"
    )
}

/// The total, and the first groups; then, if there is room left, some that no list can show.
fn listed(counted: &str, request: StatsRequest<'_>, names: &Names) -> String {
    let Names { group, traces, spans, errors, percentiles, longest, invalid, more, .. } = names;
    let count = match request.per {
        StatsPer::Span => spans,
        StatsPer::Trace => traces,
    };
    let first = match request.order {
        StatsOrder::Count => count.clone(),
        StatsOrder::Errors => errors.clone(),
        StatsOrder::ErrorRate => format!("{errors} / {count}"),
        StatsOrder::Duration => format!("{percentiles}[2]"),
    };
    format!(
        "SELECT {group}.1, if({group}.1 = {LISTED}, {group}.2, []), {traces}, {spans}, {errors}, {percentiles}, {longest}, {invalid}, \
         countIf({group}.1 != {TOTAL}) OVER (), {more} FROM ({counted}) \
         ORDER BY {group}.1 != {TOTAL}, {group}.1 != {LISTED}, {first} DESC, {count} DESC, {group}.2 LIMIT {limit}",
        limit = u64::from(request.limit) + 1,
    )
}

/// What the rows say: the total first, and none where there are no traces.
pub(super) fn stats(rows: Vec<Row>, shown: &Shown) -> Result<Stats, StoreError> {
    let mut rows = rows.into_iter();
    let Some(total) = rows.next() else { return Ok(nothing(shown)) };
    let (kind, .., distinct, more) = &total;
    if *kind != TOTAL {
        return Err(StoreError::Short("the total is missing".to_owned()));
    }
    let (distinct, complete) = (*distinct, *more == 0);
    let listed = rows.filter(|row| row.0 == LISTED);
    let groups = listed
        .map(|mut row| Ok(StatsGroup { values: std::mem::take(&mut row.1), numbers: numbers(row, shown)? }))
        .collect::<Result<Vec<StatsGroup>, StoreError>>()?;
    Ok(Stats { total: numbers(total, shown)?, groups, distinct, complete })
}

/// What is said where there are no traces.
pub(super) fn nothing(shown: &Shown) -> Stats {
    let total = StatsNumbers { errors: shown.has_status().then_some(0), ..StatsNumbers::default() };
    Stats { total, groups: Vec::new(), distinct: 0, complete: true }
}

fn numbers(row: Row, shown: &Shown) -> Result<StatsNumbers, StoreError> {
    let (_, _, traces, spans, errors, percentiles, longest, invalid, ..) = row;
    let [p50, p95, p99] = percentiles.as_slice() else {
        return Err(StoreError::Short("percentiles are missing".to_owned()));
    };
    // Rounded to a float before it is cut, a value can become a little more than it was.
    let nanos = |nanos: f64| shown.has_durations().then_some((nanos as i64).min(longest));
    Ok(StatsNumbers {
        traces,
        spans,
        errors: shown.has_status().then_some(errors),
        p50_nanos: nanos(*p50),
        p95_nanos: nanos(*p95),
        p99_nanos: nanos(*p99),
        max_nanos: shown.has_durations().then_some(longest),
        duration_invalid: invalid == 1,
    })
}
