//! Computes counts from the rows of a statement. ClickHouse counts the values; the comparisons are computed here, from the
//! number of traces for each set of satisfied predicates.

use std::collections::BTreeSet;

use super::collateral::{CollateralValues, SharedValue};
use super::masks::Masks;
use super::parts::QueryPart;
use super::statement::{COMPARED, MAX_MASKS, Row, TOTAL};
use super::types::Difference;
use crate::{ClickHouseError, Result};

/// Counts of all statements.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) traces: u64,
    pub(super) compared: Vec<Difference>,
    pub(super) collateral_values: Vec<CollateralValues>,
    /// Traces that have spans which may not count, at most one more than
    /// [`MAX_LONG_TRACES`](crate::search::MAX_LONG_TRACES). If there is any, the other counts are meaningless.
    pub(super) beyond: BTreeSet<String>,
}

impl Counts {
    /// Adds the rows of a statement.
    ///
    /// # Errors
    /// When the traces cannot be compared, or rows are missing.
    pub(super) fn add(&mut self, rows: Vec<Row>, part: &QueryPart<'_>, samples: u32) -> Result<()> {
        if rows.len() as u64 > MAX_MASKS {
            return Err(ClickHouseError::TooLarge(
                "traces satisfy too many different sets of predicates".to_owned(),
            ));
        }
        let predicate_sets = part.collateral.map_or(0, |collateral| collateral.predicate_sets.len());
        let mut found: Vec<Option<(CollateralValues, u64)>> = vec![None; predicate_sets];
        let mut compared = DifferenceCounter::new(part, samples);
        let mut traces_compared = 0_u64;
        for (row, (mask, first)) in rows {
            let (number, kind, value, traces, matching_traces, distinct, only_shared, listable, beyond_ids) =
                row;
            self.beyond.extend(beyond_ids);
            if kind == COMPARED {
                traces_compared = traces_compared.saturating_add(traces);
                compared.add(&mask, traces, &first);
                continue;
            }
            let short = || ClickHouseError::incomplete("the total is missing");
            match found.get_mut(usize::from(number)).ok_or_else(short)? {
                Some((collateral_values, listable)) => {
                    if (collateral_values.values.len() as u64) < *listable {
                        collateral_values.values.push(SharedValue { value, traces, matching_traces });
                    }
                }
                none if kind == TOTAL => {
                    let hidden_values = distinct.saturating_sub(listable);
                    let values = Vec::new();
                    *none = Some((
                        CollateralValues { traces, values, distinct, hidden_values, only_shared },
                        listable,
                    ));
                }
                _ => return Err(short()),
            }
        }
        if part.compares() {
            self.traces = traces_compared;
        }
        self.collateral_values.extend(
            found
                .into_iter()
                .map(|found| found.map(|(collateral_values, _)| collateral_values).unwrap_or_default()),
        );
        self.compared.extend(compared.differences());
        Ok(())
    }
}

/// Differences, computed as traces are added by the predicates that they satisfy.
struct DifferenceCounter {
    /// Predicates before and after, for each comparison, as words of bits.
    sides: Vec<(Vec<u64>, Vec<u64>)>,
    differences: Vec<Difference>,
    /// Gained and lost traces of each comparison.
    ids: Vec<[Vec<(i64, String)>; 2]>,
    samples: usize,
}

impl DifferenceCounter {
    fn new(part: &QueryPart<'_>, samples: u32) -> Self {
        let masks = Masks::new(&part.used);
        let sides: Vec<(Vec<u64>, Vec<u64>)> = part
            .comparisons
            .iter()
            .map(|comparison| {
                let (before, mut after) = (masks.mask(&comparison.before), masks.mask(&comparison.after));
                if part.has_two_bindings {
                    // The words of the second binding follow those of the first.
                    after.splice(0..0, vec![0; masks.words()]);
                }
                (before, after)
            })
            .collect();
        let many = sides.len();
        Self {
            sides,
            differences: vec![Difference::default(); many],
            ids: vec![<[Vec<(i64, String)>; 2]>::default(); many],
            samples: samples as usize,
        }
    }

    fn add(&mut self, mask: &[u64], traces: u64, first: &[(i64, String)]) {
        let intersects = |side: &[u64]| side.iter().zip(mask).any(|(side, mask)| side & mask != 0);
        let sides_and_results = self.sides.iter().zip(&mut self.differences).zip(&mut self.ids);
        for (((before, after), difference), [gained, lost]) in sides_and_results {
            let (count, ids) = match (intersects(before), intersects(after)) {
                (false, true) => (&mut difference.gained, Some(gained)),
                (true, false) => (&mut difference.lost, Some(lost)),
                (true, true) => (&mut difference.unchanged, None),
                (false, false) => continue,
            };
            *count = count.saturating_add(traces);
            if let Some(ids) = ids.filter(|_| !first.is_empty()) {
                ids.extend_from_slice(first);
                ids.sort_unstable();
                ids.truncate(self.samples);
            }
        }
    }

    fn differences(self) -> impl Iterator<Item = Difference> {
        let ids = |ids: Vec<(i64, String)>| ids.into_iter().map(|(_, id)| id).collect();
        self.differences.into_iter().zip(self.ids).map(move |(difference, [gained, lost])| Difference {
            gained_ids: ids(gained),
            lost_ids: ids(lost),
            ..difference
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(traces: u64) -> Row {
        ((0, COMPARED, String::new(), traces, 0, 0, 0, 0, Vec::new()), (vec![0], Vec::new()))
    }

    /// The statement cuts rows beyond its limit, so an answer that exceeds it is rejected.
    #[test]
    fn answers_that_may_be_truncated_are_refused() {
        let part =
            QueryPart { comparisons: &[], collateral: None, used: BTreeSet::new(), has_two_bindings: false };
        let mut counts = Counts::default();
        counts.add(vec![row(2); MAX_MASKS as usize], &part, 1).unwrap();
        assert_eq!(counts.traces, 2 * MAX_MASKS);
        let cut = counts.add(vec![row(2); MAX_MASKS as usize + 1], &part, 1);
        assert!(matches!(cut, Err(ClickHouseError::TooLarge(_))), "{cut:?}");
    }
}
