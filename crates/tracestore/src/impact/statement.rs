//! The statement that compares. Its innermost part groups the spans that count by their traces, as the grouped pass does; of
//! each trace it keeps one integer with a bit for each predicate that any span satisfies.

use super::{Comparison, Difference, ImpactRequest, MAX_SAMPLES};
use crate::StoreError;
use crate::impact::Look;
use crate::plan::Search;
use crate::sql::Statement;

/// Traces; and of each comparison those gained, lost and unchanged, and ids of the first two.
pub(super) type Row = (u64, Vec<u64>, Vec<u64>, Vec<u64>, Vec<Vec<String>>, Vec<Vec<String>>);

/// Which predicates, as bits.
pub(crate) fn bits<'n>(numbers: impl IntoIterator<Item = &'n usize>) -> u64 {
    numbers.into_iter().fold(0, |bits, number| {
        bits | u32::try_from(*number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
    })
}

pub(super) fn statement(
    search: &Search<'_>,
    look: &Look<'_>,
    request: &ImpactRequest<'_>,
    comparisons: &[&Comparison],
) -> Result<Statement, StoreError> {
    let mut statement = search.table.statement();
    let [trace, mask, latest, readable, pair] =
        ["trace", "mask", "latest", "readable", "pair"].map(|name| statement.own(name));
    let used = comparisons
        .iter()
        .fold(0, |used, comparison| used | bits(comparison.before.iter().chain(&comparison.after)));
    let mut satisfied = Vec::new();
    for (number, predicate) in request.predicates.iter().enumerate() {
        let bit = bits([&number]);
        if used & bit != 0 {
            let condition = search.table.condition(predicate, &mut statement)?;
            satisfied.push(format!("toUInt64({condition}) * {bit}"));
        }
    }
    let satisfied = if satisfied.is_empty() { "toUInt64(0)".to_owned() } else { satisfied.join(" + ") };
    let columns = format!("groupBitOr({satisfied}) AS {mask}");
    let having = if request.only_readable { format!(" AND {readable}") } else { String::new() };
    let traces = look.traces(search, &columns, &having, &mut statement)?;

    let samples = request.samples.clamp(1, MAX_SAMPLES);
    let (mut gained, mut lost, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gained_ids, mut lost_ids) = (Vec::new(), Vec::new());
    let ids = |condition: &str| {
        format!(
            "arrayMap({pair} -> {pair}.2, arraySlice(arraySort(groupArraySortedIf({samples})((-{latest}, {trace}), \
             {readable} AND {condition})), 1, {samples}))"
        )
    };
    for comparison in comparisons {
        let open = |numbers: &[usize]| match bits(numbers) {
            0 => "0".to_owned(),
            bits => format!("bitAnd({mask}, {bits}) != 0"),
        };
        let (before, after) = (open(&comparison.before), open(&comparison.after));
        let (gains, loses) = (format!("({after} AND NOT {before})"), format!("({before} AND NOT {after})"));
        gained.push(format!("countIf({gains})"));
        lost.push(format!("countIf({loses})"));
        unchanged.push(format!("countIf({before} AND {after})"));
        gained_ids.push(ids(&gains));
        lost_ids.push(ids(&loses));
    }
    let lists = [gained, lost, unchanged, gained_ids, lost_ids].map(|list| format!("[{}]", list.join(", ")));
    statement.push(&format!("SELECT count(), {} FROM ({traces})", lists.join(", ")));
    Ok(statement)
}

/// What the statements say, one after the other.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) traces: u64,
    pub(super) compared: Vec<Difference>,
}

impl Counts {
    /// Adds the comparisons of a statement.
    pub(super) fn add(&mut self, rows: Vec<Row>, asked: usize) -> Result<(), StoreError> {
        let short = || StoreError::Short("counts are missing".to_owned());
        let (traces, gained, lost, unchanged, gained_ids, lost_ids) =
            rows.into_iter().next().ok_or_else(short)?;
        if [&gained, &lost, &unchanged].iter().any(|counts| counts.len() != asked)
            || [&gained_ids, &lost_ids].iter().any(|ids| ids.len() != asked)
        {
            return Err(short());
        }
        self.traces = traces;
        let counts = gained.into_iter().zip(lost).zip(unchanged);
        let ids = gained_ids.into_iter().zip(lost_ids);
        self.compared.extend(counts.zip(ids).map(|(((gained, lost), unchanged), (gained_ids, lost_ids))| {
            Difference { gained, lost, unchanged, gained_ids, lost_ids }
        }));
        Ok(())
    }
}
