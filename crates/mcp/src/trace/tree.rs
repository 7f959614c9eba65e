//! Builds a tree of spans from any input: missing parents, cycles, duplicate ids, contradictory times.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use itertools::Itertools as _;
use tracewarden_service::{MAX_SPANS_PER_ID, SpanSummary};

/// Spans by index, with their parents and children.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Ordered by start.
    pub(crate) spans: Vec<SpanSummary>,
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// For each span its root, and the number of spans on the path from there. A path can be as long as the trace.
    tops: Vec<Option<(usize, usize)>>,
    /// Spans whose parent is missing, and one span of each cycle.
    pub(crate) roots: Vec<usize>,
}

impl Tree {
    /// Creates the tree from spans ordered by start.
    pub(crate) fn new(spans: Vec<SpanSummary>) -> Self {
        let mut by_id: HashMap<&str, usize> = HashMap::with_capacity(spans.len());
        // A span without an id cannot be a parent: an empty parent id names no span.
        for (index, span) in spans.iter().enumerate().filter(|(_, span)| !is_empty_id(&span.span_id)) {
            by_id.entry(&span.span_id).or_insert(index);
        }
        let parent = |span: &SpanSummary| {
            let parent = span.parent_span_id.as_str();
            // A span cannot be its own parent, or the parent of another span with the same id.
            if is_empty_id(parent) || parent == span.span_id { None } else { by_id.get(parent).copied() }
        };
        let mut parents: Vec<Option<usize>> = spans.iter().map(parent).collect();
        let mut children = vec![Vec::new(); spans.len()];
        for (index, parent) in parents.iter().enumerate() {
            if let Some(list) = parent.and_then(|parent| children.get_mut(parent)) {
                list.push(index);
            }
        }
        let mut roots: Vec<usize> = parents.iter().positions(Option::is_none).collect();
        let mut tops = vec![None; spans.len()];
        let mut open: Vec<(usize, usize, usize)> = roots.iter().map(|root| (*root, *root, 1)).collect();
        let mut unreached = 0..spans.len();
        loop {
            while let Some((index, top, length)) = open.pop() {
                if let Some(found) = tops.get_mut(index) {
                    *found = Some((top, length));
                }
                open.extend(children.get(index).into_iter().flatten().map(|child| (*child, top, length + 1)));
            }
            // A span that no root reaches is in a cycle, or below one. Following its parents leads to the cycle.
            let Some(left) = unreached.find(|index| tops.get(*index) == Some(&None)) else { break };
            let mut passed = HashSet::new();
            let mut cut = left;
            while passed.insert(cut) {
                cut = parents.get(cut).copied().flatten().unwrap_or(cut);
            }
            let parent = parents.get_mut(cut).and_then(Option::take);
            if let Some(list) = parent.and_then(|parent| children.get_mut(parent)) {
                list.retain(|child| *child != cut);
            }
            roots.push(cut);
            open.push((cut, cut, 1));
        }
        roots.sort_unstable();
        Self { spans, parents, children, tops, roots }
    }

