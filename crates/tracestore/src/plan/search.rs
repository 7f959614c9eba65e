//! One search: what is asked, of which table, and what it may cost. Its statements are all made here and beside it.

use std::collections::HashMap;

use tokio::time::Instant;
use tracewarden_model::{TRACE_ID_BYTES_MAX, Timestamp, Window};

use super::Tuning;
use super::demands::{Demand, Demands};
use super::estimates::{Experience, Subject, subject};
use crate::select::Position;
use crate::settings;
use crate::sql::Statement;
use crate::table::BoundTable;
use crate::trace_index::{Bounds, TraceIndex};
use crate::{OnProgress, SearchProgress, StoreError, TraceStore};

/// A range of time, its end exclusive; `None` for all of it.
pub(crate) type Span = Option<(Timestamp, Timestamp)>;

/// Which spans are reckoned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spans {
    /// Those that the order looks at.
    OfOrder,
    /// Those that satisfy a demand.
    Of(Demand),
    /// Those that satisfy any.
    OfAnyDemand,
    /// All.
    All,
}

/// A range as something to remember under: bounds that move with the clock are told apart only as far as their distance
/// makes a difference.
fn about(range: Span) -> Option<(u32, i64)> {
    range.map(|(from, to)| {
        let scale = to.as_nanos().abs_diff(from.as_nanos()).checked_ilog2().unwrap_or(0);
        (scale, to.as_nanos() >> scale.min(62))
    })
}

pub(crate) struct Search<'a> {
    pub(crate) store: &'a TraceStore,
    pub(crate) table: &'a BoundTable,
    pub(crate) demands: Demands<'a>,
    pub(crate) window: Window,
    /// Traces wanted, the one that shows that there is a next page included.
    pub(crate) wanted: usize,
    /// Where the page before ended.
    pub(crate) after: Option<Position>,
    /// How far is looked at traces without an entry in the trace index.
    pub(crate) default: Span,
    /// The trace index.
    pub(crate) index: Option<TraceIndex>,
    pub(crate) tuning: Tuning,
    /// The time limit of one statement is that of the whole search, too.
    pub(crate) deadline: Instant,
    pub(crate) progress: Option<OnProgress>,
}

/// How far is looked at each trace of some.
pub(crate) struct Sight {
    /// Bounds in nanoseconds, the end exclusive, of those that the trace index knows; `None` where its entry says nothing, and
    /// all spans of the trace count.
    indexed: HashMap<String, Option<(i64, i64)>>,
    default: Span,
}

impl Sight {
    /// Where the spans of a trace count, in nanoseconds; `None` for everywhere.
    pub(crate) fn of(&self, trace: &str) -> Option<(i64, i64)> {
        match self.indexed.get(trace) {
            Some(bounds) => *bounds,
            None => self.default.map(|(from, to)| (from.as_nanos(), to.as_nanos())),
        }
    }

    /// Whether nothing of a trace counts beyond a range in nanoseconds, its end exclusive.
    pub(crate) fn is_within(&self, trace: &str, (from, to): (i64, i64)) -> bool {
        self.of(trace).is_some_and(|(begin, end)| from <= begin && end <= to)
    }

    /// Whether spans of a trace from the one time to the other all count.
    pub(crate) fn holds(&self, trace: &str, oldest: i64, newest: i64) -> bool {
        self.of(trace).is_none_or(|(from, to)| from <= oldest && newest < to)
    }

    /// The traces in groups that are looked at together, each with the range that holds all that counts of them: one
    /// trace that lasts for days must not make a statement about a thousand others read these days.
    pub(crate) fn together<'t>(&self, traces: &'t [String], most: usize) -> Vec<(Vec<&'t String>, Span)> {
        const SHORT: i64 = 600 * 1_000_000_000;
        let (mut short, mut long, mut open, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for trace in traces {
            match self.indexed.get(trace) {
                Some(Some((from, to))) if to.saturating_sub(*from) <= SHORT => short.push(trace),
                Some(Some(_)) => long.push(trace),
                Some(None) => open.push(trace),
                None => unknown.push(trace),
            }
        }
        let mut groups = Vec::new();
        for group in [short, long, open, unknown] {
            for part in group.chunks(most.max(1)) {
                let bounds = part.iter().map(|trace| self.of(trace));
                // One without bounds makes all of them unbounded.
                let range = bounds.collect::<Option<Vec<(i64, i64)>>>().and_then(|bounds| {
                    let from = bounds.iter().map(|(from, _)| *from).min()?;
                    let to = bounds.iter().map(|(_, to)| *to).max()?;
                    Some((Timestamp::from_nanos(from), Timestamp::from_nanos(to)))
                });
                groups.push((part.to_vec(), range));
            }
        }
        groups
    }
}

