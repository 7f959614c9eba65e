//! Computes the time of each kind of work.

use std::cmp::Reverse;

use indexmap::IndexMap;
use itertools::Itertools as _;

use super::tree::{Tree, kind};

/// Spans of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KindTime {
    /// Span with the longest time.
    pub(crate) span: usize,
    /// Its time in nanoseconds.
    pub(crate) longest: i64,
    /// Number of spans.
    pub(crate) count: usize,
    /// Total time in nanoseconds.
    pub(crate) total: i64,
}

/// Returns kinds of work by total self time, longest first.
pub(crate) fn slowest(tree: &Tree) -> Vec<KindTime> {
    kinds_by_time(tree, tree.own_times().into_iter().enumerate())
}

/// Returns kinds of work by the total of these times of spans, in nanoseconds, longest first.
pub(crate) fn kinds_by_time(tree: &Tree, times: impl IntoIterator<Item = (usize, i64)>) -> Vec<KindTime> {
    let mut kinds: IndexMap<(String, String), KindTime> = IndexMap::new();
    for (index, time) in times {
        let Some(span) = tree.spans.get(index) else { continue };
        let first = KindTime { span: index, longest: time, count: 0, total: 0 };
        let kind_time = kinds.entry(kind(span)).or_insert(first);
        kind_time.count += 1;
        kind_time.total = kind_time.total.saturating_add(time);
        if time > kind_time.longest {
            (kind_time.span, kind_time.longest) = (index, time);
        }
    }
    kinds.into_values().sorted_by_key(|kind_time| (Reverse(kind_time.total), kind_time.span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::spans;

    #[test]
    fn own_time_excludes_children() {
        let tree = Tree::new(spans("a@0+100 b-1000000<a@10+20 b-2000000<a@40+50 c<b-2000000@41+1"));
        let found: Vec<(&str, usize, i64)> = slowest(&tree)
            .iter()
            .map(|kind_time| (tree.spans[kind_time.span].span_id.as_str(), kind_time.count, kind_time.total))
            .collect();
        assert_eq!(found, [("b-2000000", 2, 69), ("a", 1, 30), ("c", 1, 1)]);
    }
}
