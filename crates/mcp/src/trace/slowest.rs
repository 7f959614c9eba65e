//! Computes the self time of each kind of work.

use std::collections::HashMap;

use super::tree::{Tree, kind};

/// Spans of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Work {
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
pub(crate) fn slowest(tree: &Tree) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for ((place, span), own) in tree.spans.iter().enumerate().zip(tree.own_times()) {
        let known = *places.entry(kind(span)).or_insert(works.len());
        match works.get_mut(known) {
            None => works.push(Work { span: place, longest: own, count: 1, own }),
            Some(work) => {
                work.count += 1;
                work.own = work.own.saturating_add(own);
                if own > work.longest {
                    (work.span, work.longest) = (place, own);
                }
            }
        }
    }
    works.sort_by_key(|work| (std::cmp::Reverse(work.own), work.span));
    works
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::sample::spans;

    #[test]
    fn own_time_excludes_children() {
        let tree = Tree::new(spans("a@0+100 b-1000000<a@10+20 b-2000000<a@40+50 c<b-2000000@41+1"));
        let found: Vec<(&str, usize, i64)> = slowest(&tree)
            .iter()
            .map(|work| (tree.spans[work.span].span_id.as_str(), work.count, work.own))
            .collect();
        assert_eq!(found, [("b-2000000", 2, 69), ("a", 1, 30), ("c", 1, 1)]);
    }
}
