//! Finds the origins of errors: failed spans without failed descendants, by kind.

use std::cmp::Reverse;

use itertools::Itertools as _;

use super::tree::Tree;

/// Failed spans of a kind without failed descendants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The first of these spans.
    pub(crate) span: usize,
    /// Number of spans.
    pub(crate) count: usize,
}

/// The errors of a trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Errors {
    /// Ordered by count, then by start.
    pub(crate) origins: Vec<Origin>,
    /// Total number of failed spans. Ancestors of an origin probably failed because of it.
    pub(crate) failed: usize,
}

impl Errors {
    pub(crate) fn new(tree: &Tree) -> Self {
        let failed = |index: usize| tree.spans.get(index).is_some_and(|span| span.error);
        let mut below = vec![false; tree.spans.len()];
        for index in tree.preorder().into_iter().rev() {
            let any = failed(index) || below.get(index) == Some(&true);
            if any && let Some(mark) = tree.parent(index).and_then(|parent| below.get_mut(parent)) {
                *mark = true;
            }
        }
        let is_origin = |index: &usize| failed(*index) && below.get(*index) == Some(&false);
        let groups = tree.by_kind((0..tree.spans.len()).filter(is_origin));
        let origins = groups
            .into_iter()
            .filter_map(|group| Some(Origin { span: *group.first()?, count: group.len() }))
            .sorted_by_key(|origin| (Reverse(origin.count), origin.span))
            .collect();
        Self { origins, failed: tree.spans.iter().filter(|span| span.error).count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::spans;

    #[test]
    fn error_origins_have_no_failed_descendants() {
        let check = |text: &str, origins: &[(&str, usize)], failed: usize| {
            let tree = Tree::new(spans(text));
            let errors = Errors::new(&tree);
            let found: Vec<(&str, usize)> = errors
                .origins
                .iter()
                .map(|origin| (tree.spans[origin.span].span_id.as_str(), origin.count))
                .collect();
            assert_eq!((found.as_slice(), errors.failed), (origins, failed), "{text}");
        };
        check("a b<a", &[], 0);
        check("a! b<a! c<b!", &[("c", 1)], 3);
        // The ancestor in between did not fail, and there are two origins.
        check("a! b<a c<b! d<a!", &[("c", 1), ("d", 1)], 3);
        check("a! x-1234567<a! y<a! x-7654321<a!", &[("x-1234567", 2), ("y", 1)], 4);
    }
}
