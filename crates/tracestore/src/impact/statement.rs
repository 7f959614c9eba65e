//! The statement that counts. Its innermost part groups the spans that count by their traces, as the grouped pass does; of each
//! trace it keeps one integer with a bit for each predicate that any span satisfies, and its values with the same of the spans
//! that have them. Traces with the same bits are compared together.

use std::collections::BTreeSet;

use super::sharing::{Shared, SharedValue, Sharing, UNSHOWN};
use super::{Comparison, Difference, ImpactRequest, MAX_SAMPLES, Part};
use crate::StoreError;
use crate::plan::{Aggregates, MAX_LONG, Search, TraceScan};
use crate::sql::Statement;

/// What a row is about: all traces that are compared; of an opening the total, a value that can be listed, or, with one more,
/// one that no list can show.
const COMPARED: u8 = 0;
const TOTAL: u8 = 1;
const LISTED: u8 = 2;

/// Number of the opening; kind and value; traces, and those where a matching span has the value; of the opening, different
/// values, only shared ones, and listable ones; traces that have spans which may not count, not all of them. Of each comparison
/// traces gained, lost and unchanged, and ids of the first two.
pub(super) type Row = ((u8, u8, String, u64, u64, u64, u64, u64, Vec<String>), Compared);
type Compared = (Vec<u64>, Vec<u64>, Vec<u64>, Vec<Vec<String>>, Vec<Vec<String>>);

