//! The one statement that counts, and what its rows say.
//!
//! Its innermost part groups the spans by trace and keeps the newest traces that satisfy everything. Every span of theirs then
//! becomes one row for the total and one for each group that it is in, in a second pass over the table.

use tracewarden_model::{LogicalType, MarkedField};

use super::{Stats, StatsGroup, StatsNumbers, StatsOrder, StatsPer, StatsRequest};
use crate::StoreError;
use crate::plan::{Aggregates, Search, TraceScan};
use crate::predicate_sql::{render, string, strings};
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
/// Of a span: that it is in no group.
const NONE: u8 = u8::MAX;

/// Kind and values of the group; traces, spans, errors; percentiles and maximum of the duration, and whether one of them is
/// none; how many groups there are.
pub(super) type Row = (u8, Vec<String>, u64, u64, u64, Vec<f64>, i64, u8, u64);

/// What the statement throws where there are more traces than are counted, and where spans of one may not count. A column that
/// tells would need the traces again, and to plan them twice takes longer than to throw hardly ever.
const MORE: &str = "tracewarden: more traces";
const BEYOND: &str = "tracewarden: spans beyond bounds";

/// Which traces are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chosen {
    /// All; the statement throws if there are more than asked.
    All,
    /// The newest. To find them, the statement reads what their order depends on.
    Newest,
}

/// Why the numbers have to be asked for in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    MoreTraces,
    SpansBeyondBounds,
}

impl Interrupted {
    /// From what the statement threw.
    pub(super) fn of(error: &StoreError) -> Option<Self> {
        // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
        let StoreError::Store { code: Some(395), message } = error else { return None };
        [(MORE, Self::MoreTraces), (BEYOND, Self::SpansBeyondBounds)]
            .into_iter()
            .find_map(|(text, interrupted)| message.contains(text).then_some(interrupted))
    }
}

