//! The counting statement, and how its rows are read.
//!
//! Its innermost part groups the spans by trace and keeps the newest traces that satisfy everything. In a second pass over
//! the table, each of their spans becomes one row for the total and one for each group that it is in.

use tracewarden_model::{LogicalType, MarkedField};

use super::types::{Stats, StatsGroup, StatsNumbers, StatsOrder, StatsRequest, StatsUnit};
use crate::ClickHouseError;
use crate::aggregate::values::{is_unlistable, resolve_field_values};
use crate::schema::DisplayExpressions;
use crate::search::{Aggregates, SPANS_BEYOND_BOUNDS, Search, TraceScan};
use crate::sql::{Statement, render, string, strings};

/// Maximum number of elements of one array that make a group each. No list shows as many, but clients that send spans decide
/// how many elements there are, and each is another row to count.
const MAX_ELEMENTS: u32 = 1_000;
/// Maximum number of elements of each of two arrays, which make a group for each pair.
const MAX_ELEMENTS_OF_TWO: u32 = 50;

/// Kind of a row: the total, a group that can be listed, or, above that, a group that no list can show.
const TOTAL: u8 = 0;
const LISTED: u8 = 1;
/// Kind of a span that is in no group.
const NO_GROUP: u8 = u8::MAX;

/// Kind and values of the group; traces, spans, errors; percentiles and maximum of the duration, and whether one of the
/// durations is invalid; number of groups.
pub(super) type Row = (u8, Vec<String>, u64, u64, u64, Vec<f64>, i64, u8, u64);

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
) -> Result<Statement, ClickHouseError> {
    let mut statement = search.table.statement().evaluated_per_row();
    let traces = traces(search, scan, request.max_traces, chosen, &mut statement)?;
    let names = Names::new(&statement);
    let groups = groups(request.group, &search.table.columns, &mut statement)?;
    let counted = match request.per {
        StatsUnit::Span => per_span(search, display, &groups, &names, &mut statement),
        StatsUnit::Trace => per_trace(search, display, &groups, &names, &mut statement),
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
) -> Result<String, ClickHouseError> {
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
    groups: &Groups,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { group, traces, spans: count, errors, .. } = names;
    // If a span is in at most one group, it makes one row, and ClickHouse computes the total from the groups: half the time.
    let (of_span, by) = match groups {
        // A bare tuple would be several keys, with a total for each.
        Groups::One(of_span) => (format!("identity({of_span})"), format!("ROLLUP({group})")),
        Groups::Many(groups) => (format!("arrayJoin({})", rows(groups)), group.clone()),
    };
    format!(
        "SELECT {of_span} AS {group}, uniqExact({id}) AS {traces}, count() AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM {spans} GROUP BY {by}",
        id = search.table.trace_id.text,
        failed = display.is_error(statement),
        durations = names.durations(durations(display), display.is_duration_invalid()),
        spans = spans(search, names, statement),
    )
}

/// Writes counts of traces, by group.
fn per_trace(
    search: &Search<'_>,
    display: &DisplayExpressions,
    groups: &Groups,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { trace, group, traces, spans: count, errors, .. } = names;
    let [of_trace, failed, nanos, unlistable, in_groups, group_of_span] =
        statement.aliases(["of_trace", "failed", "nanos", "odd", "groups", "of_span"]);
    format!(
        "SELECT arrayJoin({rows}) AS {group}, count() AS {traces}, sum({of_trace}) AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM (\
         SELECT {id} AS {trace}, count() AS {of_trace}, countIf({is_failed}) > 0 AS {failed}, {duration} AS {nanos}, max({is_odd}) AS {unlistable}, \
         {collected} AS {in_groups} FROM {spans} GROUP BY {trace}) GROUP BY {group}",
        rows = rows(&in_groups),
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
    )
}

/// Writes the duration of a span, or zero without a duration column.
fn durations(display: &DisplayExpressions) -> &str {
    if display.has_duration() { display.duration_nanos() } else { "toInt64(0)" }
}

/// Writes the rows of a span or a trace: one for the total, and one for each of its groups.
fn rows(groups: &str) -> String {
    format!("arrayPushFront({groups}, (toUInt8({TOTAL}), emptyArrayString()))")
}

/// The groups of a span as SQL, each as kind and values.
enum Groups {
    /// At most one group; its kind is [`NO_GROUP`] where a field is not defined.
    One(String),
    /// An array of groups.
    Many(String),
}

fn groups(
    fields: &[MarkedField],
    columns: &[crate::Column],
    statement: &mut Statement,
) -> Result<Groups, ClickHouseError> {
    let arrays = fields.iter().filter(|field| field.logical == LogicalType::StringArray).count();
    let most = if arrays > 1 { MAX_ELEMENTS_OF_TWO } else { MAX_ELEMENTS };
    let values = fields
        .iter()
        .map(|field| Values::of(field, most, columns, statement))
        .collect::<Result<Vec<Values>, ClickHouseError>>()?;
    let [one, other] = statement.aliases(["one", "other"]);
    let of_element = |element: &str| ValueExpression {
        unlistable: format!("{element}.1"),
        display: format!("{element}.2"),
    };
    let none = format!("(toUInt8({NO_GROUP}), emptyArrayString())");
    Ok(match values.as_slice() {
        [] => Groups::Many("CAST([], 'Array(Tuple(UInt8, Array(String)))')".to_owned()),
        [Values::One { value, defined }] => Groups::One(if_defined(&[defined], &group(value, None), &none)),
        [Values::One { value, defined }, Values::One { value: second, defined: second_defined }] => {
            Groups::One(if_defined(&[defined, second_defined], &group(value, Some(second)), &none))
        }
        [values] => {
            Groups::Many(format!("arrayMap({one} -> {}, {})", group(&of_element(&one), None), values.array()))
        }
        [values, others, ..] => Groups::Many(format!(
            "arrayFlatten(arrayMap({one} -> arrayMap({other} -> {}, {}), {}))",
            group(&of_element(&one), Some(&of_element(&other))),
            others.array(),
            values.array()
        )),
    })
}

/// The values of a field of a span as SQL, each as whether no list can show it, and the value. Odd values are replaced by a
/// hash and not kept: one of them can be as large as a span, and pairs hold many copies.
enum Values {
    /// The value of a string field.
    One { value: ValueExpression, defined: String },
    /// The elements of an array field.
    Many(String),
}

impl Values {
    fn of(
        field: &MarkedField,
        most: u32,
        columns: &[crate::Column],
        statement: &mut Statement,
    ) -> Result<Self, ClickHouseError> {
        let (field, defined) = resolve_field_values(field, None, columns)?;
        let defined = render(&defined, statement);
        if field.logical != LogicalType::StringArray {
            let value = ValueExpression::new(&format!("toString({})", string(&field, statement)));
            return Ok(Self::One { value, defined });
        }
        let text = statement.alias("text");
        let values = format!("arraySlice({}, 1, {most})", strings(&field, None, statement));
        let values = if_defined(&[&defined], &values, "[]");
        let values = format!("arrayMap({text} -> toString({text}), {values})");
        Ok(Self::Many(format!("arrayMap({text} -> {}, {values})", ValueExpression::new(&text).tuple())))
    }

    fn array(&self) -> String {
        match self {
            Self::One { value, defined } => if_defined(&[defined], &format!("[{}]", value.tuple()), "[]"),
            Self::Many(values) => values.clone(),
        }
    }
}

/// Writes `then` where all fields are defined, and `otherwise` elsewhere.
fn if_defined(defined: &[&String], then: &str, otherwise: &str) -> String {
    let defined: Vec<&str> =
        defined.iter().map(|defined| defined.as_str()).filter(|defined| *defined != "1").collect();
    if defined.is_empty() {
        return then.to_owned();
    }
    format!("if({}, {then}, {otherwise})", defined.join(" AND "))
}

/// A value as SQL: whether no list can show it, and the value or its hash.
struct ValueExpression {
    unlistable: String,
    display: String,
}

impl ValueExpression {
    fn new(value: &str) -> Self {
        let unlistable = is_unlistable(value);
        Self { display: format!("if({unlistable}, hex(sipHash128({value})), {value})"), unlistable }
    }

    fn tuple(&self) -> String {
        format!("({}, {})", self.unlistable, self.display)
    }
}

/// Writes the group of one value, or of two.
fn group(value: &ValueExpression, second: Option<&ValueExpression>) -> String {
    match second {
        None => format!("(toUInt8({LISTED} + {}), [{}])", value.unlistable, value.display),
        Some(second) => format!(
            "(toUInt8({LISTED} + {} + 2 * {}), [{}, {}])",
            value.unlistable, second.unlistable, value.display, second.display
        ),
    }
}

/// Writes the total and the first groups, followed by groups that no list can show if the limit is not reached.
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
    format!(
        "SELECT {group}.1, if({group}.1 = {LISTED}, {group}.2, []), {traces}, {spans}, {errors}, {percentiles}, {longest}, {invalid}, \
         countIf({group}.1 NOT IN ({TOTAL}, {NO_GROUP})) OVER () FROM ({counted}) \
         ORDER BY {group}.1 != {TOTAL}, {group}.1 != {LISTED}, {first} DESC, {count} DESC, {group}.2 LIMIT {limit}",
        limit = u64::from(request.limit) + 1,
    )
}

