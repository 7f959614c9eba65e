//! The counting statement. Its innermost part groups the spans that count by trace, as the grouped pass does. For each trace
//! it keeps a bit for each predicate that any span satisfies, and its values with the same bits of the spans that have them.
//! Traces with the same bits are compared together.
//!
//! The service computes the comparisons from these rows (`counts.rs`). In the statement, each would be an expression, and
//! ClickHouse takes seconds to plan hundreds of them. ClickHouse also plans all predicates anew for each further sub-query,
//! so there are few.

use tracewarden_policy::Predicate;

use super::collateral::CollateralQuery;
use super::masks::Masks;
use super::parts::QueryPart;
use super::types::ImpactRequest;
use crate::Result;
use crate::aggregate::codes::UNLISTABLE;
use crate::schema::BoundTable;
use crate::search::{Aggregates, MAX_LONG_TRACES, Search, TraceScan};
use crate::sql::Statement;

/// Kind of a row: compared traces; of a predicate set the total, a value that can be listed, or, with one more, a value that
/// no list can show.
pub(super) const COMPARED: u8 = 0;
pub(super) const TOTAL: u8 = 1;
const LISTED: u8 = 2;

/// Maximum number of trace ids of each kind that one comparison lists.
const MAX_SAMPLES: u32 = 1_000;
/// Maximum number of distinct sets of satisfied predicates in the answer of one statement.
pub(super) const MAX_MASKS: u64 = 100_000;

/// Index of the predicate set; kind and value; traces, and those in which a matching span has the value; for the predicate
/// set, the numbers of distinct values, of only shared ones, and of listable ones; traces that have spans which may not
/// count, not all of them. For compared traces, the predicates that they satisfy as words, and the latest of them that may be
/// returned, each after its latest span in the window, negated.
pub(super) type Row =
    ((u8, u8, String, u64, u64, u64, u64, u64, Vec<String>), (Vec<u64>, Vec<(i64, String)>));

pub(super) fn statement(
    (search, scan): (&Search<'_>, &TraceScan<'_>),
    after: Option<(&Search<'_>, &TraceScan<'_>)>,
    request: &ImpactRequest<'_>,
    part: &QueryPart<'_>,
) -> Result<Statement> {
    let mut statement = search.table.statement().evaluated_per_row();
    let compares = part.compares();
    let masks = Masks::new(&part.used);
    let satisfied = satisfied_words(&masks, request.predicates, search.table, &mut statement)?;
    let [mask, values, readable] = statement.aliases(["mask", "values", "readable"]);
    let span_bits = statement.alias("satisfied");
    let (mut columns, mut names) =
        (format!("groupBitOrForEach([{satisfied}] AS {span_bits}) AS {mask}"), mask.clone());
    let mut having = if request.only_readable { format!(" AND {readable}") } else { String::new() };
    if let Some(collateral) = part.collateral {
        // For a span, a bit for each predicate set that it satisfies: fewer than one for each predicate.
        let satisfied_bits = collateral.predicate_sets.iter().enumerate().map(|(number, predicate_set)| {
            format!("toUInt64({}) * {}", masks.any_bit_set(&span_bits, predicate_set), 1_u64 << number)
        });
        let satisfied_bits = satisfied_bits.collect::<Vec<_>>().join(" + ");
        let trace_values = collateral.by.trace_values(&satisfied_bits, search.table, &mut statement)?;
        columns.push_str(&format!(", {trace_values} AS {values}"));
        names.push_str(&format!(", {values}"));
        if !compares {
            let predicate_sets = collateral.predicate_sets.iter().flatten();
            having.push_str(&format!(" AND {}", masks.any_bit_set(&mask, predicate_sets)));
        }
    }
    let aggregates = Aggregates { columns: &columns, names: &names, having: &having };
    let mut traces = scan.traces(search, &aggregates, &mut statement)?;
    if let Some((search, scan)) = after {
        let satisfied = satisfied_words(&masks, request.predicates, search.table, &mut statement)?;
        let columns = format!("groupBitOrForEach([{satisfied}]) AS {mask}");
        let aggregates = Aggregates { columns: &columns, names: &mask, having: "" };
        let after = scan.traces(search, &aggregates, &mut statement)?;
        traces = both_bindings(&traces, &after, masks.words(), request.only_readable, &statement);
    }
    let samples = request.samples.clamp(1, MAX_SAMPLES);
    let text = match part.collateral {
        Some(collateral) => {
            let rows = collateral_rows(&traces, collateral, &masks, compares, &statement);
            answer_rows(&grouped(&rows, samples, &statement), u64::from(collateral.limit) + 1, &statement)
        }
        None => compared(&traces, samples, &statement),
    };
    statement.push(&text);
    Ok(statement)
}