/// Names of ours in the statement.
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
    fn of(statement: &Statement) -> Self {
        let own = |name: &str| statement.own(name);
        Self {
            chosen: own("chosen"),
            trace: own("trace"),
            group: own("group"),
            traces: own("traces"),
            spans: own("spans"),
            errors: own("errors"),
            percentiles: own("percentiles"),
            longest: own("longest"),
            invalid: own("invalid"),
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
}

pub(super) fn statement(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    shown: &Shown,
    request: StatsRequest<'_>,
    chosen: Chosen,
) -> Result<Statement, StoreError> {
    let mut statement = search.table.statement().of_every_row();
    let traces = traces(search, scan, request.most_traces, chosen, &mut statement)?;
    let names = Names::of(&statement);
    let groups = groups(request.group, &search.table.columns, &mut statement)?;
    let counted = match request.per {
        StatsPer::Span => per_span(search, shown, &groups, &names, &mut statement),
        StatsPer::Trace => per_trace(search, shown, &groups, &names, &mut statement),
    };
    let listed = listed(&counted, request, &names);
    statement.push(&format!("WITH {} AS ({traces}) {listed}", names.chosen));
    Ok(statement)
}

/// Ids of traces that satisfy everything.
fn traces(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    most: u32,
    chosen: Chosen,
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let [trace, id, tier, position, place, readable, beyond] =
        ["trace", "id", "tier", "position", "place", "readable", "beyond"].map(|name| statement.own(name));
    let columns = match chosen {
        Chosen::All => String::new(),
        Chosen::Newest => search.order(&tier, &position, statement)?,
    };
    let (names, order, enough) = match chosen {
        Chosen::All => (String::new(), String::new(), format!("throwIf({place} > {most}, '{MORE}') = 0")),
        Chosen::Newest => (
            format!("{tier}, {position}"),
            format!("ORDER BY {tier} DESC, {position} DESC, {trace} ASC"),
            format!("{place} <= {most}"),
        ),
    };
    let having = format!(" AND {readable}");
    let aggregates = Aggregates { columns: &columns, names: &names, having: &having };
    let traces = scan.traces(search, &aggregates, statement)?;
    Ok(format!(
        "SELECT {id} AS {trace} FROM (SELECT {trace} AS {id}, {beyond}, row_number() OVER ({order}) AS {place} FROM ({traces})) \
         WHERE throwIf({beyond}, '{BEYOND}') = 0 AND {enough}"
    ))
}

/// The spans of the traces.
fn spans(search: &Search<'_>, names: &Names, statement: &mut Statement) -> String {
    format!(
        "{name} WHERE {near} AND {column} GLOBAL IN (SELECT {trace} FROM {chosen})",
        name = search.table.name,
        near = search.range(search.default, statement),
        column = search.table.trace_id_column,
        trace = names.trace,
        chosen = names.chosen,
    )
}

/// Counts of spans, by group. Where the table is distributed, each shard groups its own.
fn per_span(
    search: &Search<'_>,
    shown: &Shown,
    groups: &Groups,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { group, traces, spans: count, errors, .. } = names;
    // A span that is in one group at most makes one row, of which the total is made of the groups: half the time.
    let (of_span, by) = match groups {
        // A bare tuple would be several keys, with a total of each.
        Groups::One(of_span) => (format!("identity({of_span})"), format!("ROLLUP({group})")),
        Groups::Many(groups) => (format!("arrayJoin({})", rows(groups)), group.clone()),
    };
    format!(
        "SELECT {of_span} AS {group}, uniqExact({id}) AS {traces}, count() AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM {spans} GROUP BY {by}",
        id = search.table.trace_id,
        failed = shown.failed(),
        durations = names.durations(durations(shown), shown.is_invalid()),
        spans = spans(search, names, statement),
    )
}

/// Counts of traces, by group.
fn per_trace(
    search: &Search<'_>,
    shown: &Shown,
    groups: &Groups,
    names: &Names,
    statement: &mut Statement,
) -> String {
    let Names { trace, group, traces, spans: count, errors, .. } = names;
    let [of_trace, failed, nanos, odd, in_groups, group_of_span] =
        ["of_trace", "failed", "nanos", "odd", "groups", "of_span"].map(|name| statement.own(name));
    format!(
        "SELECT arrayJoin({rows}) AS {group}, count() AS {traces}, sum({of_trace}) AS {count}, \
         countIf({failed}) AS {errors}, {durations} FROM (\
         SELECT {id} AS {trace}, count() AS {of_trace}, countIf({is_failed}) > 0 AS {failed}, {duration} AS {nanos}, max({is_odd}) AS {odd}, \
         {collected} AS {in_groups} FROM {spans} GROUP BY {trace}) GROUP BY {group}",
        rows = rows(&in_groups),
        durations = names.durations(&nanos, &odd),
        id = search.table.trace_id,
        is_failed = shown.failed(),
        duration = shown.whole(search.table),
        is_odd = shown.is_invalid(),
        collected = match groups {
            Groups::One(group) =>
                format!("groupUniqArrayIf({group} AS {group_of_span}, {group_of_span}.1 != {NONE})"),
            Groups::Many(groups) => format!("groupUniqArrayArray({groups})"),
        },
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

/// The groups of a span as SQL, each as kind and values.
enum Groups {
    /// One, of the kind [`NONE`] where a field is not defined.
    One(String),
    /// An array.
    Many(String),
}

fn groups(
    fields: &[MarkedField],
    columns: &[crate::Column],
    statement: &mut Statement,
) -> Result<Groups, StoreError> {
    let arrays = fields.iter().filter(|field| field.logical == LogicalType::StringArray).count();
    let most = if arrays > 1 { MAX_ELEMENTS_OF_TWO } else { MAX_ELEMENTS };
    let values = fields
        .iter()
        .map(|field| Values::of(field, most, columns, statement))
        .collect::<Result<Vec<Values>, StoreError>>()?;
    let [one, other] = ["one", "other"].map(|name| statement.own(name));
    let of_element = |element: &str| Told { odd: format!("{element}.1"), shown: format!("{element}.2") };
    let none = format!("(toUInt8({NONE}), emptyArrayString())");
    Ok(match values.as_slice() {
        [] => Groups::Many("CAST([], 'Array(Tuple(UInt8, Array(String)))')".to_owned()),
        [Values::One { value, defined }] => Groups::One(if_defined(&[defined], &group(value, None), &none)),
        [Values::One { value, defined }, Values::One { value: second, defined: also }] => {
            Groups::One(if_defined(&[defined, also], &group(value, Some(second)), &none))
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

/// Of a span: the values of a field as SQL, each as whether no list can show it and what is shown. Those are told apart without
/// being kept: one of them can be as large as a span, and in pairs there are many copies.
enum Values {
    /// Of a string.
    One { value: Told, defined: String },
    /// Of an array.
    Many(String),
}

impl Values {
    fn of(
        field: &MarkedField,
        most: u32,
        columns: &[crate::Column],
        statement: &mut Statement,
    ) -> Result<Self, StoreError> {
        let (field, defined) = sought(field, None, columns)?;
        let defined = render(&defined, statement);
        if field.logical != LogicalType::StringArray {
            let value = Told::apart(&format!("toString({})", string(&field, statement)));
            return Ok(Self::One { value, defined });
        }
        let text = statement.own("text");
        let values = format!("arraySlice({}, 1, {most})", strings(&field, None, statement));
        let values = if_defined(&[&defined], &values, "[]");
        let values = format!("arrayMap({text} -> toString({text}), {values})");
        Ok(Self::Many(format!("arrayMap({text} -> {}, {values})", Told::apart(&text).tuple())))
    }

    fn array(&self) -> String {
        match self {
            Self::One { value, defined } => if_defined(&[defined], &format!("[{}]", value.tuple()), "[]"),
            Self::Many(values) => values.clone(),
        }
    }
}

/// Something of values that are defined.
fn if_defined(defined: &[&String], then: &str, otherwise: &str) -> String {
    let defined: Vec<&str> =
        defined.iter().map(|defined| defined.as_str()).filter(|defined| *defined != "1").collect();
    if defined.is_empty() {
        return then.to_owned();
    }
    format!("if({}, {then}, {otherwise})", defined.join(" AND "))
}

/// A value as SQL: whether no list can show it, and the value or what stands for it.
struct Told {
    odd: String,
    shown: String,
}

impl Told {
    fn apart(value: &str) -> Self {
        let odd = format!("(length({value}) > {MAX_VALUE_BYTES} OR NOT isValidUTF8({value}))");
        Self { shown: format!("if({odd}, hex(sipHash128({value})), {value})"), odd }
    }

    fn tuple(&self) -> String {
        format!("({}, {})", self.odd, self.shown)
    }
}

/// The group of one value, or of two.
fn group(value: &Told, second: Option<&Told>) -> String {
    match second {
        None => format!("(toUInt8({LISTED} + {}), [{}])", value.odd, value.shown),
        Some(second) => format!(
            "(toUInt8({LISTED} + {} + 2 * {}), [{}, {}])",
            value.odd, second.odd, value.shown, second.shown
        ),
    }
}

/// The total, and the first groups; then, if there is room left, some that no list can show.
fn listed(counted: &str, request: StatsRequest<'_>, names: &Names) -> String {
    let Names { group, traces, spans, errors, percentiles, longest, invalid, .. } = names;
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
         countIf({group}.1 NOT IN ({TOTAL}, {NONE})) OVER () FROM ({counted}) \
         ORDER BY {group}.1 != {TOTAL}, {group}.1 != {LISTED}, {first} DESC, {count} DESC, {group}.2 LIMIT {limit}",
        limit = u64::from(request.limit) + 1,
    )
}

/// What the rows say: the total first, and none where there are no traces.
pub(super) fn stats(rows: Vec<Row>, shown: &Shown, complete: bool) -> Result<Stats, StoreError> {
    let mut rows = rows.into_iter();
    let Some(total) = rows.next() else { return Ok(nothing(shown)) };
    let (kind, .., distinct) = &total;
    if *kind != TOTAL {
        return Err(StoreError::Short("the total is missing".to_owned()));
    }
    let distinct = *distinct;
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
    let (_, _, traces, spans, errors, percentiles, longest, invalid, _) = row;
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
