//! Candidates first: where one demand is rarely satisfied, the traces that satisfy it, wherever in the order they stand,
//! then what else they must show.

use super::demands::Demand;
use super::found::Page;
use super::search::{Search, Span};
use crate::StoreError;

impl Search<'_> {
    /// Where spans count of a trace of which nothing is known yet.
    pub(crate) fn anywhere(&self) -> Span {
        // The trace index may know of spans at any time.
        if self.index.is_some() { None } else { self.default }
    }

    /// The whole answer, if the traces that satisfy a demand are few enough; `false`, and nothing found, when they are not.
    pub(crate) async fn candidates(&self, demand: Demand, page: &mut Page) -> Result<bool, StoreError> {
        let most = self.tuning.candidates;
        let Some(traces) = self.showing_anywhere(demand, self.anywhere(), false, most).await? else {
            return Ok(false);
        };
        self.decide(traces, Some(demand), page).await?;
        self.report(self.window.from().as_nanos(), page.len());
        Ok(true)
    }

    /// The traces with a span in a range that satisfies a demand; `None` when there are more than so many.
    pub(crate) async fn showing_anywhere(
        &self,
        demand: Demand,
        range: Span,
        but_window: bool,
        most: usize,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let mut statement = self.table.statement();
        let satisfied = self.demands.satisfied(demand, self.table, &mut statement)?;
        let mut range = self.range(range, &mut statement);
        if but_window {
            range = format!("{range} AND NOT {}", self.inside(&mut statement));
        }
        let trace = statement.own("trace");
        // `DISTINCT` ends as soon as it has so many, which a group would not.
        statement.push(&format!(
            "SELECT DISTINCT {id} AS {trace} FROM {name} WHERE {range} AND {satisfied} AND {is_trace} LIMIT {limit}",
            id = self.table.trace_id,
            name = self.table.name,
            is_trace = Self::is_trace(&self.table.trace_id),
            limit = most.saturating_add(1),
        ));
        let traces: Vec<(String,)> = self.rows(statement).await?;
        Ok((traces.len() <= most).then(|| traces.into_iter().map(|(trace,)| trace).collect()))
    }
}