/// Writes words of bits: which predicates a span satisfies.
fn satisfied_words(
    masks: &Masks,
    predicates: &[Predicate],
    table: &BoundTable,
    statement: &mut Statement,
) -> Result<String> {
    let mut words = Vec::new();
    for numbers in masks.predicates() {
        let mut bits = Vec::new();
        for (bit, number) in numbers.iter().enumerate() {
            let predicate = predicates.get(*number).unwrap_or(&Predicate::False);
            let satisfied = table.condition(predicate, statement)?;
            bits.push(format!("toUInt64({satisfied}) * {}", 1_u64 << bit));
        }
        words.push(bits.join(" + "));
    }
    Ok(if words.is_empty() { "toUInt64(0)".to_owned() } else { words.join(", ") })
}

/// A time before all others, which can be negated.
const NEVER: i64 = -i64::MAX;

/// Writes one row for each trace that either binding finds. The mask has the words of the first binding, then those of the second.
fn both_bindings(
    before: &str,
    after: &str,
    words: usize,
    only_readable: bool,
    statement: &Statement,
) -> String {
    let [trace, latest, readable, beyond, mask] =
        statement.aliases(["trace", "latest", "readable", "beyond", "mask"]);
    // Only the first binding supplies listed ids and their order: the ticks of the second may have another length.
    // The inner columns have other aliases: ClickHouse resolves `max(x) AS x` to a nested aggregate.
    let [either_latest, either_readable, either_beyond, either_mask] =
        statement.aliases(["either_latest", "either_readable", "either_beyond", "either_mask"]);
    let none = format!("arrayWithConstant({words}, toUInt64(0))");
    let having = if only_readable { format!(" HAVING {readable}") } else { String::new() };
    format!(
        "SELECT {trace}, max({either_latest}) AS {latest}, max({either_readable}) AS {readable}, \
         max({either_beyond}) AS {beyond}, groupBitOrForEach({either_mask}) AS {mask} FROM (\
         SELECT {trace}, toInt64({latest}) AS {either_latest}, toUInt8({readable}) AS {either_readable}, \
         toUInt8({beyond}) AS {either_beyond}, arrayConcat({mask}, {none}) AS {either_mask} FROM ({before}) UNION ALL \
         SELECT {trace}, toInt64({NEVER}) AS {either_latest}, toUInt8(0) AS {either_readable}, \
         toUInt8(0) AS {either_beyond}, arrayConcat({none}, {mask}) AS {either_mask} FROM ({after})) GROUP BY {trace}{having}"
    )
}

/// Writes compared traces, grouped by the predicates that they satisfy.
fn compared(traces: &str, samples: u32, statement: &Statement) -> String {
    let [mask, latest, trace, readable, beyond] =
        statement.aliases(["mask", "latest", "trace", "readable", "beyond"]);
    format!(
        "SELECT (toUInt8(0), toUInt8({COMPARED}), '', count(), toUInt64(0), toUInt64(0), toUInt64(0), toUInt64(0), \
         groupUniqArrayIf({max_beyond})({trace}, {beyond})), \
         ({mask}, groupArraySortedIf({samples})((-{latest}, {trace}), {readable})) \
         FROM ({traces}) GROUP BY {mask} LIMIT {limit}",
        max_beyond = MAX_LONG_TRACES + 1,
        limit = MAX_MASKS + 1,
    )
}

