//! Computes the critical path: the parts of spans that determined the duration of a trace.

use std::cmp::Reverse;

use itertools::Itertools as _;

use super::tree::Tree;

/// A part of a span on the path, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathSegment {
    pub(crate) span: usize,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Computes the path backwards from the end of the trace. A span is on the path while it does not wait for a child.
/// Before the end of the child that ended last, the path continues in that child until its start. Times outside the
/// parent do not count. The result is ordered by time.
pub(crate) fn critical_path(tree: &Tree) -> Vec<PathSegment> {
    let mut segments = Vec::new();
    let end = tree.roots.iter().map(|root| tree.interval(*root).1).max().unwrap_or(0);
    // Spans to process, with the time range in which they may be on the path.
    let mut open = waited_children(tree, None, &tree.roots, (i64::MIN, end), &mut segments);
    while let Some((span, from, to)) = open.pop() {
        open.extend(waited_children(tree, Some(span), tree.children(span), (from, to), &mut segments));
    }
    segments.sort_by_key(|segment: &PathSegment| (segment.from, segment.to, segment.span));
    segments
}

/// Returns the children that a span waited for, with the times. The remaining time belongs to the span itself.
fn waited_children(
    tree: &Tree,
    span: Option<usize>,
    children: &[usize],
    (from, to): (i64, i64),
    segments: &mut Vec<PathSegment>,
) -> Vec<(usize, i64, i64)> {
    let clipped = |child: &usize| {
        let (start, end) = tree.interval(*child);
        (start < to && end > from).then_some((*child, start.max(from), end.min(to)))
    };
    let last_first =
        children.iter().filter_map(clipped).sorted_by_key(|(_, start, end)| (Reverse(*end), *start));
    let mut time = to;
    let mut own = |begin: i64, end: i64| {
        if let Some(span) = span.filter(|_| end > begin) {
            segments.push(PathSegment { span, from: begin, to: end });
        }
    };
    let mut waited = Vec::new();
    for (child, start, end) in last_first {
        if end <= time && time > from {
            own(end, time);
            waited.push((child, start, end));
            time = start;
        }
    }
    own(from, time);
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::spans;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let tree = Tree::new(spans(text));
        let found: Vec<String> = critical_path(&tree)
            .iter()
            .map(|segment| format!("{}:{}-{}", tree.spans[segment.span].span_id, segment.from, segment.to))
            .collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn the_path_follows_the_spans_that_were_waited_for() {
        check("", "");
        check("a@0+100", "a:0-100");
        check("a@0+100 b<a@10+20 c<a@40+50", "a:0-10 b:10-30 a:30-40 c:40-90 a:90-100");
        // If two run at the same time, the one that ended last counts.
        check("a@0+100 b<a@10+50 c<a@20+70", "a:0-20 c:20-90 a:90-100");
        // Time of a child before or after its parent does not count.
        check("a@0+100 b<a@50+500", "a:0-50 b:50-100");
        check("a@10+90 b<a@0+50", "b:10-50 a:50-100");
        // Several root spans, with a gap.
        check("a@0+10 b@20+10", "a:0-10 b:20-30");
        check("a@0+100 b<a@10+80 c<b@20+10", "a:0-10 b:10-20 c:20-30 b:30-90 a:90-100");
    }
}
