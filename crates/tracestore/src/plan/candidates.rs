//! Finds the traces that satisfy the rarest predicate and decides them by id in batches, latest end first.

use std::collections::BTreeSet;

use super::crossing::IndexSize;
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

impl Search<'_> {
    /// Fills the page if few enough traces satisfy the predicate. Otherwise returns `false` and leaves the page unchanged.
    pub(crate) async fn by_candidates(
        &self,
        demand: RequiredPredicate,
        index_size: IndexSize,
        page: &mut Page,
    ) -> Result<bool, StoreError> {
        let rows: Vec<(String, u8)> = self.rows(self.candidates_statement(demand)?).await?;
        if rows.len() > self.tuning.candidates {
            return Ok(false);
        }
        let mut traces: BTreeSet<String> =
            rows.into_iter().filter(|row| row.1 == 1).map(|row| row.0).collect();
        let bounds = match self.index {
            None => self.default_bounds(),
            Some(_) => {
                let Some(crossing) = self.crossing(Some(demand), index_size, traces.len()).await? else {
                    self.by_grouping(self.after.as_ref(), page).await?;
                    return Ok(true);
                };
                traces.extend(crossing.lacking);
                let asked = traces.iter().filter(|trace| !crossing.bounds.knows(trace)).cloned().collect();
                let mut bounds = self.trace_bounds(asked).await?;
                bounds.extend(crossing.bounds);
                traces.extend(crossing.traces);
                bounds
            }
        };
        self.in_waves(traces.into_iter().collect(), &bounds, page).await?;
        self.report(self.window.from().as_nanos(), page.len());
        Ok(true)
    }

    /// Traces with a span in the window that satisfies the predicate. Without a trace index, the range also covers
    /// `max_trace_duration` around the window.
    fn candidates_statement(&self, demand: RequiredPredicate) -> Result<Statement, StoreError> {
        let mut statement = self.table.statement();
        let satisfied = self.demands.satisfied(demand, self.table, &mut statement)?;
        let range = match self.index {
            Some(_) => self.inside(&mut statement),
            None => self.range(self.default, &mut statement),
        };
        let trace = statement.own("trace");
        // `DISTINCT` streams ids and `LIMIT` stops it early; `GROUP BY` would not. Ids are validated in the outer query: an
        // inner condition would read the id of every span.
        statement.push(&format!(
            "SELECT {trace}, toUInt8({is_trace}) \
             FROM (SELECT DISTINCT {id} AS {trace} FROM {name} WHERE {range} AND {satisfied} LIMIT {limit})",
            is_trace = Self::is_trace(&trace),
            id = self.table.trace_id,
            name = self.table.name,
            limit = self.tuning.candidates.saturating_add(1),
        ));
        Ok(statement)
    }

    /// Decides traces in batches until the page is full. Traces that end last go first: no trace is ordered by a time after its
    /// end.
    async fn in_waves(
        &self,
        mut traces: Vec<String>,
        bounds: &TraceBounds,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        let last = |trace: &String| bounds.of(trace).map_or(i64::MAX, |(_, to)| to);
        traces.sort_by_cached_key(|trace| std::cmp::Reverse(last(trace)));
        let mut size = self.wanted.saturating_mul(2).max(self.tuning.wave);
        let mut rest = traces.as_slice();
        for wave in 0..=WAVES {
            let Some(next) = rest.first() else { break };
            let ends = self.ticks_from(last(next).min(self.window.to().as_nanos()));
            let position = Position { tier: 1, key: ends.saturating_sub(1), trace_id: String::new() };
            if page.len_through(&position) >= self.wanted {
                break;
            }
            let (now, later) = rest.split_at(if wave < WAVES { size.min(rest.len()) } else { rest.len() });
            self.decide(now, bounds, page).await?;
            rest = later;
            size = size.saturating_mul(GROWTH);
        }
        Ok(())
    }
}