/// Converts the rows: the total comes first, and there are no rows if there are no traces.
pub(super) fn stats(
    rows: Vec<Row>,
    display: &DisplayExpressions,
    complete: bool,
) -> Result<Stats, ClickHouseError> {
    let mut rows = rows.into_iter();
    let Some(total) = rows.next() else { return Ok(empty_stats(display)) };
    let (kind, .., distinct) = &total;
    if *kind != TOTAL {
        return Err(ClickHouseError::incomplete("the total is missing"));
    }
    let distinct = *distinct;
    let listed = rows.filter(|row| row.0 == LISTED);
    let groups = listed
        .map(|mut row| Ok(StatsGroup { values: std::mem::take(&mut row.1), numbers: numbers(row, display)? }))
        .collect::<Result<Vec<StatsGroup>, ClickHouseError>>()?;
    Ok(Stats { total: numbers(total, display)?, groups, distinct, complete })
}

/// Returns the statistics of no traces.
pub(super) fn empty_stats(display: &DisplayExpressions) -> Stats {
    let total = StatsNumbers { errors: display.has_status().then_some(0), ..StatsNumbers::default() };
    Stats { total, groups: Vec::new(), distinct: 0, complete: true }
}

fn numbers(row: Row, display: &DisplayExpressions) -> Result<StatsNumbers, ClickHouseError> {
    let (_, _, traces, spans, errors, percentiles, longest, invalid, _) = row;
    let [p50, p95, p99] = percentiles.as_slice() else {
        return Err(ClickHouseError::incomplete("percentiles are missing"));
    };
    // A value that is rounded to a float before it is truncated can become slightly larger than it was.
    let nanos = |nanos: f64| display.has_duration().then_some((nanos as i64).min(longest));
    Ok(StatsNumbers {
        traces,
        spans,
        errors: display.has_status().then_some(errors),
        p50_nanos: nanos(*p50),
        p95_nanos: nanos(*p95),
        p99_nanos: nanos(*p99),
        max_nanos: display.has_duration().then_some(longest),
        duration_invalid: invalid == 1,
    })
}