/// Which predicates, as bits.
pub(super) fn bits<'n>(numbers: impl IntoIterator<Item = &'n usize>) -> u64 {
    numbers.into_iter().fold(0, |bits, number| {
        bits | u32::try_from(*number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
    })
}

pub(super) fn statement(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    request: &ImpactRequest<'_>,
    part: &Part<'_>,
) -> Result<Statement, StoreError> {
    let mut statement = search.table.statement().of_every_row();
    let compares = part.compares();
    let opening = part.sharing.map_or(0, |sharing| bits(sharing.openings.iter().flatten()));
    let used = part
        .comparisons
        .iter()
        .fold(opening, |used, comparison| used | bits(comparison.before.iter().chain(&comparison.after)));
    let mut satisfied = Vec::new();
    for (number, predicate) in request.predicates.iter().enumerate() {
        let bit = bits([&number]);
        if used & bit != 0 {
            let condition = search.table.condition(predicate, &mut statement)?;
            satisfied.push(format!("toUInt64({condition}) * {bit}"));
        }
    }
    let satisfied = if satisfied.is_empty() { "toUInt64(0)".to_owned() } else { satisfied.join(" + ") };
    let [mask, values, readable] = ["mask", "values", "readable"].map(|name| statement.own(name));
    let of_span = statement.own("satisfied");
    let (mut columns, mut names) = (format!("groupBitOr({satisfied} AS {of_span}) AS {mask}"), mask.clone());
    let mut having = if request.only_readable { format!(" AND {readable}") } else { String::new() };
    if let Some(sharing) = part.sharing {
        // Of a span a bit for each opening that it satisfies, of which there are fewer sets than of predicates.
        let opens = sharing.openings.iter().enumerate().map(|(number, opening)| {
            format!("toUInt64(bitAnd({of_span}, {}) != 0) * {}", bits(opening), bits([&number]))
        });
        let opens = opens.collect::<Vec<_>>().join(" + ");
        let of_trace = sharing.by.of_trace(&opens, search.table, &mut statement)?;
        columns.push_str(&format!(", {of_trace} AS {values}"));
        names.push_str(&format!(", {values}"));
        if !compares {
            having.push_str(&format!(" AND bitAnd({mask}, {opening}) != 0"));
        }
    }
    let aggregates = Aggregates { columns: &columns, names: &names, having: &having };
    let traces = scan.traces(search, &aggregates, &mut statement)?;
    let samples = request.samples.clamp(1, MAX_SAMPLES);
    let rows = match part.sharing {
        Some(sharing) => shared_rows(&traces, sharing, compares, &statement),
        None => compared_rows(&traces, &statement),
    };
    let limit = part.sharing.map_or(0, |sharing| u64::from(sharing.limit)) + 1;
    let counts = counted(&rows, samples, &statement);
    statement.push(&told(&counts, part.comparisons, samples, limit, &statement));
    Ok(statement)
}

/// One row for each trace, in the shape that [`counted`] reads.
fn compared_rows(traces: &str, statement: &Statement) -> String {
    let [number, row, mask, opens, latest, trace, readable, beyond] =
        ["number", "row", "mask", "opens", "latest", "trace", "readable", "beyond"]
            .map(|name| statement.own(name));
    format!(
        "SELECT toUInt8(0) AS {number}, (toUInt8({COMPARED}), '', toUInt8(0)) AS {row}, {mask} AS {opens}, {latest}, {trace}, \
         {readable}, {beyond} FROM ({traces})"
    )
}

/// For each trace a row if traces are compared; and for each opening that opens it a row and one for each of its values.
fn shared_rows(traces: &str, sharing: Sharing<'_>, compares: bool, statement: &Statement) -> String {
    let [number, row, mask, opens, latest, trace, readable, beyond] =
        ["number", "row", "mask", "opens", "latest", "trace", "readable", "beyond"]
            .map(|name| statement.own(name));
    let [values, pair, bit, those] = ["values", "pair", "bit", "those"].map(|name| statement.own(name));
    let many = sharing.openings.len();
    let masks: Vec<String> =
        sharing.openings.iter().map(|opening| format!("toUInt64({})", bits(opening))).collect();
    let mut numbers = format!(
        "arrayFilter({bit} -> bitAnd({mask}, [{masks}][{bit} + 1]) != 0, range(toUInt8({many})))",
        masks = masks.join(", ")
    );
    // The comparison has the number behind those of the openings, and no values.
    if compares {
        numbers = format!("arrayPushFront({numbers}, toUInt8({many}))");
    }
    let opened = format!(
        "SELECT arrayJoin({numbers}) AS {number}, {mask}, {latest}, {trace}, {readable}, {beyond}, {values} FROM ({traces})"
    );
    // Each value once, and whether any span that has it satisfies the opening: those that do come first.
    let valued = format!(
        "SELECT {number}, {mask}, {latest}, {trace}, {readable}, {beyond}, arrayCompact({pair} -> {pair}.1, \
         arrayReverseSort(arrayMap({pair} -> ({pair}.1, bitTest({pair}.2, {number})), if({number} = {many}, [], {values})))) \
         AS {those} FROM ({opened})"
    );
    format!(
        "SELECT {number}, arrayJoin(if({number} = {many}, [(toUInt8({COMPARED}), '', toUInt8(0))], \
         arrayPushFront(arrayMap({pair} -> (toUInt8({LISTED} + startsWith({pair}.1, {UNSHOWN})), {pair}.1, {pair}.2), {those}), \
         (toUInt8({TOTAL}), '', toUInt8(0))))) AS {row}, if({number} = {many}, {mask}, 0) AS {opens}, {latest}, {trace}, \
         {readable}, {beyond} FROM ({valued})"
    )
}

/// Counts of equal rows, of those for comparisons apart by what opens the traces.
fn counted(rows: &str, samples: u32, statement: &Statement) -> String {
    let [number, row, kind, value, opens, latest, trace, readable, beyond] =
        ["number", "row", "kind", "value", "opens", "latest", "trace", "readable", "beyond"]
            .map(|name| statement.own(name));
    let [traces, own, open, first, odd] =
        ["traces", "own", "open", "first", "odd"].map(|name| statement.own(name));
    format!(
        "SELECT {number}, {row}.1 AS {kind}, {row}.2 AS {value}, {opens}, count() AS {traces}, \
         countIf({row}.3 = 1) AS {own}, max({readable}) AS {open}, \
         groupUniqArrayIf({most_odd})({trace}, {beyond} AND {row}.1 < {LISTED}) AS {odd}, \
         groupArraySortedIf({samples})((-{latest}, {trace}), {row}.1 = {COMPARED} AND {readable}) AS {first} \
         FROM ({rows}) GROUP BY {number}, {kind}, {value}, {opens}",
        most_odd = MAX_LONG + 1,
    )
}

/// What is told of it: of each opening the total first and then its values, and what is compared.
fn told(
    counted: &str,
    comparisons: &[&Comparison],
    samples: u32,
    limit: u64,
    statement: &Statement,
) -> String {
    let [number, kind, value, opens, traces, own, open, first, odd] =
        ["number", "kind", "value", "opens", "traces", "own", "open", "first", "odd"]
            .map(|name| statement.own(name));
    let [all_traces, all_own, any_open, all_odd, compared, listable, pair] =
        ["all_traces", "all_own", "any_open", "all_odd", "compared", "listable", "pair"]
            .map(|name| statement.own(name));
    let ids = |condition: &str| {
        format!(
            "arrayMap({pair} -> {pair}.2, arraySlice(arraySort(groupArraySortedArrayIf({samples})({first}, {condition})), 1, \
             {samples}))"
        )
    };
    let (mut gained, mut lost, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gained_ids, mut lost_ids) = (Vec::new(), Vec::new());
    for comparison in comparisons {
        let open = |numbers: &[usize]| match bits(numbers) {
            0 => "0".to_owned(),
            bits => format!("bitAnd({opens}, {bits}) != 0"),
        };
        let (before, after) = (open(&comparison.before), open(&comparison.after));
        let (gains, loses) = (format!("({after} AND NOT {before})"), format!("({before} AND NOT {after})"));
        gained.push(format!("sumIf({traces}, {gains})"));
        lost.push(format!("sumIf({traces}, {loses})"));
        unchanged.push(format!("sumIf({traces}, {before} AND {after})"));
        gained_ids.push(ids(&gains));
        lost_ids.push(ids(&loses));
    }
    let lists = [gained, lost, unchanged, gained_ids, lost_ids].map(|list| format!("[{}]", list.join(", ")));
    let of_opening = format!("OVER (PARTITION BY {number})");
    format!(
        "SELECT ({number}, {kind}, if({listable}, {value}, ''), {all_traces}, {all_own}, \
         countIf({kind} >= {LISTED}) {of_opening}, countIf({kind} >= {LISTED} AND {all_own} = 0) {of_opening}, \
         countIf({listable}) {of_opening}, {all_odd}), if({kind} = {COMPARED}, {compared}, {nothing}) FROM (\
         SELECT {number}, {kind}, {value}, {all_traces}, {all_own}, {all_odd}, {compared}, \
         {kind} = {LISTED} AND {any_open} AS {listable} FROM (\
         SELECT {number}, {kind}, {value}, ({lists}) AS {compared}, sum({traces}) AS {all_traces}, sum({own}) AS {all_own}, \
         max({open}) AS {any_open}, groupUniqArrayArray({most_odd})({odd}) AS {all_odd} FROM ({counted}) GROUP BY {number}, {kind}, {value})) \
         ORDER BY {number}, {kind} != {TOTAL}, NOT {listable}, {all_traces} DESC, {all_own}, {value} LIMIT {limit} BY {number}",
        most_odd = MAX_LONG + 1,
        lists = lists.join(", "),
        nothing = if comparisons.is_empty() { compared.as_str() } else { "([], [], [], [], [])" },
    )
}

/// What the statements say, one after the other.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) traces: u64,
    pub(super) compared: Vec<Difference>,
    pub(super) shared: Vec<Shared>,
    /// Traces that were looked at and have spans which may not count, at most one more than [`MAX_LONG`]. Where there is any,
    /// the rest means nothing.
    pub(super) beyond: BTreeSet<String>,
}

