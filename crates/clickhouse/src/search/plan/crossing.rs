//! Traces that cross a window boundary. Spans outside the window can decide whether they match. Traces whose ordering spans
//! all lie outside the window sort last.

use std::collections::HashSet;

use super::decide::BoundedTraces;
use super::page::{MatchingTrace, Page};
use super::resolve::RESOLVE_STATEMENTS;
use super::search::Search;
use super::trace_bounds::TraceBounds;
use crate::ClickHouseError;
use crate::schema::TraceIndex;
use crate::sql::Statement;

/// Traces that cross a window boundary.
#[derive(Debug, Default)]
pub(crate) struct CrossingTraces {
    /// Crossing traces according to the trace index.
    pub(crate) traces: Vec<String>,
    pub(crate) bounds: TraceBounds,
    /// Traces that the index may lack, with a span outside the window that satisfies a predicate. If such a trace has an
    /// entry, but only within the window, the index lacks a batch.
    pub(crate) pending: Vec<String>,
}

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

/// Which traces to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrossingKind {
    /// Those that cross a window boundary according to the trace index, and those that the index may lack, with an ordering
    /// span outside the window.
    All,
    /// Of the indexed traces, those with spans further from the window than `max_trace_duration`.
    Far,
}

/// Size of the trace index; decides how many of its ids a set may hold in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexSize {
    /// At most about as large as the spans of the window.
    Small,
    /// Larger, or unknown.
    Large,
}

/// Trace id, 1 if indexed, start and exclusive end in nanoseconds, 1 if the bounds are unusable.
type Row = (String, u8, i64, i64, u8);

