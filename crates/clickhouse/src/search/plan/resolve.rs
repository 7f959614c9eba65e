//! Decides candidates: by their merged partial results where these suffice, otherwise by id.

use std::collections::HashSet;

use super::candidates::Candidate;
use super::grouping::matching_traces;
use super::page::{MatchingTrace, Page};
use super::required_predicates::EXCLUSION_BIT;
use super::search::Search;
use super::trace_bounds::{TraceBounds, read_trace_bounds};
use super::trace_set::BoundedTraces;
use crate::Result;
use crate::search::selection::Position;

/// Maximum statements to resolve candidates: one for their bounds, one to decide by id.
pub(crate) const RESOLVE_STATEMENTS: usize = 2;

/// What the partial result of a candidate decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Matches,
    Rejected,
    /// Considered spans were not read, or spans outside of the trace bounds were: a grouped pass over this trace decides.
    ById,
}

/// How many of the candidates were decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolution {
    Complete,
    /// Up to this position. There were enough provisional matches, or, without a trace index, too many to decide by id.
    UpTo(Position),
    /// No position was decided: the first candidates already exceed the decisions by id.
    Undecided,
}

/// Decides the candidates in order and adds those that match to the page, until it is full or `enough` provisional matches were
/// decided. `read` is the range in nanoseconds, its end exclusive, of which every span that satisfies a predicate or an exclusion was
/// read; `(0, 0)` if rows are missing. Also decides the traces in `long`.
pub(crate) async fn resolve_candidates(
    search: &Search<'_>,
    candidates: &[Candidate],
    read: (i64, i64),
    enough: usize,
    long: &TraceBounds,
    page: &mut Page,
) -> Result<Resolution> {
    let most = match search.index {
        Some(_) => usize::MAX,
        None => search.wanted.saturating_mul(search.options.undecided_per_result).max(1),
    };
    let expected =
        candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_provisional_match(search));
    let end = expected.map(|(at, _)| at + 1).nth(enough);
    let (candidates, further) = candidates.split_at(end.unwrap_or(candidates.len()));
    let traces = candidates.iter().map(|candidate| candidate.trace.clone()).collect();
    let mut bounds = read_trace_bounds(search, traces).await?;
    let (mut undecided, mut last, mut is_full) = (Vec::new(), None, false);
    for candidate in candidates {
        match (decide(search, candidate, read, &bounds), candidate.position()) {
            (Decision::Rejected, _) => {}
            (Decision::Matches, Some(position)) => {
                page.insert(MatchingTrace { position, spans: candidate.ordering_spans });
            }
            (_, position) if undecided.len() == most => {
                let undecided = BoundedTraces { traces: &undecided, bounds: &bounds };
                page.extend(matching_traces(search, undecided).await?);
                // Those without an ordering span in the window come after all others.
                let last = if position.is_none() { Some(Position::last_of_window()) } else { last };
                return Ok(last.map_or(Resolution::Undecided, Resolution::UpTo));
            }
            _ => undecided.push(candidate.trace.clone()),
        }
        let Some(position) = candidate.position() else { continue };
        is_full = page.count_up_to(&position) >= search.wanted;
        if is_full {
            break;
        }
        last = Some(position);
    }
    // Long traces can have any position.
    let known: HashSet<&String> = candidates.iter().map(|candidate| &candidate.trace).collect();
    undecided.extend(long.traces().filter(|trace| !known.contains(trace)).cloned());
    bounds.extend(long);
    let undecided = BoundedTraces { traces: &undecided, bounds: &bounds };
    page.extend(matching_traces(search, undecided).await?);
    if is_full || further.is_empty() {
        return Ok(Resolution::Complete);
    }
    Ok(last.map_or(Resolution::Undecided, Resolution::UpTo))
}

/// Decides a candidate. It matches only if every span that was read is within the trace bounds, so that no other span grants access,
/// and no span that was not read can exclude it. Without a predicate it is rejected only if all considered spans were read.
fn decide(search: &Search<'_>, candidate: &Candidate, read: (i64, i64), bounds: &TraceBounds) -> Decision {
    let (trace, all) = (&candidate.trace, search.required_predicates.required_bits());
    let bounds_of_trace = bounds.get(trace);
    // Every span that counts was read.
    let is_read = bounds_of_trace.is_some_and(|(from, to)| read.0 <= from && to <= read.1);
    // Every span that was read counts.
    let counts =
        || bounds.contain_range(trace, search.nanos(candidate.oldest), search.nanos(candidate.newest));
    let is_outside = bounds_of_trace.is_some_and(|(from, to)| {
        to <= search.window.from().as_nanos() || search.window.to().as_nanos() <= from
    });
    let satisfies_all = candidate.predicate_bits & all == all;
    let is_excluded = candidate.predicate_bits & EXCLUSION_BIT != 0;
    // A newer span can put it on an earlier page.
    let may_be_on_earlier_page = || {
        let end = bounds_of_trace.map(|(_, end)| end);
        search.after.as_ref().is_some_and(|after| end.is_none_or(|end| end > search.nanos(after.key)))
    };
    if is_outside || is_read && !satisfies_all || is_read && is_excluded && counts() {
        return Decision::Rejected;
    }
    let no_exclusion = is_read && !is_excluded || !search.required_predicates.has_exclusions();
    if satisfies_all && no_exclusion && candidate.order_key.is_some() && counts() && !may_be_on_earlier_page()
    {
        return Decision::Matches;
    }
    Decision::ById
}
