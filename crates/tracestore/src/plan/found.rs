//! Traces of a page, as they are found.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::select::Position;

/// A trace that belongs to the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) position: Position,
    /// Spans of it that were seen while deciding, at least.
    pub(crate) spans: u64,
}

/// A position as a key that sorts as the order of traces does.
type Rank = (Reverse<u8>, Reverse<i64>, String);

fn rank(position: &Position) -> Rank {
    (Reverse(position.tier), Reverse(position.key), position.trace_id.clone())
}

/// What was found behind the place where the page before ended, each trace once and in order.
pub(crate) struct Page {
    after: Option<Rank>,
    found: BTreeMap<Rank, u64>,
}

impl Page {
    pub(crate) fn new(after: Option<&Position>) -> Self {
        Self { after: after.map(rank), found: BTreeMap::new() }
    }

    /// Takes a trace, unless it is on an earlier page.
    pub(crate) fn insert(&mut self, found: Found) {
        let rank = rank(&found.position);
        if self.after.as_ref().is_none_or(|after| *after < rank) {
            self.found.insert(rank, found.spans);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// How many have a match inside the window.
    pub(crate) fn matched(&self) -> usize {
        self.len_through(&Position { tier: 1, key: i64::MIN, trace_id: String::new() })
    }

    /// How many stand at this place or before it.
    pub(crate) fn len_through(&self, place: &Position) -> usize {
        self.found.range(..=rank(place)).count()
    }

    /// The place of the so manyth, from 1.
    pub(crate) fn place(&self, number: usize) -> Option<Position> {
        let (Reverse(tier), Reverse(key), trace_id) = self.found.keys().nth(number.checked_sub(1)?)?;
        Some(Position { tier: *tier, key: *key, trace_id: trace_id.clone() })
    }

    /// The first ones.
    pub(crate) fn into_first(self, limit: usize) -> Vec<Found> {
        let found = self.found.into_iter().take(limit);
        found
            .map(|((Reverse(tier), Reverse(key), trace_id), spans)| Found {
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
            page.insert(Found { position, spans: 1 });
        }
        page.insert(Found { position: at(1, 5, "a"), spans: 1 });
        assert_eq!((page.len(), page.matched(), page.len_through(&at(1, 5, "a"))), (4, 3, 2));
        let ids: Vec<String> = page.into_first(3).into_iter().map(|found| found.position.trace_id).collect();
        assert_eq!(ids, ["c", "a", "b"]);
    }
}