impl Counts {
    /// Adds what a statement counted.
    pub(super) fn add(&mut self, rows: Vec<Row>, part: &Part<'_>) -> Result<(), StoreError> {
        let openings = part.sharing.map_or(0, |sharing| sharing.openings.len());
        let mut found: Vec<Option<(Shared, u64)>> = vec![None; openings];
        let mut compared = None;
        for (row, lists) in rows {
            let (number, kind, value, traces, matching_traces, distinct, only_shared, listable, odd) = row;
            self.beyond.extend(odd);
            if kind == COMPARED {
                self.traces = traces;
                compared = Some(lists);
                continue;
            }
            let short = || StoreError::Short("the total is missing".to_owned());
            match found.get_mut(usize::from(number)).ok_or_else(short)? {
                Some((shared, listable)) => {
                    if (shared.values.len() as u64) < *listable {
                        shared.values.push(SharedValue { value, traces, matching_traces });
                    }
                }
                none if kind == TOTAL => {
                    let hidden_values = distinct.saturating_sub(listable);
                    let values = Vec::new();
                    *none = Some((Shared { traces, values, distinct, hidden_values, only_shared }, listable));
                }
                _ => return Err(short()),
            }
        }
        self.shared
            .extend(found.into_iter().map(|found| found.map(|(shared, _)| shared).unwrap_or_default()));
        self.compared.extend(differences(compared, part.comparisons.len())?);
        Ok(())
    }
}

/// What is compared, of so many comparisons; without any trace there is no row of it.
fn differences(compared: Option<Compared>, asked: usize) -> Result<Vec<Difference>, StoreError> {
    let Some((gained, lost, unchanged, gained_ids, lost_ids)) = compared else {
        return Ok(vec![Difference::default(); asked]);
    };
    if [&gained, &lost, &unchanged].iter().any(|counts| counts.len() != asked)
        || [&gained_ids, &lost_ids].iter().any(|ids| ids.len() != asked)
    {
        return Err(StoreError::Short("counts are missing".to_owned()));
    }
    let counts = gained.into_iter().zip(lost).zip(unchanged);
    let ids = gained_ids.into_iter().zip(lost_ids);
    let differences = counts.zip(ids).map(|(((gained, lost), unchanged), (gained_ids, lost_ids))| {
        Difference { gained, lost, unchanged, gained_ids, lost_ids }
    });
    Ok(differences.collect())
}

impl Part<'_> {
    /// Whether all traces of the window are counted, and not only those that are opened.
    fn compares(&self) -> bool {
        self.sharing.is_none() || !self.comparisons.is_empty()
    }
}