impl Search<'_> {
    pub(crate) async fn rows<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>, StoreError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StoreError::Timeout("the statements of a search took too long together".to_owned()));
        }
        let seconds = u32::try_from(left.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        self.store.client.within(settings::Bounds { seconds, rows: 0 }).rows(statement).await
    }

    /// What the entries of the trace index say, for comparing with the timestamp.
    pub(crate) fn bounds(&self, index: &TraceIndex) -> Bounds {
        index.bounds(self.window).coarser(self.table.coarse)
    }

    /// Whether a span is in a range.
    pub(crate) fn range(&self, range: Span, statement: &mut Statement) -> String {
        match range {
            None => "1".to_owned(),
            Some((from, to)) => self.table.within(from, to, statement),
        }
    }

    /// Whether a span is in the window.
    pub(crate) fn inside(&self, statement: &mut Statement) -> String {
        self.range(Some((self.window.from(), self.window.to())), statement)
    }

    /// The time of a tick of the timestamp column, in nanoseconds.
    pub(crate) fn nanos(&self, ticks: i64) -> i64 {
        ticks.saturating_mul(self.table.nanos_per_tick)
    }

    /// The first tick at or after a time.
    pub(crate) fn ticks_from(&self, nanos: i64) -> i64 {
        self.table.tick_from(nanos)
    }

    /// Of a group of spans: whether their trace id is one.
    pub(crate) fn is_trace(trace: &str) -> String {
        format!(
            "NOT match({trace}, '^0*$') AND isValidUTF8({trace}) AND length({trace}) <= {TRACE_ID_BYTES_MAX}"
        )
    }

    /// How far is looked at these traces. Bounds are whole ticks of the timestamp, as the grouped pass has them: an index may be
    /// finer than the column, and then says that a trace begins after its first span.
    pub(crate) async fn sight(&self, traces: &[String]) -> Result<Sight, StoreError> {
        let mut indexed = HashMap::new();
        if let Some(index) = &self.index {
            for part in traces.chunks(self.tuning.ids) {
                let mut statement = Statement::default();
                let ids = statement.strings(part);
                let bounds = index.bounds(self.window);
                let ([from, to], open, index) = (bounds.nanos(), &bounds.open, &index.name);
                statement.push(&format!(
                    "SELECT `TraceId`, {from}, {to}, {open} FROM {index} WHERE `TraceId` IN {ids} GROUP BY `TraceId`"
                ));
                let rows: Vec<(String, i64, i64, u8)> = self.rows(statement).await?;
                let tick = self.table.nanos_per_tick;
                let whole = |nanos: i64| nanos.div_euclid(tick).saturating_mul(tick);
                let bounds = |(trace, from, to, open)| (trace, (open == 0).then(|| (whole(from), whole(to))));
                indexed.extend(rows.into_iter().map(bounds));
            }
        }
        Ok(Sight { indexed, default: self.default })
    }

    /// A condition for some spans, as something to remember estimates under.
    fn condition(&self, spans: Spans) -> Result<(Statement, String), StoreError> {
        let mut statement = self.table.statement();
        let text = match spans {
            Spans::All => "1".to_owned(),
            Spans::OfOrder => self.demands.key(self.table, &mut statement)?,
            Spans::Of(demand) => self.demands.satisfied(demand, self.table, &mut statement)?,
            Spans::OfAnyDemand => {
                let all = self.demands.all().into_iter();
                let all = all.map(|demand| self.demands.satisfied(demand, self.table, &mut statement));
                format!("({})", all.collect::<Result<Vec<String>, StoreError>>()?.join(" OR "))
            }
        };
        Ok((statement, text))
    }

    /// What the whole search is, whenever it is asked.
    pub(crate) fn subject(&self) -> Result<Subject, StoreError> {
        let mut statement = self.table.statement();
        let key = self.demands.key(self.table, &mut statement)?;
        let shown = self.demands.shown(&self.demands.all(), self.table, &mut statement)?;
        let window = about(Some((self.window.from(), self.window.to())));
        Ok(subject((&self.table.name, key, shown, &statement.parameters, window)))
    }

    /// How earlier searches for the same went.
    pub(crate) fn experience(&self) -> Option<Experience> {
        self.subject().ok().and_then(|subject| self.store.memory.experience(subject))
    }

    /// How many rows the store reckons that it would read for some of the spans in a range; `None` where it does not say. Never an error: whatever keeps it from answering is told by the statement that
    /// has to be answered.
    pub(crate) async fn estimate(&self, spans: Spans, range: Span, but_window: bool) -> Option<u64> {
        let (mut statement, condition) = self.condition(spans).ok()?;
        if !self.table.in_parts() {
            // A table without parts of its own, such as a distributed one, gives no estimate.
            return None;
        }
        let subject = subject((
            &self.table.name,
            &condition,
            &statement.parameters,
            self.demands.scope_subject(self.table),
            about(range),
            but_window,
        ));
        if let Some(known) = self.store.memory.rows(subject) {
            return known;
        }
        let mut range = self.range(range, &mut statement);
        if but_window {
            range = format!("{range} AND NOT {}", self.inside(&mut statement));
        }
        statement.push(&format!(
            "EXPLAIN ESTIMATE SELECT {} FROM {} WHERE {range} AND {condition}",
            self.table.trace_id, self.table.name
        ));
        let rows = match self.rows::<(String, String, u64, u64, u64)>(statement).await {
            Ok(rows) => Some(rows.iter().map(|(_, _, _, rows, _)| rows).sum()),
            Err(_) => None,
        };
        self.store.memory.remember_rows(subject, rows);
        rows
    }

    /// Tells how far the search has come.
    pub(crate) fn report(&self, searched_to: i64, traces: usize) {
        let Some(progress) = &self.progress else { return };
        let (from, to) = (self.window.from().as_nanos(), self.window.to().as_nanos());
        let whole = to.abs_diff(from).max(1);
        // In parts of the window: how far exactly a step went depends on spans that the caller may not see. Not below a second,
        // or a window of some nanoseconds would tell nanoseconds.
        let part = whole.div_ceil(64).max(1_000_000_000);
        let done = if searched_to <= from {
            whole
        } else {
            (to.abs_diff(searched_to) / part).saturating_mul(part).min(whole)
        };
        let searched_to = to.saturating_sub_unsigned(done);
        let shown = traces.min(self.wanted.saturating_sub(1));
        progress(SearchProgress {
            searched_to: Timestamp::from_nanos(searched_to),
            traces: u32::try_from(shown).unwrap_or(u32::MAX),
            fraction: Some((done as f64 / whole as f64).clamp(0.0, 1.0)),
        });
    }
}