    pub(crate) fn children(&self, index: usize) -> &[usize] {
        self.children.get(index).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn parent(&self, index: usize) -> Option<usize> {
        self.parents.get(index).copied().flatten()
    }

    pub(crate) fn index_of(&self, span_id: &str) -> Option<usize> {
        self.spans.iter().position(|span| span.span_id == span_id)
    }

    /// Whether the span's id identifies it. If several spans have the same id, it identifies the first.
    pub(crate) fn is_first_with_id(&self, index: usize) -> bool {
        let Some(span) = self.spans.get(index) else { return false };
        !is_empty_id(&span.span_id) && self.index_of(&span.span_id) == Some(index)
    }

    /// Returns the ids with which the spans can be read. Omits ids that name no span, and ids of a span that is not
    /// among the first with its id, because only a limited number of spans is read per id.
    pub(crate) fn readable_ids(&self, indexes: impl Iterator<Item = usize>) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for index in indexes {
            let Some(span) = self.spans.get(index) else { continue };
            let id = span.span_id.as_str();
            let before = self.spans.iter().take(index).filter(|span| span.span_id == id).count();
            if !is_empty_id(id) && before < MAX_SPANS_PER_ID && !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Returns the path from the root to the span, and the number of spans omitted after the root. If the path is
    /// longer than `max_spans`, contains the root and the innermost spans; with the note about the omitted ones these make
    /// `max_spans` entries.
    pub(crate) fn path(&self, index: usize, max_spans: usize) -> (Vec<usize>, usize) {
        let (top, length) = self.tops.get(index).copied().flatten().unwrap_or((index, 1));
        let innermost = if length > max_spans { max_spans.saturating_sub(2) } else { length };
        let upwards = std::iter::successors(Some(index), |index| self.parent(*index));
        let mut path: Vec<usize> = upwards.take(innermost).collect();
        if length > max_spans {
            path.push(top);
        }
        path.reverse();
        let left_out = length.saturating_sub(path.len());
        (path, left_out)
    }

    /// Returns the earliest start, in nanoseconds since 1970; 0 without spans.
    pub(crate) fn start(&self) -> i64 {
        self.spans.first().map_or(0, |span| span.start.as_nanos())
    }

    /// Returns the time from the earliest start to the latest end, in nanoseconds.
    pub(crate) fn duration(&self) -> i64 {
        let end = (0..self.spans.len()).map(|index| self.interval(index).1).max();
        end.map_or(0, |end| end.saturating_sub(self.start()))
    }

    /// Returns start and end of a span, in nanoseconds since 1970.
    pub(crate) fn interval(&self, index: usize) -> (i64, i64) {
        self.spans.get(index).map_or((0, 0), |span| {
            let start = span.start.as_nanos();
            (start, start.saturating_add(duration(span)))
        })
    }

    /// Groups spans by kind of work, in the order of the first span of each kind.
    pub(crate) fn by_kind(&self, indexes: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut groups: IndexMap<(String, String), Vec<usize>> = IndexMap::new();
        for index in indexes {
            if let Some(span) = self.spans.get(index) {
                groups.entry(kind(span)).or_default().push(index);
            }
        }
        groups.into_values().collect()
    }

    /// Returns the spans in an order in which each parent precedes its children.
    pub(crate) fn preorder(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.spans.len());
        let mut open: Vec<usize> = self.roots.iter().rev().copied().collect();
        while let Some(index) = open.pop() {
            order.push(index);
            open.extend(self.children(index).iter().rev());
        }
        order
    }

    /// Returns the self time of each span: the time in which none of its children ran, in nanoseconds.
    pub(crate) fn own_times(&self) -> Vec<i64> {
        let own_time = |index: usize| {
            let (start, end) = self.interval(index);
            let (mut own, mut until) = (end.saturating_sub(start), start);
            // Children are ordered by start.
            for child in self.children(index) {
                let (from, to) = self.interval(*child);
                let (from, to) = (from.max(until), to.min(end));
                if to > from {
                    own = own.saturating_sub(to.saturating_sub(from));
                    until = to;
                }
            }
            own
        };
        (0..self.spans.len()).map(own_time).collect()
    }
}

/// Whether an id names no span. Exporters write an absent id as empty text, or as zeros of various widths, with or
/// without hyphens.
fn is_empty_id(id: &str) -> bool {
    id.chars().all(|character| matches!(character, '0' | '\0' | '-') || character.is_whitespace())
}

/// Returns the duration in nanoseconds; 0 if it is unknown.
pub(crate) fn duration(span: &SpanSummary) -> i64 {
    span.duration_nanos.unwrap_or(0).max(0)
}

/// Returns the kind of work of a span: its service and its name, with numbers and ids removed, so that `GET /users/17`
/// and `GET /users/18` are the same kind.
pub(crate) fn kind(span: &SpanSummary) -> (String, String) {
    (span.service.clone().unwrap_or_default(), without_numbers(span.name.as_deref().unwrap_or_default()))
}

/// Replaces each word that contains a digit by `#`, unless it is short and begins with a letter, like versions and
/// names such as `http2`.
pub(crate) fn without_numbers(name: &str) -> String {
    let is_separator = |character: char| !character.is_alphanumeric();
    let mut plain = String::with_capacity(name.len());
    for part in name.split_inclusive(is_separator) {
        let word = part.trim_end_matches(is_separator);
        let has_digits = word.contains(|character: char| character.is_ascii_digit());
        let is_name = word.len() <= 6 && word.starts_with(char::is_alphabetic);
        plain.push_str(if has_digits && !is_name { "#" } else { word });
        plain.push_str(part.strip_prefix(word).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::{span, spans};

    #[test]
    fn every_span_is_reached_once() {
        for (text, roots) in [
            ("", 0),
            ("a", 1),
            ("a b<a c<b", 1),
            // A missing parent, a span that is its own parent, a cycle of two with a child, a duplicate id.
            ("a b<z", 2),
            ("a<a", 1),
            ("a<b b<a c<b", 1),
            ("a b<c c<d d<b e<d", 2),
            ("a a b<a", 2),
            ("a<a a<a b<a", 2),
            // Ids that name no span: none of these is a parent.
            ("0 a b<0 c<a", 3),
            ("0000<a a b<0000 c<0000-00", 3),
            // Children that precede the cycle that they belong to.
            ("l1<a l2<a l3<a a<b b<a", 1),
        ] {
            let tree = Tree::new(spans(text));
            assert_eq!(tree.roots.len(), roots, "{text}");
            let mut seen = tree.preorder();
            assert!(seen.iter().all(|index| tree.parent(*index).is_none_or(|parent| {
                seen.iter().position(|other| *other == parent) < seen.iter().position(|other| other == index)
            })));
            seen.sort_unstable();
            assert_eq!(seen, (0..tree.spans.len()).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn a_span_without_an_id_has_no_children() {
        let stray = span("", String::new(), 0, 10);
        let (root, child) = (span("a", String::new(), 1, 10), span("b", "a".to_owned(), 2, 3));
        for id in ["", "0000000000000000", "\0\0\0\0\0\0\0\0", " "] {
            let stray = SpanSummary { span_id: id.to_owned(), ..stray.clone() };
            let tree = Tree::new(vec![stray, root.clone(), child.clone()]);
            assert_eq!(
                (tree.roots.as_slice(), tree.children(0), tree.children(1)),
                (&[0, 1][..], &[][..], &[2][..])
            );
        }
    }

    #[test]
    fn ids_are_listed_only_if_they_identify_the_span() {
        let tree = Tree::new(spans("a b<a  a c<a a a a"));
        let of = |id: &str| -> Vec<usize> {
            (0..tree.spans.len()).filter(|index| tree.spans[*index].span_id == id).collect()
        };
        let all = of("a");
        assert_eq!(all.len(), 5);
        assert!(
            tree.is_first_with_id(all[0]) && !tree.is_first_with_id(all[1]) && !tree.is_first_with_id(99)
        );
        assert_eq!(tree.readable_ids([all[1], of("b")[0], all[0]].into_iter()), ["a", "b"]);
        // Only four spans are read per id, and this is the fifth.
        assert_eq!(tree.readable_ids([all[4], of("c")[0]].into_iter()), ["c"]);
        for id in ["", "0000000000000000"] {
            let tree = Tree::new(vec![span(id, String::new(), 0, 10)]);
            assert!(!tree.is_first_with_id(0) && tree.readable_ids([0].into_iter()).is_empty());
        }
    }

    #[test]
    fn a_chain_of_100000_spans_does_not_overflow_the_stack() {
        let id = |at: usize| format!("{:016x}", at + 1);
        let chain = (0..100_000)
            .map(|at| span(&id(at), if at == 0 { String::new() } else { id(at - 1) }, at as i64, 1));
        let tree = Tree::new(chain.collect());
        assert_eq!(tree.preorder().len(), 100_000);
        // Each path is as short as requested, and computing all of them takes time only for these.
        let all = (0..100_000).map(|index| tree.path(index, 8)).filter(|(_, left_out)| *left_out > 0).count();
        assert_eq!(all, 100_000 - 8);
        assert_eq!(tree.path(99_999, 4), (vec![0, 99_998, 99_999], 99_997));
        assert_eq!(tree.path(3, 4), (vec![0, 1, 2, 3], 0));
        assert_eq!(tree.path(4, 4), (vec![0, 3, 4], 2));
    }

    #[test]
    fn own_time_is_not_covered_by_children() {
        let check = |children: &[(i64, i64)], own: i64| {
            let mut all = vec![span("p", String::new(), 100, 100)];
            all.extend(children.iter().map(|(start, length)| span("c", "p".to_owned(), *start, *length)));
            assert_eq!(Tree::new(all).own_times()[0], own, "{children:?}");
        };
        check(&[], 100);
        check(&[(110, 10), (150, 20)], 70);
        check(&[(110, 30), (120, 30)], 60);
        check(&[(110, 80), (120, 10)], 20);
        check(&[(150, 1_000)], 50);
        check(&[(50, 20)], 100);
    }

    #[test]
    fn numbers_and_ids_do_not_separate_kinds() {
        let check = |name: &str, kind: &str| assert_eq!(without_numbers(name), kind);
        check("GET /users/17/orders/9f86d081-884c", "GET /users/#/orders/#-#");
        check("GET /api/v1/items", "GET /api/v1/items");
        check("SELECT shop.orders_2024", "SELECT shop.orders_#");
        check("", "");
    }
}
