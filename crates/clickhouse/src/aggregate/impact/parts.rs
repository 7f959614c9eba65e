//! Splits a request into parts that one statement can count each.

use std::collections::BTreeSet;

use tracewarden_policy::Predicate;

use super::collateral::CollateralQuery;
use super::types::Comparison;

/// Maximum size of all predicates of one statement together, in nodes as written. A larger predicate has a statement of its
/// own.
const MAX_STATEMENT_SIZE: u64 = 20_000;

/// The part of a request that one statement counts.
pub(super) struct QueryPart<'a> {
    pub(super) comparisons: &'a [&'a Comparison],
    pub(super) collateral: Option<CollateralQuery<'a>>,
    /// Indexes of the predicates that it uses.
    pub(super) used: BTreeSet<usize>,
    /// Whether `after` of the comparisons refers to the rows of another binding.
    pub(super) has_two_bindings: bool,
}

impl QueryPart<'_> {
    /// Whether all traces of the window are counted, and not only the accessible ones.
    pub(super) fn compares(&self) -> bool {
        self.collateral.is_none() || !self.comparisons.is_empty()
    }
}

/// Splits the request into parts that one statement can count each; there is at least one part.
pub(super) fn parts<'a>(
    comparisons: &'a [&'a Comparison],
    collateral: Option<CollateralQuery<'a>>,
    predicates: &[Predicate],
    has_two_bindings: bool,
) -> Vec<QueryPart<'a>> {
    let collateral_predicates: BTreeSet<usize> = collateral
        .iter()
        .flat_map(|collateral| collateral.predicate_sets.iter().flatten())
        .copied()
        .collect();
    // Each predicate is written for both bindings.
    let max_size = if has_two_bindings { MAX_STATEMENT_SIZE / 2 } else { MAX_STATEMENT_SIZE };
    let (mut parts, mut begin, mut first) = (Vec::new(), 0, collateral);
    let mut size = total_size(&collateral_predicates, predicates);
    let mut used = collateral_predicates;
    for (at, comparison) in comparisons.iter().enumerate() {
        let own: BTreeSet<usize> = comparison.before.iter().chain(&comparison.after).copied().collect();
        let added = total_size(own.difference(&used), predicates);
        if (at > begin || first.is_some()) && size.saturating_add(added) > max_size {
            let comparisons = comparisons.get(begin..at).unwrap_or_default();
            let used = std::mem::take(&mut used);
            parts.push(QueryPart { comparisons, collateral: first.take(), used, has_two_bindings });
            (begin, size) = (at, total_size(&own, predicates));
        } else {
            size = size.saturating_add(added);
        }
        used.extend(own);
    }
    let comparisons = comparisons.get(begin..).unwrap_or_default();
    parts.push(QueryPart { comparisons, collateral: first, used, has_two_bindings });
    parts
}

fn total_size<'n>(numbers: impl IntoIterator<Item = &'n usize>, predicates: &[Predicate]) -> u64 {
    let chosen = numbers.into_iter().filter_map(|number| predicates.get(*number));
    chosen.map(Predicate::size).fold(0, u64::saturating_add)
}
