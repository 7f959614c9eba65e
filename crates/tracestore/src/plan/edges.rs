//! What follows in the order: traces with spans in the window of which everything that the order looks at lies outside. They
//! cross an edge of the window, and every condition is matched by a span beyond it.

use super::candidates::Candidate;
use super::demands::Demand;
use super::found::Page;
use super::grouped::Among;
use super::search::{Search, Span};
use crate::StoreError;
use crate::select::Position;

impl Search<'_> {
    /// Puts them on the page.
    pub(crate) async fn edges(&self, page: &mut Page) -> Result<(), StoreError> {
        let options = self.estimates(|_| true, |demand| self.beyond(demand)).await;
        let rarest = options
            .into_iter()
            .filter_map(|(rows, demand)| Some((rows?, demand)))
            .min_by_key(|(rows, _)| *rows);
        if let Some((rows, demand)) = rarest
            && rows <= self.tuning.edge_rows
        {
            let (range, most) = (self.anywhere(), self.tuning.candidates);
            if let Some(traces) = self.showing_anywhere(demand, range, self.beyond(demand), most).await? {
                return self.decide(traces, Some(demand), page).await;
            }
        }
        match self.crossing().await? {
            Some(traces) => self.decide(traces, None, page).await,
            None => {
                let behind = self.after.clone().filter(|after| after.tier == 0);
                // Before every trace that follows, and behind all others.
                let first = Position { tier: 0, key: i64::MAX, trace_id: String::new() };
                self.by_grouping(Some(&behind.unwrap_or(first)), page).await
            }
        }
    }

    /// Whether a span that satisfies the demand must lie outside the window: all that the order looks at do.
    fn beyond(&self, demand: Demand) -> bool {
        matches!(demand, Demand::Condition(_)) || self.demands.implied() == Some(demand)
    }

    /// Traces with a span in the window, and one outside of it that the order looks at; `None` when they are many.
    async fn crossing(&self) -> Result<Option<Vec<Candidate>>, StoreError> {
        let scan: Span = self.scan(Among::Window).await?;
        let table = self.table;
        let mut statement = table.statement();
        let key = self.demands.key(table, &mut statement)?;
        let (inside, scan) = (self.inside(&mut statement), self.range(scan, &mut statement));
        let trace = statement.own("trace");
        statement.push(&format!(
            "SELECT DISTINCT {id} AS {trace} FROM {name} WHERE {scan} AND NOT {inside} AND {key} AND {is_trace} \
             AND {id} GLOBAL IN (SELECT {id} FROM {name} WHERE {inside}) LIMIT {limit}",
            id = table.trace_id,
            name = table.name,
            is_trace = Self::is_trace(&table.trace_id),
            limit = self.tuning.ids.saturating_add(1),
        ));
        let traces: Vec<(String,)> = self.rows(statement).await?;
        let few = traces.len() <= self.tuning.ids;
        let candidate = |(trace,)| Candidate { trace, shown: None };
        Ok(few.then(|| traces.into_iter().map(candidate).collect()))
    }
}
