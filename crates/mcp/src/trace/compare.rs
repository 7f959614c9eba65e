//! Compares two traces by kind of work.

use std::collections::BTreeMap;

use super::tree::{Tree, kind};

/// Work of one kind in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Side {
    pub(crate) count: usize,
    pub(crate) errors: usize,
    /// Self time of the spans, in nanoseconds.
    pub(crate) own: i64,
}

/// A kind of work that differs between both traces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) first: Side,
    pub(crate) second: Side,
}

/// Returns the differences: those in errors first, then by difference of self time.
pub(crate) fn differences(first: &Tree, second: &Tree) -> Vec<Difference> {
    let mut all: BTreeMap<(String, String), (Side, Side)> = BTreeMap::new();
    for (kind, side) in sides(first) {
        all.entry(kind).or_default().0 = side;
    }
    for (kind, side) in sides(second) {
        all.entry(kind).or_default().1 = side;
    }
    let mut found: Vec<Difference> = all
        .into_iter()
        .filter(|(_, (first, second))| first != second)
        .map(|((service, name), (first, second))| Difference { service, name, first, second })
        .collect();
    found.sort_by_key(|difference| {
        let Difference { first, second, .. } = difference;
        let failed = first.errors.abs_diff(second.errors) > 0;
        std::cmp::Reverse((failed, first.own.abs_diff(second.own)))
    });
    found
}

fn sides(tree: &Tree) -> BTreeMap<(String, String), Side> {
    let mut sides: BTreeMap<(String, String), Side> = BTreeMap::new();
    for (span, own) in tree.spans.iter().zip(tree.own_times()) {
        let side = sides.entry(kind(span)).or_default();
        side.count += 1;
        side.errors += usize::from(span.error);
        side.own = side.own.saturating_add(own);
    }
    sides
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::spans;

    #[test]
    fn differences_list_errors_first() {
        let (first, second) = (Tree::new(spans("a+100 b c+5 e+1")), Tree::new(spans("a+300 b c+5! d+7 e+1")));
        let found = differences(&first, &second);
        let names: Vec<&str> = found.iter().map(|difference| difference.name.as_str()).collect();
        assert_eq!(names, ["c", "a", "d"]);
        assert_eq!(found[0].second, Side { count: 1, errors: 1, own: 5 });
        assert_eq!((found[2].first, found[2].second.count), (Side::default(), 1));
        assert_eq!(differences(&first, &first), []);
    }
}
