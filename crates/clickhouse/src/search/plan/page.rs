//! Traces of a page, as they are found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::search::selection::Position;

/// A trace that belongs to the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchingTrace {
    pub(crate) position: Position,
    /// Minimum number of its spans, as counted for the decision.
    pub(crate) spans: u64,
}

/// A position as a key that sorts as the order of traces does.
pub(crate) type Rank = (Reverse<u8>, Reverse<i64>, String);

pub(crate) fn rank(position: &Position) -> Rank {
    (Reverse(position.tier), Reverse(position.key), position.trace_id.clone())
}

/// The traces after the end of the previous page, each once and in order.
pub(crate) struct Page {
    after: Option<Rank>,
    found: BTreeMap<Rank, u64>,
    /// The position of each trace, by id. Several statements read a trace, and spans that arrive between two of them move it.
    ranks: HashMap<String, Rank>,
}

impl Page {
    pub(crate) fn new(after: Option<&Position>) -> Self {
        Self { after: after.map(rank), found: BTreeMap::new(), ranks: HashMap::new() }
    }

    /// Adds a trace, unless it is on an earlier page. If it was found before, it keeps the earlier position: at the later
    /// one, the traces counted up to there would lack it.
    pub(crate) fn insert(&mut self, found: MatchingTrace) {
        let rank = rank(&found.position);
        if self.after.as_ref().is_some_and(|after| rank <= *after) {
            return;
        }
        let mut spans = found.spans;
        let known = self.ranks.get(&found.position.trace_id);
        let first = known.filter(|known| **known < rank).cloned().unwrap_or(rank);
        if let Some(known) = self.ranks.insert(found.position.trace_id, first.clone()) {
            // Spans that were counted once must be read.
            spans = spans.max(self.found.remove(&known).unwrap_or_default());
        }
        self.found.insert(first, spans);
    }

    pub(crate) fn extend(&mut self, found: impl IntoIterator<Item = MatchingTrace>) {
        found.into_iter().for_each(|found| self.insert(found));
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Number of traces at or before this position.
    pub(crate) fn count_up_to(&self, position: &Position) -> usize {
        self.found.range(..=rank(position)).count()
    }

    pub(crate) fn into_first(self, limit: usize) -> Vec<MatchingTrace> {
        let found = self.found.into_iter().take(limit);
        found
            .map(|((Reverse(tier), Reverse(key), trace_id), spans)| MatchingTrace {
                position: Position { tier, key, trace_id },
                spans,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tier: u8, key: i64, trace_id: &str) -> Position {
        Position { tier, key, trace_id: trace_id.to_owned() }
    }

    #[test]
    fn newest_first_then_by_id_and_matches_outside_last() {
        let mut page = Page::new(Some(&at(1, 9, "b")));
        for position in
            [at(0, 99, "z"), at(1, 5, "b"), at(1, 5, "a"), at(1, 9, "b"), at(1, 9, "c"), at(1, 10, "x")]
        {
            page.insert(MatchingTrace { position, spans: 1 });
        }
        page.insert(MatchingTrace { position: at(1, 5, "a"), spans: 1 });
        assert_eq!((page.len(), page.count_up_to(&at(1, 5, "a"))), (4, 2));
        let ids: Vec<String> = page.into_first(3).into_iter().map(|found| found.position.trace_id).collect();
        assert_eq!(ids, ["c", "a", "b"]);
    }

    #[test]
    fn a_trace_that_moves_during_a_search_is_found_once() {
        let mut page = Page::new(Some(&at(1, 9, "b")));
        // Moved forwards, moved backwards, off the page, from after all matches, and unchanged with more spans.
        for (position, spans) in [
            (at(1, 5, "forwards"), 3),
            (at(1, 7, "forwards"), 2),
            (at(1, 6, "backwards"), 1),
            (at(1, 4, "backwards"), 1),
            (at(1, 3, "out"), 1),
            (at(1, 10, "out"), 2),
            (at(0, 8, "outside"), 1),
            (at(1, 2, "outside"), 1),
            (at(1, 1, "still"), 1),
            (at(1, 1, "still"), 4),
        ] {
            page.insert(MatchingTrace { position, spans });
        }
        assert_eq!((page.len(), page.count_up_to(&at(1, 6, "backwards"))), (5, 2));
        let found = page.into_first(9).into_iter();
        let found: Vec<_> =
            found.map(|found| (found.position.trace_id, found.position.key, found.spans)).collect();
        let expected =
            [("forwards", 7, 3), ("backwards", 6, 1), ("out", 3, 1), ("outside", 2, 1), ("still", 1, 4)];
        assert_eq!(found, expected.map(|(id, key, spans)| (id.to_owned(), key, spans)));
    }
}
