//! Computes the self time of each kind of work.

use std::collections::HashMap;

use super::tree::{Tree, kind};

/// Spans of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KindTime {
    /// Span with the longest self time.
    pub(crate) span: usize,
    /// Its self time in nanoseconds.
    pub(crate) longest: i64,
    /// Number of spans.
    pub(crate) count: usize,
    /// Total self time in nanoseconds.
    pub(crate) own: i64,
}

/// Returns kinds of work by total self time, longest first.
pub(crate) fn slowest(tree: &Tree) -> Vec<KindTime> {
    let mut kinds: Vec<KindTime> = Vec::new();
    let mut indexes: HashMap<(String, String), usize> = HashMap::new();
    for ((index, span), own) in tree.spans.iter().enumerate().zip(tree.own_times()) {
        let known = *indexes.entry(kind(span)).or_insert(kinds.len());
        match kinds.get_mut(known) {
            None => kinds.push(KindTime { span: index, longest: own, count: 1, own }),
            Some(kind_time) => {
                kind_time.count += 1;
                kind_time.own = kind_time.own.saturating_add(own);
                if own > kind_time.longest {
                    (kind_time.span, kind_time.longest) = (index, own);
                }
            }
        }
    }
    kinds.sort_by_key(|kind_time| (std::cmp::Reverse(kind_time.own), kind_time.span));
    kinds
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
            .map(|kind_time| (tree.spans[kind_time.span].span_id.as_str(), kind_time.count, kind_time.own))
            .collect();
        assert_eq!(found, [("b-2000000", 2, 69), ("a", 1, 30), ("c", 1, 1)]);
    }
}
