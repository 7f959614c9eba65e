//! Deciding about given traces, demand by demand: each statement reads only what can satisfy what is still missing, which
//! the demand's own indexes serve.

use std::collections::{HashMap, HashSet};

use tracewarden_model::Timestamp;

use super::candidates::Candidate;
use super::demands::Demand;
use super::found::{Found, Page};
use super::grouped::Among;
use super::search::{Search, Sight, Span};
use crate::StoreError;
use crate::select::Position;
use crate::sql::Statement;

/// What is known of given traces.
#[derive(Default)]
pub(crate) struct Showing {
    /// Those that show what was asked, each with its newest span in the window that does, in ticks, and how many do there.
    pub(crate) shown: HashMap<String, Option<(i64, u64)>>,
    /// Traces of which spans were seen that do not count, since the trace index leaves them out: with them it takes the
    /// grouped pass to say which span it was.
    pub(crate) doubtful: Vec<String>,
}

/// A trace; of its spans that were looked at the oldest and the newest, in ticks; of those in the window the newest, and
/// how many these are.
type Row = (String, i64, i64, i64, u64);

impl Search<'_> {
    /// Which of these traces have a span that satisfies a demand.
    pub(crate) async fn showing(
        &self,
        traces: &[String],
        demand: Demand,
        sight: &Sight,
    ) -> Result<Showing, StoreError> {
        let mut showing = Showing::default();
        for (group, range) in sight.together(traces, self.tuning.ids) {
            let mut statement = self.table.statement();
            let satisfied = self.demands.satisfied(demand, self.table, &mut statement)?;
            let condition = format!("{} AND {satisfied}", self.range(range, &mut statement));
            for (trace, oldest, newest, inside, spans) in self.about(&group, &condition, statement).await? {
                if sight.holds(&trace, self.nanos(oldest), self.nanos(newest)) {
                    showing.shown.insert(trace, (spans > 0).then_some((inside, spans)));
                } else {
                    showing.doubtful.push(trace);
                }
            }
        }
        Ok(showing)
    }

    /// Spans of some traces that satisfy a condition: by trace.
    async fn about(
        &self,
        traces: &[&String],
        condition: &str,
        mut statement: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        let trace = statement.own("trace");
        let ids: Vec<String> = traces.iter().map(|trace| (*trace).clone()).collect();
        let ids = statement.strings(&ids);
        statement.by_id = true;
        let inside = self.inside(&mut statement);
        let (table, ticks) = (self.table, &self.table.ticks);
        statement.push(&format!(
            "SELECT {id} AS {trace}, min({ticks}), max({ticks}), maxIf({ticks}, {inside}), countIf({inside}) FROM {name} \
             WHERE {column} IN {ids} AND {condition} GROUP BY {trace}",
            id = table.trace_id,
            name = table.name,
            column = table.trace_id_column,
        ));
        self.rows(statement).await
    }

    /// Which of these traces have a span in a range of the window that the order looks at, or any span there: when the newest
    /// one was, and how many there are.
    async fn newest(
        &self,
        traces: &[String],
        range: Span,
        any: bool,
        sight: &Sight,
    ) -> Result<(HashMap<String, (i64, u64)>, Vec<String>), StoreError> {
        let (mut newest, mut doubtful) = (HashMap::new(), Vec::new());
        for (group, bounds) in sight.together(traces, self.tuning.ids) {
            let mut statement = self.table.statement();
            let key = if any { "1".to_owned() } else { self.demands.key(self.table, &mut statement)? };
            let condition = format!(
                "{} AND {} AND {key}",
                self.range(range, &mut statement),
                self.range(bounds, &mut statement)
            );
            for (trace, oldest, last, inside, spans) in self.about(&group, &condition, statement).await? {
                if sight.holds(&trace, self.nanos(oldest), self.nanos(last)) {
                    newest.insert(trace, (inside, spans));
                } else {
                    doubtful.push(trace);
                }
            }
        }
        Ok((newest, doubtful))
    }

    /// Of these traces the newest span, in ticks, from a time on that the order looks at; of those that have one.
    pub(crate) async fn newest_from(
        &self,
        traces: &[String],
        time: i64,
        sight: &Sight,
    ) -> Result<(HashMap<String, i64>, Vec<String>), StoreError> {
        let range = Some((Timestamp::from_nanos(time), self.window.to()));
        let (newest, doubtful) = self.newest(traces, range, false, sight).await?;
        Ok((newest.into_iter().map(|(trace, (newest, _))| (trace, newest)).collect(), doubtful))
    }

    /// Puts those of these traces on the page that belong to the answer, wherever in its order they stand. What is known of them
    /// is that they show the given demand, if there is one.
    pub(crate) async fn decide(
        &self,
        candidates: Vec<Candidate>,
        known: Option<Demand>,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        let traces: Vec<String> = candidates.iter().map(|candidate| candidate.trace.clone()).collect();
        let sight = self.sight(&traces).await?;
        let counts = |candidate: &Candidate| {
            let held =
                |(oldest, newest)| sight.holds(&candidate.trace, self.nanos(oldest), self.nanos(newest));
            candidate.shown.is_none_or(held)
        };
        let (certain, doubtful): (Vec<Candidate>, Vec<Candidate>) = candidates.into_iter().partition(counts);
        let mut left: Vec<String> = certain.into_iter().map(|candidate| candidate.trace).collect();
        let mut doubtful: HashSet<String> = doubtful.into_iter().map(|candidate| candidate.trace).collect();
        let mut newest: Option<HashMap<String, (i64, u64)>> = None;
        for demand in self.cheapest_first(known).await {
            if left.is_empty() {
                return self.decide_in_doubt(doubtful.into_iter().collect(), page).await;
            }
            let showing = self.showing(&left, demand, &sight).await?;
            doubtful.extend(showing.doubtful);
            left.retain(|trace| showing.shown.contains_key(trace));
            if Some(demand) == self.demands.implied() {
                let inside = showing.shown.into_iter().filter_map(|(trace, inside)| Some((trace, inside?)));
                newest = Some(inside.collect());
            }
        }
        let inside = Some((self.window.from(), self.window.to()));
        let mut newest = match newest {
            Some(newest) => newest,
            None => {
                let (newest, unsure) = self.newest(&left, inside, false, &sight).await?;
                doubtful.extend(unsure);
                newest
            }
        };
        let remaining: HashSet<&String> = left.iter().collect();
        newest.retain(|trace, _| remaining.contains(trace));
        left.retain(|trace| !newest.contains_key(trace) && !doubtful.contains(trace));
        let (latest, unsure) = self.newest(&left, inside, true, &sight).await?;
        doubtful.extend(unsure);
        for (tier, found) in [(1, newest), (0, latest)] {
            for (trace_id, (key, spans)) in found {
                if !doubtful.contains(&trace_id) {
                    page.insert(Found { position: Position { tier, key, trace_id }, spans });
                }
            }
        }
        self.decide_in_doubt(doubtful.into_iter().collect(), page).await
    }

    /// The demands that are open, in the order in which they leave the fewest traces for the least reading.
    async fn cheapest_first(&self, known: Option<Demand>) -> Vec<Demand> {
        let mut demands = self.estimates(|demand| Some(demand) != known, |_| false).await;
        demands.sort_by_key(|(rows, _)| rows.unwrap_or(u64::MAX));
        demands.into_iter().map(|(_, demand)| demand).collect()
    }

    /// The same for traces that only the grouped pass can decide about.
    pub(crate) async fn decide_in_doubt(
        &self,
        traces: Vec<String>,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        for part in traces.chunks(self.tuning.ids.max(1)) {
            for found in self.grouped(Among::Traces(part), None).await? {
                page.insert(found);
            }
        }
        Ok(())
    }
}
