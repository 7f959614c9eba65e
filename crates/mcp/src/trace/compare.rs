//! Compares two traces by kind of work.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::tree::{Tree, kind};
use crate::numbers::Nanos;

// Work of one kind in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub(crate) struct Side {
    pub(crate) spans: usize,
    pub(crate) errors: usize,
    /// Self time of these spans.
    pub(crate) own_ms: Nanos,
}

// A kind of work that differs between both traces.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Difference {
    pub(crate) service: String,
    /// Operation, with numbers replaced by #.
    pub(crate) name: String,
    pub(crate) first: Side,
    pub(crate) second: Side,
}

/// Returns the differences: those in errors first, then by difference of self time.
pub(crate) fn differences(first: &Tree, second: &Tree) -> Vec<Difference> {
    let mut all: BTreeMap<(String, String), [Side; 2]> = BTreeMap::new();
    for (at, tree) in [first, second].into_iter().enumerate() {
        for (span, own) in tree.spans.iter().zip(tree.own_times()) {
            if let Some(side) = all.entry(kind(span)).or_default().get_mut(at) {
                side.spans += 1;
                side.errors += usize::from(span.error);
                side.own_ms.0 = side.own_ms.0.saturating_add(own);
            }
        }
    }
    all.into_iter()
        .filter(|(_, [first, second])| first != second)
        .map(|((service, name), [first, second])| Difference { service, name, first, second })
        .sorted_by_key(|Difference { first, second, .. }| {
            Reverse((first.errors != second.errors, first.own_ms.0.abs_diff(second.own_ms.0)))
        })
        .collect()
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
        assert_eq!(found[0].second, Side { spans: 1, errors: 1, own_ms: Nanos(5) });
        assert_eq!((found[2].first, found[2].second.spans), (Side::default(), 1));
        assert_eq!(differences(&first, &first), []);
    }
}
