//! One grouped pass over all considered spans: the literal definition. The other plans must return the same traces, and fall
//! back to this pass where they cannot decide.

use tracewarden_model::Timestamp;

use super::decide::BoundedTraces;
use super::page::{MatchingTrace, Page};
use super::sample::Sample;
use super::search::{Search, TimeRange};
use super::trace_bounds::TimeRanges;
use crate::ClickHouseError;
use crate::search::selection::Position;
use crate::sql::Statement;

/// The traces of the pass.
#[derive(Clone, Copy)]
pub(crate) enum TraceSet<'a> {
    /// All traces that have a span in the window.
    Window,
    /// These.
    Given(&'a [String]),
    /// These, with known bounds.
    Bounded(BoundedTraces<'a>),
    /// A sample of the traces of the window.
    Sample(Sample),
}

impl Search<'_> {
    /// Returns the traces after a position: of all traces as many as wanted, of given ones each that matches.
    pub(crate) async fn group_by_trace(
        &self,
        trace_set: TraceSet<'_>,
        scan: &TimeRanges,
        after: Option<&Position>,
    ) -> Result<Vec<MatchingTrace>, ClickHouseError> {
        let statement = self.grouped_statement(trace_set, scan, after)?;
        let rows: Vec<(String, u8, i64, u64)> = self.rows(statement).await?;
        let found = rows.into_iter().map(|(trace_id, tier, key, spans)| MatchingTrace {
            position: Position { tier, key, trace_id },
            spans,
        });
        Ok(found.collect())
    }

    /// Adds the traces after a position to the page.
    pub(crate) async fn fill_by_grouping(
        &self,
        after: Option<&Position>,
        page: &mut Page,
    ) -> Result<(), ClickHouseError> {
        let scan = self.scan(TraceSet::Window).await?;
        page.extend(self.group_by_trace(TraceSet::Window, &scan, after).await?);
        Ok(())
    }

    /// Returns the time ranges to read, so that all considered spans of each trace are read.
    pub(crate) async fn scan(&self, trace_set: TraceSet<'_>) -> Result<TimeRanges, ClickHouseError> {
        let (Some(index), Some((low, high))) = (&self.index, self.default_range) else {
            return Ok(self.default_range.into());
        };
        let mut statement = Statement::default();
        let traces = self.trace_id_condition(trace_set, &mut statement);
        let bounds = self.bounds(index, &mut statement);
        let ([from, to], open, index) = (bounds.nanos(), &bounds.unusable, &index.name);
        statement
            .push(&format!("SELECT count(), {from}, {to}, {open} FROM {index} WHERE `TraceId` {traces}"));
        let rows: Vec<(u64, i64, i64, u8)> = self.rows(statement).await?;
        let range: TimeRange = match rows.as_slice() {
            [(count, .., 1)] if *count > 0 => None,
            [(count, start, end, _)] if *count > 0 => {
                let start = Timestamp::from_nanos(self.table.whole_ticks(*start));
                Some((low.min(start), high.max(Timestamp::from_nanos(*end))))
            }
            _ => Some((low, high)),
        };
        Ok(range.into())
    }

    /// Writes the condition after a trace id that it is in the set.
    pub(super) fn trace_id_condition(&self, trace_set: TraceSet<'_>, statement: &mut Statement) -> String {
        match trace_set {
            TraceSet::Given(ids) | TraceSet::Bounded(BoundedTraces { traces: ids, .. }) => {
                format!("IN {}", statement.string_array(ids))
            }
            TraceSet::Window => {
                let inside = self.window_condition(statement);
                format!("GLOBAL IN (SELECT {} FROM {} WHERE {inside})", self.table.trace_id, self.table.name)
            }
            TraceSet::Sample(sample) => {
                let (inside, sampled) =
                    (self.window_condition(statement), sample.condition(&self.table.trace_id));
                format!(
                    "GLOBAL IN (SELECT {} FROM {} WHERE {inside} AND {sampled})",
                    self.table.trace_id, self.table.name
                )
            }
        }
    }

    /// Writes the considered spans, from `FROM` on: those within the trace's bounds in the trace index, or else within the
    /// default bounds.
    pub(crate) fn considered_spans(
        &self,
        trace_set: TraceSet<'_>,
        scan: &TimeRanges,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let table = self.table;
        let scan = scan.time_condition(table, statement);
        if let TraceSet::Bounded(traces) = trace_set {
            return self.spans_within_bounds(traces, &scan, statement);
        }
        let (id, name, timestamp) = (&table.trace_id, &table.name, &table.timestamp);
        let [bounds, indexed, start, end, open] =
            ["bounds", "indexed", "start", "end", "open"].map(|name| statement.alias(name));
        let mut text = format!(" FROM {name}");
        if let Some(index) = &self.index {
            let traces = match trace_set {
                // Without reading the ids of the window once more.
                TraceSet::Sample(sample) => {
                    let near = index.entry_overlaps(self.window, self.default_range, statement);
                    let sampled = sample.condition("`TraceId`");
                    format!(
                        "`TraceId` GLOBAL IN (SELECT `TraceId` FROM {} WHERE {near} AND {sampled})",
                        index.name
                    )
                }
                _ => format!("`TraceId` {}", self.trace_id_condition(trace_set, statement)),
            };
            let entries = self.bounds(index, statement).with_precision(table.coarse_precision);
            // With join_use_nulls = 0, a trace without an entry has an empty id here.
            text.push_str(&format!(
                " GLOBAL LEFT ANY JOIN (SELECT `TraceId` AS {indexed}, {from} AS {start}, {to} AS {end}, {is_open} AS {open} \
                 FROM {index} WHERE {traces} GROUP BY `TraceId` HAVING {known}) AS {bounds} \
                 ON {id} = {bounds}.{indexed}",
                from = entries.from,
                to = entries.to,
                is_open = entries.unusable,
                known = entries.is_indexed,
                index = index.name,
            ));
        }
        text.push_str(&format!(" WHERE {scan}"));
        match trace_set {
            TraceSet::Window | TraceSet::Bounded(_) => {}
            TraceSet::Given(ids) => {
                let ids = statement.string_array(ids);
                text.push_str(&format!(" AND {} IN {ids}", table.trace_id_column));
            }
            TraceSet::Sample(sample) => {
                let column = &table.trace_id_column;
                let (inside, sampled) = (self.window_condition(statement), sample.condition(&table.trace_id));
                text.push_str(&format!(
                    " AND {column} GLOBAL IN (SELECT {column} FROM {name} WHERE {inside} AND {sampled})"
                ));
            }
        }
        if self.index.is_some() {
            let unindexed = self.range(self.default_range, statement);
            text.push_str(&format!(
                " AND if({bounds}.{indexed} = '', {unindexed}, {bounds}.{open} OR ({timestamp} >= {bounds}.{start} \
                 AND {timestamp} < {bounds}.{end}))"
            ));
        }
        Ok(text)
    }

    /// SQL: for a group of spans, the position of their trace in the order, as columns with these names.
    pub(crate) fn order(
        &self,
        tier: &str,
        position: &str,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let key = self.required_predicates.key(self.table, statement)?;
        let (inside, ticks) = (self.window_condition(statement), &self.table.ticks);
        Ok(format!(
            "countIf({inside} AND {key}) > 0 AS {tier}, \
             if({tier} = 1, maxIf({ticks}, {inside} AND {key}), maxIf({ticks}, {inside})) AS {position}"
        ))
    }

    pub(crate) fn grouped_statement(
        &self,
        trace_set: TraceSet<'_>,
        scan: &TimeRanges,
        after: Option<&Position>,
    ) -> Result<Statement, ClickHouseError> {
        let table = self.table;
        let mut statement = table.statement().evaluated_per_row();
        let [trace, tier, position] = ["trace", "tier", "position"].map(|name| statement.alias(name));
        let order = self.order(&tier, &position, &mut statement)?;
        let inside = self.window_condition(&mut statement);
        let spans = self.considered_spans(trace_set, scan, &mut statement)?;
        let id = &table.trace_id;
        let mut text = format!("SELECT {id} AS {trace}, {order}, count(){spans}");
        let mut wanted = format!(
            "countIf({inside}) > 0 AND {}",
            self.required_predicates.having_clause(&self.required_predicates.all(), table, &mut statement)?
        );
        if let Some(after) = after {
            let (last, key) = (after.tier.min(1), statement.int(after.key));
            let id = statement.string(&after.trace_id);
            wanted.push_str(&format!(
                " AND ({tier} < {last} OR ({tier} = {last} AND ({position} < {key} OR ({position} = {key} AND {trace} > {id}))))"
            ));
        }
        text.push_str(&format!(" GROUP BY {trace} HAVING {}", Self::with_valid_trace_id(&trace, &wanted)));
        let most = match trace_set {
            TraceSet::Window | TraceSet::Sample(_) => self.wanted,
            TraceSet::Given(ids) | TraceSet::Bounded(BoundedTraces { traces: ids, .. }) => ids.len(),
        };
        text.push_str(&format!(" ORDER BY {tier} DESC, {position} DESC, {trace} ASC LIMIT {most}"));
        statement.push(&text);
        Ok(statement)
    }
}
