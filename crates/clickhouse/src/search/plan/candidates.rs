//! Candidates: partial results of traces, each from another range of time. Merged results that cover all considered spans of a trace
//! decide it, without a decision by id.

use std::collections::HashMap;

use serde::Deserialize;

use super::search::Search;
use crate::Result;
use crate::search::selection::Position;
use crate::sql::Statement;

/// The partial result of a trace from one or several disjoint reads: a row of a step or of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) trace: String,
    /// The time of its newest ordering span in the window after the last position, in ticks.
    pub(crate) order_key: Option<i64>,
    /// The times of the oldest and the newest of its spans that were read, in ticks.
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
    /// The number of its ordering spans that were read.
    pub(crate) ordering_spans: u64,
    /// As in [`super::RequiredPredicates::predicate_bits`].
    pub(crate) predicate_bits: u64,
}

impl Candidate {
    /// Returns its position in the order, if it matches and is on no earlier page; `None` without an ordering span.
    pub(crate) fn position(&self) -> Option<Position> {
        self.order_key.map(|key| Position { tier: 1, key, trace_id: self.trace.clone() })
    }

    /// Whether it has an ordering span in the window, and the spans that were read satisfy every required predicate, and no exclusion.
    pub(crate) fn is_provisional_match(&self, search: &Search<'_>) -> bool {
        self.order_key.is_some() && self.predicate_bits == search.required_predicates.required_bits()
    }

    fn merge(&mut self, other: Self) {
        self.order_key = self.order_key.max(other.order_key);
        self.oldest = self.oldest.min(other.oldest);
        self.newest = self.newest.max(other.newest);
        self.ordering_spans = self.ordering_spans.saturating_add(other.ordering_spans);
        self.predicate_bits |= other.predicate_bits;
    }
}

/// Candidates by trace.
#[derive(Debug, Default)]
pub(crate) struct Candidates(HashMap<String, Candidate>);

impl Candidates {
    pub(crate) fn merge(&mut self, rows: Vec<Candidate>) {
        for candidate in rows {
            match self.0.get_mut(&candidate.trace) {
                Some(known) => known.merge(candidate),
                None => drop(self.0.insert(candidate.trace.clone(), candidate)),
            }
        }
    }

    pub(crate) fn traces(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Number of [provisional matches](Candidate::is_provisional_match).
    pub(crate) fn provisional_matches(&self, search: &Search<'_>) -> usize {
        self.0.values().filter(|candidate| candidate.is_provisional_match(search)).count()
    }

    /// Returns the candidates in the order of their positions; those without a position come last.
    pub(crate) fn into_sorted(self) -> Vec<Candidate> {
        let mut sorted: Vec<Candidate> = self.0.into_values().collect();
        sorted.sort_unstable_by(|a, b| b.order_key.cmp(&a.order_key).then_with(|| a.trace.cmp(&b.trace)));
        sorted
    }
}

/// Names of the columns of a candidate to which conditions refer.
pub(crate) struct CandidateColumns {
    pub(crate) trace: String,
    pub(crate) order_key: String,
    pub(crate) predicate_bits: String,
    pub(crate) columns: String,
}

impl CandidateColumns {
    /// Writes the columns of a candidate. `order_key` is SQL for the time of its newest ordering span.
    pub(crate) fn new(search: &Search<'_>, order_key: &str, statement: &mut Statement) -> Result<Self> {
        let [trace, order_key_name, predicate_bits] =
            statement.aliases(["trace", "order_key", "predicate_bits"]);
        let (id, ticks) = (&search.table.trace_id.text, &search.table.ticks);
        let is_ordering = search.required_predicates.key(statement)?;
        let bits = search.required_predicates.predicate_bits(statement)?;
        let columns = format!(
            "{id} AS {trace}, {order_key} AS {order_key_name}, min({ticks}), max({ticks}), countIf({is_ordering}), \
             {bits} AS {predicate_bits}"
        );
        Ok(Self { trace, order_key: order_key_name, predicate_bits, columns })
    }

    /// SQL: whether the spans satisfy every required predicate.
    pub(crate) fn satisfies_all(&self, search: &Search<'_>) -> String {
        let all = search.required_predicates.required_bits();
        format!("bitAnd({}, {all}) = {all}", self.predicate_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_results_of_a_trace_are_merged() {
        let part = |trace: &str, order_key, (oldest, newest), ordering_spans, predicate_bits| Candidate {
            trace: trace.to_owned(),
            order_key,
            oldest,
            newest,
            ordering_spans,
            predicate_bits,
        };
        let mut candidates = Candidates::default();
        candidates.merge(vec![part("a", Some(5), (4, 6), 1, 1), part("b", Some(5), (5, 5), 1, 3)]);
        candidates.merge(vec![part("c", None, (9, 9), 0, 2), part("a", None, (8, 9), 2, 2)]);
        candidates.merge(vec![part("a", Some(3), (3, 3), 1, 1)]);
        let expected = [
            part("a", Some(5), (3, 9), 4, 3),
            part("b", Some(5), (5, 5), 1, 3),
            part("c", None, (9, 9), 0, 2),
        ];
        assert_eq!(candidates.into_sorted(), expected);
    }
}
