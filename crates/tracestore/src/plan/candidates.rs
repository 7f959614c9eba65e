//! Finds the traces that satisfy a rare predicate and decides them by id in batches, latest end first.

use std::collections::BTreeSet;

use futures::future::join;

use super::crossing::{Crossed, IndexSize};
use super::decide::BoundedTraces;
use super::demands::RequiredPredicate;
use super::found::Page;
use super::search::Search;
use super::trace_bounds::TraceBounds;
use crate::StoreError;
use crate::select::Position;
use crate::sql::Statement;

/// Batches before the last, which takes all remaining traces; each is this many times larger than the one before.
const WAVES: u32 = 2;
const GROWTH: usize = 16;

/// The predicates by which candidates are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rare {
    /// The candidates are the traces that satisfy all of these predicates, except predicates with too many traces. The number of
    /// granules does not tell the number of traces: a predicate that follows the sorting key matches few granules and fills them.
    pub(crate) read: Vec<RequiredPredicate>,
    /// They exclude candidates before these are decided.
    pub(crate) narrow: Vec<RequiredPredicate>,
}

/// The traces of rare predicates.
struct RareTraces {
    traces: BTreeSet<String>,
    /// Other required predicates that an index serves.
    narrow: Vec<RequiredPredicate>,
}

impl Search<'_> {
    /// Fills the page if few enough traces satisfy one of the predicates. Otherwise returns `false` and leaves the page
    /// unchanged.
    pub(crate) async fn by_candidates(
        &self,
        rare: &Rare,
        index_size: IndexSize,
        page: &mut Page,
    ) -> Result<bool, StoreError> {
        let Some(RareTraces { mut traces, narrow }) = self.rare_traces(rare).await? else {
            return Ok(false);
        };
        let mut bounds = self.default_bounds();
        if self.index.is_some() {
            let of_candidates = self.trace_bounds(traces.iter().cloned().collect());
            let (of_candidates, far) = join(of_candidates, self.crossing(Crossed::Far, index_size)).await;
            let Some(far) = far? else {
                self.by_grouping(self.after.as_ref(), page).await?;
                return Ok(true);
            };
            bounds = of_candidates?;
            bounds.extend(far.bounds);
            traces.extend(far.traces);
        }
        let traces = traces.into_iter().collect();
        self.in_waves(traces, &bounds, &narrow, page).await?;
        self.report(self.window.from().as_nanos(), page.len());
        Ok(true)
    }

    /// Returns the traces that satisfy every predicate with few enough traces; `None` if each has too many.
    async fn rare_traces(&self, rare: &Rare) -> Result<Option<RareTraces>, StoreError> {
        let rows: Vec<(u8, String, u8)> = self.rows(self.candidates_statement(rare)?).await?;
        let (mut traces, mut narrow): (Option<BTreeSet<String>>, _) = (None, rare.narrow.clone());
        for (number, predicate) in (0..).zip(&rare.read) {
            let of_it = || rows.iter().filter(|row| row.0 == number);
            if of_it().count() > self.options.candidates {
                continue;
            }
            narrow.retain(|other| other != predicate);
            let valid: BTreeSet<String> = of_it()
                .filter(|(_, _, is_trace)| *is_trace == 1)
                .map(|(_, trace, _)| trace.clone())
                .collect();
            traces = Some(match traces {
                None => valid,
                Some(mut traces) => {
                    traces.retain(|trace| valid.contains(trace));
                    traces
                }
            });
        }
        Ok(traces.map(|traces| RareTraces { traces, narrow }))
    }

    /// Returns the statement for traces with a span that satisfies a predicate, for each predicate: in the window and
    /// `max_trace_duration` around it, where traces that the trace index lacks can have spans.
    fn candidates_statement(&self, rare: &Rare) -> Result<Statement, StoreError> {
        let mut statement = self.table.statement();
        let trace = statement.own("trace");
        let mut branches = Vec::new();
        for (number, demand) in rare.read.iter().enumerate() {
            let satisfied = self.demands.satisfied(*demand, self.table, &mut statement)?;
            let range = self.range(self.default, &mut statement);
            // `DISTINCT` streams ids and `LIMIT` stops it early; `GROUP BY` would not. Ids are validated in the outer query: an
            // inner condition would read the id of every span.
            branches.push(format!(
                "SELECT toUInt8({number}), {trace}, toUInt8({is_trace}) \
                 FROM (SELECT DISTINCT {id} AS {trace} FROM {name} WHERE {range} AND {satisfied} LIMIT {limit})",
                is_trace = Self::is_trace(&trace),
                id = self.table.trace_id,
                name = self.table.name,
                limit = self.options.candidates.saturating_add(1),
            ));
        }
        statement.push(&branches.join(" UNION ALL "));
        Ok(statement)
    }

    /// Decides traces in batches until the page is full. Traces that end last go first: a trace is never ordered by a time
    /// after its end.
    async fn in_waves(
        &self,
        mut traces: Vec<String>,
        bounds: &TraceBounds,
        narrow: &[RequiredPredicate],
        page: &mut Page,
    ) -> Result<(), StoreError> {
        let last = |trace: &String| bounds.of(trace).map_or(i64::MAX, |(_, to)| to);
        traces.sort_by_cached_key(|trace| std::cmp::Reverse(last(trace)));
        let mut size = self.wanted.saturating_mul(2).max(self.options.wave);
        let mut rest = traces.as_slice();
        for wave in 0..=WAVES {
            let Some(next) = rest.first() else { break };
            let ends = self.ticks_from(last(next).min(self.window.to().as_nanos()));
            let position = Position { tier: 1, key: ends.saturating_sub(1), trace_id: String::new() };
            if page.len_through(&position) >= self.wanted {
                break;
            }
            let (now, later) = rest.split_at(if wave < WAVES { size.min(rest.len()) } else { rest.len() });
            page.extend(self.matching(BoundedTraces { traces: now, bounds, narrow }).await?);
            rest = later;
            size = size.saturating_mul(GROWTH);
        }
        Ok(())
    }
}
