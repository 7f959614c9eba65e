//! Decides candidates of a step: from the step's own rows if those cover all considered spans, otherwise by id.

use std::collections::HashSet;

use serde::Deserialize;

use super::grouping::matching_traces;
use super::page::{MatchingTrace, Page};
use super::search::Search;
use super::trace_bounds::{TraceBounds, read_trace_bounds};
use super::trace_set::BoundedTraces;
use crate::ClickHouseError;
use crate::client::flag;
use crate::search::selection::Position;

/// Maximum statements to settle candidates: their bounds and the decision by id.
pub(crate) const RESOLVE_STATEMENTS: usize = 2;

/// Crossing traces, decided.
#[derive(Debug, Default)]
pub(crate) struct DecidedTraces {
    /// All that were decided.
    pub(crate) traces: HashSet<String>,
    /// Those that belong to the answer.
    pub(crate) matching: Vec<MatchingTrace>,
    /// Still to be decided.
    pub(crate) pending: Vec<String>,
}

/// A trace returned by a step, as a row of its statement.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) trace: String,
    /// Its newest ordering span, in ticks.
    pub(crate) newest: i64,
    /// The oldest and the latest of its spans that satisfy any predicate, in ticks.
    pub(crate) oldest: i64,
    pub(crate) latest: i64,
    /// The number of its ordering spans.
    pub(crate) spans: u64,
    /// Whether its spans satisfy all predicates.
    #[serde(deserialize_with = "flag")]
    pub(crate) satisfies_all: bool,
}

impl Candidate {
    /// Returns its position in the order, if it matches and is on no earlier page.
    pub(crate) fn position(&self) -> Position {
        Position { tier: 1, key: self.newest, trace_id: self.trace.clone() }
    }
}

/// Adds those of the decided traces that match, then matching candidates until the page is full, then matching traces
/// that the index lacks. Returns the position if it stopped early: after `enough` candidates that satisfy all predicates,
/// or, without a trace index, when too many must be decided by id.
pub(crate) async fn resolve_candidates(
    search: &Search<'_>,
    candidates: &[Candidate],
    enough: usize,
    decided: &DecidedTraces,
    page: &mut Page,
) -> Result<Option<Position>, ClickHouseError> {
    let most = match search.index {
        Some(_) => usize::MAX,
        None => search.wanted.saturating_mul(search.options.undecided_per_result).max(1),
    };
    let satisfying = candidates.iter().enumerate().filter(|(_, candidate)| candidate.satisfies_all);
    let end = satisfying.map(|(at, _)| at + 1).nth(enough);
    let (candidates, further) = candidates.split_at(end.unwrap_or(candidates.len()));
    page.extend(decided.matching.iter().cloned());
    let remaining = || candidates.iter().filter(|candidate| !decided.traces.contains(&candidate.trace));
    let traces = remaining().map(|candidate| &candidate.trace).chain(&decided.pending);
    let bounds = read_trace_bounds(search, traces.cloned().collect()).await?;
    let (mut undecided, mut last, mut is_full) = (Vec::new(), None, false);
    for candidate in remaining() {
        let is_certain = is_certain(search, candidate, &bounds);
        if !is_certain && undecided.len() == most {
            page.extend(matching_traces(search, BoundedTraces::new(&undecided, &bounds)).await?);
            return Ok(last);
        }
        let position = candidate.position();
        match is_certain {
            true => page.insert(MatchingTrace { position: position.clone(), spans: candidate.spans }),
            false => undecided.push(candidate.trace.clone()),
        }
        is_full = page.count_up_to(&position) >= search.wanted;
        if is_full {
            break;
        }
        last = Some(position);
    }
    if !is_full && further.is_empty() {
        undecided.extend(decided.pending.iter().cloned());
        undecided.sort_unstable();
        undecided.dedup();
        undecided.retain(|trace| !page.contains(trace) && !decided.traces.contains(trace));
    }
    page.extend(matching_traces(search, BoundedTraces::new(&undecided, &bounds)).await?);
    Ok(last.filter(|_| !is_full && !further.is_empty()))
}

/// Whether the step alone decides the candidate: it satisfies all predicates with spans inside its bounds, and no newer
/// span can put it on an earlier page.
fn is_certain(search: &Search<'_>, candidate: &Candidate, bounds: &TraceBounds) -> bool {
    let is_on_earlier_page = || {
        let end = bounds.get(&candidate.trace).map(|(_, end)| end);
        search.after.as_ref().is_some_and(|after| end.is_none_or(|end| end > search.nanos(after.key)))
    };
    candidate.satisfies_all
        && bounds.contain_range(
            &candidate.trace,
            search.nanos(candidate.oldest),
            search.nanos(candidate.latest),
        )
        && !is_on_earlier_page()
}