/// Writes, for each trace, a row if traces are compared, and for each predicate set that grants access to it, a row and one
/// for each of its values.
fn collateral_rows(
    traces: &str,
    collateral: CollateralQuery<'_>,
    masks: &Masks,
    compares: bool,
    statement: &Statement,
) -> String {
    let [number, row, mask, satisfied_bits, latest, trace, readable, beyond] =
        statement.aliases(["number", "row", "mask", "bits", "latest", "trace", "readable", "beyond"]);
    let [values, pair, bit, distinct_values] = statement.aliases(["values", "pair", "bit", "distinct"]);
    let set_count = collateral.predicate_sets.len();
    let by_set: Vec<String> = collateral
        .predicate_sets
        .iter()
        .map(|predicate_set| masks.any_bit_set(&mask, predicate_set))
        .collect();
    let mut numbers =
        format!("arrayFilter({bit} -> [{}][{bit} + 1] != 0, range(toUInt8({set_count})))", by_set.join(", "));
    // The comparison has the index after the predicate sets, and no values.
    if compares {
        numbers = format!("arrayPushFront({numbers}, toUInt8({set_count}))");
    }
    let by_set = format!(
        "SELECT arrayJoin({numbers}) AS {number}, {mask}, {latest}, {trace}, {readable}, {beyond}, {values} FROM ({traces})"
    );
    // Each value once, and whether any span that has it satisfies the predicate set: those that do come first.
    let valued = format!(
        "SELECT {number}, {mask}, {latest}, {trace}, {readable}, {beyond}, arrayCompact({pair} -> {pair}.1, \
         arrayReverseSort(arrayMap({pair} -> ({pair}.1, bitTest({pair}.2, {number})), if({number} = {set_count}, [], {values})))) \
         AS {distinct_values} FROM ({by_set})"
    );
    format!(
        "SELECT {number}, arrayJoin(if({number} = {set_count}, [(toUInt8({COMPARED}), '', toUInt8(0))], \
         arrayPushFront(arrayMap({pair} -> (toUInt8({LISTED} + startsWith({pair}.1, {UNLISTABLE})), {pair}.1, {pair}.2), {distinct_values}), \
         (toUInt8({TOTAL}), '', toUInt8(0))))) AS {row}, if({number} = {set_count}, {mask}, arrayMap({bit} -> toUInt64(0), {mask})) AS {satisfied_bits}, {latest}, {trace}, \
         {readable}, {beyond} FROM ({valued})"
    )
}

/// Counts equal rows; those for comparisons separately for each set of satisfied predicates.
fn grouped(rows: &str, samples: u32, statement: &Statement) -> String {
    let [number, row, kind, value, satisfied_bits, latest, trace, readable, beyond] = statement
        .aliases(["number", "row", "kind", "value", "bits", "latest", "trace", "readable", "beyond"]);
    let [traces, own, any_readable, first, beyond_ids] =
        statement.aliases(["traces", "own", "open", "first", "odd"]);
    format!(
        "SELECT {number}, {row}.1 AS {kind}, {row}.2 AS {value}, {satisfied_bits}, count() AS {traces}, \
         countIf({row}.3 = 1) AS {own}, max({readable}) AS {any_readable}, \
         groupUniqArrayIf({max_beyond})({trace}, {beyond} AND {row}.1 < {LISTED}) AS {beyond_ids}, \
         groupArraySortedIf({samples})((-{latest}, {trace}), {row}.1 = {COMPARED} AND {readable}) AS {first} \
         FROM ({rows}) GROUP BY {number}, {kind}, {value}, {satisfied_bits}",
        max_beyond = MAX_LONG_TRACES + 1,
    )
}

/// Writes the answer: for each predicate set the total and then its values, and the compared traces.
fn answer_rows(grouped: &str, limit: u64, statement: &Statement) -> String {
    let [number, kind, value, satisfied_bits, traces, own, any_readable, first, beyond_ids, listable] =
        statement.aliases([
            "number", "kind", "value", "bits", "traces", "own", "open", "first", "odd", "listable",
        ]);
    let over_predicate_set = format!("OVER (PARTITION BY {number})");
    format!(
        "SELECT ({number}, {kind}, if({listable}, {value}, ''), {traces}, {own}, \
         countIf({kind} >= {LISTED}) {over_predicate_set}, countIf({kind} >= {LISTED} AND {own} = 0) {over_predicate_set}, \
         countIf({listable}) {over_predicate_set}, {beyond_ids}), ({satisfied_bits}, {first}) FROM (\
         SELECT *, {kind} = {LISTED} AND {any_readable} AS {listable} FROM ({grouped})) \
         ORDER BY {number}, {kind} != {TOTAL}, NOT {listable}, {traces} DESC, {own}, {value} LIMIT {limit} BY {number}, {satisfied_bits} \
         LIMIT {}",
        MAX_MASKS + 1
    )
}
