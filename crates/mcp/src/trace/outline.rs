//! Outline of a trace: siblings of a kind share a line, and if there are too many lines, the most relevant ones are
//! selected.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use itertools::Itertools as _;

use super::tree::{Tree, duration, without_numbers};

/// Minimum number of siblings of a kind that share a line.
const FOLDED_FROM: usize = 3;

/// One line: a span, or siblings of a kind.
#[derive(Debug)]
pub(crate) struct Line {
    /// Levels below the root spans.
    pub(crate) depth: usize,
    /// Representative span: the slowest that failed, otherwise the slowest.
    pub(crate) span: usize,
    /// Number of spans.
    pub(crate) count: usize,
    /// Number of failed spans among them.
    pub(crate) errors: usize,
    /// Earliest start, in nanoseconds since 1970.
    pub(crate) start: i64,
    /// Median duration in nanoseconds; then the 95th percentile and the maximum.
    pub(crate) median: i64,
    pub(crate) p95: i64,
    pub(crate) longest: i64,
    /// Whether the duration of any of them is negative or not a number of nanoseconds, which counts as 0.
    pub(crate) duration_invalid: bool,
    /// Their name, with differing parts replaced by `#`.
    pub(crate) name: String,
    /// Number of descendants of these spans; then the number of failed ones.
    pub(crate) below: usize,
    pub(crate) errors_below: usize,
    children: Vec<usize>,
}

/// All lines of a trace, each before its descendants.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) lines: Vec<Line>,
    /// Duration of the trace in nanoseconds.
    duration: i64,
}

/// A selected line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownLine {
    pub(crate) line: usize,
    /// Number of its descendants that no line shows.
    pub(crate) hidden: usize,
}

impl Outline {
    /// Creates the outline of a whole trace, or of one span and its descendants.
    pub(crate) fn new(tree: &Tree, root: Option<usize>) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        let tops = root.map_or_else(|| tree.roots.clone(), |root| vec![root]);
        // Groups of spans with their parent line, if any, and depth.
        let mut open: Vec<(Option<usize>, usize, Vec<usize>)> =
            group_siblings(tree, &tops).into_iter().rev().map(|group| (None, 0, group)).collect();
        while let Some((parent, depth, group)) = open.pop() {
            let index = lines.len();
            if let Some(parent) = parent.and_then(|parent| lines.get_mut(parent)) {
                parent.children.push(index);
            }
            let mut below: Vec<usize> = group.iter().flat_map(|span| tree.children(*span)).copied().collect();
            below.sort_unstable();
            open.extend(
                group_siblings(tree, &below).into_iter().rev().map(|group| (Some(index), depth + 1, group)),
            );
            lines.push(line(tree, depth, &group));
        }
        // A line precedes its descendants, so when iterating backwards these are already counted.
        for index in (0..lines.len()).rev() {
            let children = lines.get(index).map(|line| line.children.clone()).unwrap_or_default();
            let (mut below, mut errors) = (0, 0);
            for child in children.iter().filter_map(|child| lines.get(*child)) {
                below += child.count + child.below;
                errors += child.errors + child.errors_below;
            }
            if let Some(line) = lines.get_mut(index) {
                (line.below, line.errors_below) = (below, errors);
            }
        }
        Self { lines, duration: tree.duration().max(1) }
    }

    /// Returns all lines up to this depth.
    pub(crate) fn down_to(&self, depth: usize) -> Vec<ShownLine> {
        self.with_hidden(self.lines.iter().positions(|line| line.depth <= depth).collect())
    }

    /// Returns the `count` most relevant lines, each with all its ancestors: failed lines and ancestors of these
    /// first, then the longest.
    pub(crate) fn most_relevant(&self, count: usize) -> Vec<ShownLine> {
        let tops = self.lines.iter().positions(|line| line.depth == 0);
        let mut open: BinaryHeap<Relevance> = tops.filter_map(|index| self.relevance(index)).collect();
        let mut chosen = Vec::new();
        while chosen.len() < count
            && let Some((_, _, Reverse(index))) = open.pop()
        {
            chosen.push(index);
            let children = self.lines.get(index).into_iter().flat_map(|line| &line.children);
            open.extend(children.filter_map(|child| self.relevance(*child)));
        }
        chosen.sort_unstable();
        self.with_hidden(chosen)
    }

    fn relevance(&self, index: usize) -> Option<Relevance> {
        let line = self.lines.get(index)?;
        let failed = line.errors + line.errors_below > 0;
        Some((failed, line.longest.min(self.duration), Reverse(index)))
    }

    fn with_hidden(&self, chosen: Vec<usize>) -> Vec<ShownLine> {
        let is_shown = |index: &usize| chosen.binary_search(index).is_ok();
        let shown = chosen.iter().map(|index| {
            let children = self.lines.get(*index).into_iter().flat_map(|line| &line.children);
            let hidden = children.filter(|child| !is_shown(child)).filter_map(|child| self.lines.get(*child));
            ShownLine { line: *index, hidden: hidden.map(|line| line.count + line.below).sum() }
        });
        shown.collect()
    }
}