impl Search<'_> {
    /// Adds the traces that sort after all matches inside the window.
    pub(crate) async fn fill_by_crossing(&self, page: &mut Page) -> Result<(), ClickHouseError> {
        match self.decided_crossing(IndexSize::Large).await? {
            Some(decided) => self.resolve_candidates(&[], usize::MAX, &decided, page).await.map(drop),
            None => self.fill_by_grouping(self.after.as_ref(), page).await,
        }
    }

    /// Returns all crossing traces, decided; `None` if they are unknown.
    pub(crate) async fn decided_crossing(
        &self,
        index_size: IndexSize,
    ) -> Result<Option<DecidedTraces>, ClickHouseError> {
        match self.crossing(CrossingKind::All, index_size).await? {
            Some(crossing) => self.decide_crossing(crossing).await.map(Some),
            None => Ok(None),
        }
    }

    /// Decides the indexed crossing traces by id, unless that leaves no statements for the candidates of a step: then they
    /// are decided together with these.
    async fn decide_crossing(&self, crossing: CrossingTraces) -> Result<DecidedTraces, ClickHouseError> {
        let CrossingTraces { mut traces, bounds, mut pending } = crossing;
        if self.statements_left() <= RESOLVE_STATEMENTS {
            pending.append(&mut traces);
        }
        let matching =
            self.matching(BoundedTraces { traces: &traces, bounds: &bounds, filters: &[] }).await?;
        Ok(DecidedTraces { traces: traces.into_iter().collect(), matching, pending })
    }

    /// Traces with spans inside and outside the window. Returns `None` if there are too many for one statement, or no trace
    /// index.
    pub(crate) async fn crossing(
        &self,
        kind: CrossingKind,
        index_size: IndexSize,
    ) -> Result<Option<CrossingTraces>, ClickHouseError> {
        // Without required predicates, a trace with a span inside is found by that span. Where traces are unbounded, none is
        // far.
        if self.required_predicates.all().is_empty()
            || (kind == CrossingKind::Far && self.default_range.is_none())
        {
            return Ok(Some(CrossingTraces::default()));
        }
        let Some(index) = &self.index else { return Ok(None) };
        let rows: Vec<Row> = self.rows(self.crossing_statement(index, kind, index_size)?).await?;
        if rows.len() > self.options.max_ids {
            return Ok(None);
        }
        let mut crossing = CrossingTraces { bounds: self.default_bounds(), ..CrossingTraces::default() };
        for (trace, is_indexed, from, to, unusable) in rows {
            if is_indexed == 1 {
                crossing.traces.push(trace.clone());
                crossing.bounds.insert(self.table, trace, (from, to, unusable));
            } else {
                crossing.pending.push(trace);
            }
        }
        Ok(Some(crossing))
    }

    pub(crate) fn crossing_statement(
        &self,
        index: &TraceIndex,
        kind: CrossingKind,
        index_size: IndexSize,
    ) -> Result<Statement, ClickHouseError> {
        let table = self.table;
        let mut statement = table.statement();
        let bounds = self.bounds(index, &mut statement);
        let ([start, end], unusable) = (bounds.nanos(), &bounds.unusable);
        let [trace, indexed, from, to, is_open] =
            ["trace", "indexed", "from", "to", "open"].map(|name| statement.alias(name));
        let [begin, finish] =
            [self.window.from(), self.window.to()].map(|time| self.nanos(self.ticks_from(time.as_nanos())));
        let near = index.entry_overlaps(self.window, self.default_range, &mut statement);
        let allowed_range = match (kind, self.default_range) {
            (CrossingKind::Far, Some((from, to))) => {
                [from, to].map(|time| self.nanos(self.ticks_from(time.as_nanos())))
            }
            _ => [begin, finish],
        };
        let within = index.entry_within(self.window, allowed_range.into(), &mut statement);
        let [low, high] = allowed_range.map(|nanos| statement.int(nanos));
        let [begin, finish] = [begin, finish].map(|nanos| statement.int(nanos));
        let inside = self.window_condition(&mut statement);
        let limit = self.options.max_ids.saturating_add(1);
        let (covers_window, unusable_entry) = (index.covers(self.window), index.unusable_entry());
        let (id, spans, index) = (&table.trace_id, &table.name, &index.name);
        let with_span_inside = format!("IN (SELECT {id} FROM {spans} WHERE {inside}");
        // A crossing trace has an entry near the window, and an entry that is not within it. If every entry counts as near,
        // only the window's traces bound the memory.
        let is_unbounded = self.default_range.is_none() || !covers_window;
        let (of_near, of_inside) = match index_size {
            _ if is_unbounded => (
                format!(" AND `TraceId` GLOBAL {with_span_inside})"),
                format!(" AND {id} GLOBAL {with_span_inside})"),
            ),
            IndexSize::Small => (String::new(), String::new()),
            IndexSize::Large => (
                format!(" AND `TraceId` GLOBAL IN (SELECT `TraceId` FROM {index} WHERE {near})"),
                String::new(),
            ),
        };
        // An unusable entry is near every window: one span of a broken clock must not make every search read the whole table.
        let is_unusable = match unusable_entry.filter(|_| !is_unbounded) {
            None => is_open.clone(),
            Some(unusable) => format!(
                "({is_open} AND {trace} GLOBAL {with_span_inside} \
                 AND {id} GLOBAL IN (SELECT `TraceId` FROM {index} WHERE {unusable})))"
            ),
        };
        statement.push(&format!(
            "SELECT `TraceId` AS {trace}, toUInt8(1) AS {indexed}, {start} AS {from}, {end} AS {to}, toUInt8({unusable}) AS {is_open} \
             FROM {index} WHERE `TraceId` GLOBAL IN (SELECT `TraceId` FROM {index} WHERE NOT {within}{of_near}) GROUP BY `TraceId` \
             HAVING {crosses} LIMIT {limit}",
            crosses = Self::with_valid_trace_id(
                &trace,
                &format!(
                    "{} AND ({is_unusable} OR (NOT {is_open} AND {from} < {finish} AND {to} > {begin} \
                     AND ({from} < {low} OR {to} > {high})))",
                    bounds.is_indexed
                )
            ),
        ));
        if kind == CrossingKind::All {
            let (inside, around) =
                (self.window_condition(&mut statement), self.range(self.default_range, &mut statement));
            let key = self.required_predicates.key(table, &mut statement)?;
            statement.push(&format!(
                " UNION ALL SELECT {trace}, toUInt8(0), toInt64(0), toInt64(0), toUInt8(0) FROM (SELECT DISTINCT {id} AS {trace} \
                 FROM {spans} WHERE {around} AND NOT {inside} AND {key}{of_inside} \
                 AND {id} GLOBAL NOT IN (SELECT `TraceId` FROM {index} WHERE {near} AND NOT {within}{of_near})) \
                 WHERE {is_valid_trace_id} LIMIT {limit}",
                is_valid_trace_id = Self::is_valid_trace_id(&trace),
            ));
        }
        Ok(statement)
    }
}
