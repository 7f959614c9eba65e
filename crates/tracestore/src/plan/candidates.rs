//! Candidates first: where one demand is rarely satisfied, the traces that satisfy it, wherever in the order they stand,
//! then what else they must show.

use std::collections::HashMap;

use super::demands::Demand;
use super::found::Page;
use super::search::{Search, Span};
use crate::StoreError;

/// Spans of a candidate that make it one, at different times: on average this many are awaited.
const SPANS_OF_EACH: usize = 16;

/// A trace that may belong to the answer.
pub(crate) struct Candidate {
    pub(crate) trace: String,
    /// When the spans are, from the oldest to the newest, in ticks, that show what it was looked for by.
    pub(crate) shown: Option<(i64, i64)>,
}

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
    ) -> Result<Option<Vec<Candidate>>, StoreError> {
        let mut statement = self.table.statement();
        let satisfied = self.demands.satisfied(demand, self.table, &mut statement)?;
        let mut range = self.range(range, &mut statement);
        if but_window {
            range = format!("{range} AND NOT {}", self.inside(&mut statement));
        }
        let [trace, time] = ["trace", "time"].map(|name| statement.own(name));
        let spans = most.saturating_mul(SPANS_OF_EACH);
        // `DISTINCT` ends as soon as it has so many, which a group would not. Whether the id is one is asked of what comes out:
        // as a condition it would have every id read.
        statement.push(&format!(
            "SELECT DISTINCT {id} AS {trace}, {ticks} AS {time}, {is_trace} FROM {name} \
             WHERE {range} AND {satisfied} LIMIT {limit}",
            id = self.table.trace_id,
            ticks = self.table.ticks,
            name = self.table.name,
            is_trace = Self::is_trace(&trace),
            limit = spans.saturating_add(1),
        ));
        let rows: Vec<(String, i64, u8)> = self.rows(statement).await?;
        if rows.len() > spans {
            return Ok(None);
        }
        let mut shown: HashMap<String, (i64, i64)> = HashMap::new();
        for (trace, time, _) in rows.into_iter().filter(|(_, _, is_trace)| *is_trace == 1) {
            let (oldest, newest) = shown.entry(trace).or_insert((time, time));
            *oldest = time.min(*oldest);
            *newest = time.max(*newest);
        }
        let candidates = |(trace, shown)| Candidate { trace, shown: Some(shown) };
        Ok((shown.len() <= most).then(|| shown.into_iter().map(candidates).collect()))
    }
}