/// Whether the line or a descendant failed, its time within the duration of the trace, and its index.
type Relevance = (bool, i64, Reverse<usize>);

/// Groups spans by kind; kinds with few spans stay ungrouped. Ordered by earliest start.
fn group_siblings(tree: &Tree, spans: &[usize]) -> Vec<Vec<usize>> {
    let apart = |group: Vec<usize>| match group.len() {
        0..FOLDED_FROM => group.into_iter().map(|span| vec![span]).collect(),
        _ => vec![group],
    };
    let groups = tree.by_kind(spans.iter().copied()).into_iter().flat_map(apart);
    groups.sorted_by_key(|group| group.first().copied()).collect()
}

fn line(tree: &Tree, depth: usize, group: &[usize]) -> Line {
    let spans = || group.iter().filter_map(|index| Some((*index, tree.spans.get(*index)?)));
    let durations: Vec<i64> = spans().map(|(_, span)| duration(span)).sorted_unstable().collect();
    let representative = spans().max_by_key(|(index, span)| (span.error, duration(span), Reverse(*index)));
    let mut names = spans().map(|(_, span)| span.name.as_deref().unwrap_or_default());
    let first = names.next().unwrap_or_default();
    Line {
        depth,
        span: representative.map_or(0, |(index, _)| index),
        count: group.len(),
        errors: spans().filter(|(_, span)| span.error).count(),
        start: group.first().map_or(0, |index| tree.interval(*index).0),
        median: percentile(&durations, 50),
        p95: percentile(&durations, 95),
        longest: durations.last().copied().unwrap_or(0),
        duration_invalid: spans().any(|(_, span)| span.duration_invalid),
        name: if names.all(|name| name == first) { first.to_owned() } else { without_numbers(first) },
        below: 0,
        errors_below: 0,
        children: Vec::new(),
    }
}

/// Returns the smallest of the sorted values that at least this percentage of values does not exceed.
pub(crate) fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixtures::spans;

    fn text(outline: &Outline, tree: &Tree, shown: &[ShownLine]) -> String {
        let line = |shown: &ShownLine| {
            let line = &outline.lines[shown.line];
            let times = if line.count > 1 { format!("×{}", line.count) } else { String::new() };
            let failed = if line.errors > 0 { format!("!{}", line.errors) } else { String::new() };
            let hidden = if shown.hidden > 0 { format!(" (+{})", shown.hidden) } else { String::new() };
            let id = &tree.spans[line.span].span_id;
            format!("{}{}{times}{failed}[{id}]{hidden}", "-".repeat(line.depth), line.name)
        };
        shown.iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(given: &str, lines: Option<usize>, expected: &str) {
        let mut given = spans(given);
        // Ids are letters with a number; names are the letters.
        for span in &mut given {
            span.name = Some(span.span_id.trim_end_matches(|last: char| last.is_ascii_digit()).to_owned());
        }
        let tree = Tree::new(given);
        let outline = Outline::new(&tree, None);
        let shown = lines.map_or_else(|| outline.down_to(usize::MAX), |count| outline.most_relevant(count));
        assert_eq!(text(&outline, &tree, &shown), expected);
    }

    #[test]
    fn siblings_of_a_kind_are_folded() {
        check("a b1<a b2<a", None, "a[a] -b[b1] -b[b2]");
        check("a b1<a b2<a+50 c<a b3<a", None, "a[a] -b×3[b2] -c[c]");
        // Their children share lines across parents, and a failed one is the representative.
        check("a b1<a b2<a b3<a q1<b1 q2<b2! q3<b3+99", None, "a[a] -b×3[b1] --q×3!1[q2]");
        check("", None, "");
    }

    #[test]
    fn short_outlines_keep_the_most_relevant_lines() {
        let given = "a+100 b<a+90 c<b+80 d<a+5 e<d! f<a+4";
        check(given, Some(6), "a[a] -b[b] --c[c] -d[d] --e!1[e] -f[f]");
        check(given, Some(3), "a[a] (+3) -d[d] --e!1[e]");
        check(given, Some(1), "a[a] (+5)");
        check(given, Some(0), "");
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        assert_eq!((percentile(&[], 50), percentile(&[7], 95), percentile(&[1, 2], 50)), (0, 7, 1));
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 95)), (50, 95));
    }
}
