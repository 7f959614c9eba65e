//! The trace index: a table with the time bounds of each trace, as the materialized view of the OpenTelemetry exporter fills
//! it.
//!
//! Its `DateTime` covers only the years 1970 to 2106. For a span outside, ClickHouse stores the nearest end of the type
//! (observed with 26.7), or the low 32 bits of the seconds, which can be any time (observed with 25.8). Such an entry does
//! not bound the trace: all spans of its trace count, however far apart they are.

#[cfg(test)]
mod tests;

use tracewarden_model::{ColumnType, NumberType, Timestamp, Window};

use crate::schema::column::{Column, column_named};
use crate::schema::id_column::{IdColumn, IdOf};
use crate::sql::{Statement, quote, quote_table};

/// Nanoseconds of a second.
const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// The last second of `DateTime`.
const LAST_SECOND: i64 = u32::MAX as i64;

/// Whether a `DateTime` can hold the time.
pub(crate) fn is_date_time(time: Timestamp) -> bool {
    (0..=LAST_SECOND.saturating_mul(NANOS_PER_SECOND)).contains(&time.as_nanos())
}

/// A trace index that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceIndex {
    /// Its quoted name.
    pub(crate) name: String,
    /// The trace id as a string.
    pub(crate) trace_id: String,
    /// The first and the last time of the trace in the inserted batch: columns, quoted.
    start: String,
    end: String,
    /// Whether start and end are `DateTime` (whole seconds).
    whole_seconds: [bool; 2],
}

/// How much of the trace index a search's window covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowShare {
    /// Most of it.
    Most,
    /// Part of it, or an unknown share.
    Part,
}

/// Time bounds from the entries of one or several traces, as SQL over their rows.
pub(crate) struct IndexBounds {
    /// Start of the bounds. In `DateTime64`, where the seconds of `DateTime` do not wrap around.
    pub(crate) from: String,
    /// End of the bounds, exclusive: the index holds whole seconds, rounded down. A second after the last one of the type
    /// would overflow.
    pub(crate) to: String,
    /// Whether the bounds are unusable.
    pub(crate) unusable: String,
    /// Whether a search treats the trace as indexed: it has an entry near the window. If a trace has
    /// entries only before and after it, the entries in between are missing.
    pub(crate) is_indexed: String,
}

/// Names of the columns of trace indexes: of the OpenTelemetry exporter, of Jaeger and SigNoz.
const TRACE_ID_NAMES: [&str; 3] = ["TraceId", "trace_id", "traceID"];
const START_NAMES: [&str; 2] = ["Start", "start"];
const END_NAMES: [&str; 2] = ["End", "end"];

/// Whether a table has the columns of a trace index.
pub(crate) fn is_trace_index(columns: &[Column]) -> bool {
    TraceIndex::from_columns(columns, "", "").is_some()
}

impl TraceIndex {
    /// Returns the table as a trace index, if it has the columns of one.
    pub(crate) fn from_columns(columns: &[Column], database: &str, name: &str) -> Option<Self> {
        let find = |names: &[&str]| {
            let column = names.iter().find_map(|name| column_named(columns, name))?;
            (!column.column_type.is_nullable()).then_some(column)
        };
        // Other types have a wider range than the type that bounds are compared with.
        let is_time = |column: &&Column| {
            let ColumnType::Number(number) = column.column_type.bare() else { return false };
            matches!(number, NumberType::DateTime | NumberType::DateTime64 { precision: 9 })
        };
        let (start, end) = (find(&START_NAMES).filter(is_time)?, find(&END_NAMES).filter(is_time)?);
        let whole_seconds =
            [start, end].map(|column| *column.column_type.bare() == ColumnType::Number(NumberType::DateTime));
        let trace_id = find(&TRACE_ID_NAMES)?;
        // A string column is compared as it is, so that the sorting key serves.
        let trace_id = match trace_id.column_type.is_string() {
            true => quote(&trace_id.name),
            false => IdColumn::new(trace_id, IdOf::Trace)?.text,
        };
        let [start, end] = [start, end].map(|column| quote(&column.name));
        Some(Self { name: quote_table(database, name), trace_id, start, end, whole_seconds })
    }

    /// Bounds for a search of `window`; `around` is the range for unindexed traces. If the index cannot represent the window,
    /// the bounds are unusable: a trace in it may have any entry.
    pub(crate) fn bounds(
        &self,
        window: Window,
        around: Option<(Timestamp, Timestamp)>,
        statement: &mut Statement,
    ) -> IndexBounds {
        let Self { start, end, .. } = self;
        let unusable = match (self.covers(window), self.whole_seconds, self.unusable_entry()) {
            (false, ..) => "1".to_owned(),
            (true, _, None) => "0".to_owned(),
            // The same for seconds, with one comparison per entry.
            (true, [true, true], _) => format!(
                "(max({start} > {end}) OR toUnixTimestamp(min({start})) = 0 OR toUnixTimestamp(max({end})) = {LAST_SECOND})"
            ),
            (true, _, Some(unusable)) => format!("max({unusable})"),
        };
        let last = match self.whole_seconds {
            [_, true] => format!("toDateTime64(max({end}), 9)"),
            [_, false] => format!("least(max({end}), toDateTime64('2262-04-11 00:00:00', 9, 'UTC'))"),
        };
        IndexBounds {
            from: format!("toDateTime64(min({start}), 9)"),
            to: format!("({last} + INTERVAL 1 SECOND)"),
            unusable,
            is_indexed: format!("max({})", self.entry_overlaps(window, around, statement)),
        }
    }

    /// SQL: whether an entry overlaps a range or is unusable.
    pub(crate) fn entry_overlaps(
        &self,
        window: Window,
        range: Option<(Timestamp, Timestamp)>,
        statement: &mut Statement,
    ) -> String {
        let Some((from, to)) = range.filter(|_| self.covers(window)) else { return "1".to_owned() };
        let [last, first] =
            [to.as_nanos().saturating_sub(1), from.as_nanos().saturating_sub(NANOS_PER_SECOND - 1)];
        let last = self.time(0, last, Round::Down, statement);
        let first = self.time(1, first, Round::Up, statement);
        let overlaps = format!("{} <= {last} AND {} >= {first}", self.start, self.end);
        match self.unusable_entry() {
            Some(unusable) => format!("({overlaps} OR {unusable})"),
            None => format!("({overlaps})"),
        }
    }

    /// SQL: whether an entry lies entirely in a range of nanoseconds. A trace has one entry per batch.
    pub(crate) fn entry_within(
        &self,
        window: Window,
        (from, to): (i64, i64),
        statement: &mut Statement,
    ) -> String {
        if !self.covers(window) {
            return "0".to_owned();
        }
        let from = self.time(0, from, Round::Up, statement);
        let to = self.time(1, to.saturating_sub(NANOS_PER_SECOND), Round::Down, statement);
        let Self { start, end, .. } = self;
        let within = format!("{start} >= {from} AND {end} <= {to} AND {start} <= {end}");
        match self.unusable_entry() {
            Some(unusable) => format!("({within} AND NOT ({unusable}))"),
            None => format!("({within})"),
        }
    }

    /// Whether the index can represent times of this window.
    pub(crate) fn covers(&self, window: Window) -> bool {
        !self.has_whole_seconds() || (is_date_time(window.from()) && is_date_time(window.to()))
    }

    fn has_whole_seconds(&self) -> bool {
        self.whole_seconds.contains(&true)
    }

    /// SQL: whether an entry gives no usable time range.
    pub(crate) fn unusable_entry(&self) -> Option<String> {
        let Self { start, end, .. } = self;
        self.has_whole_seconds().then(|| {
            format!(
                "{start} > {end} OR toUnixTimestamp({start}) = 0 OR toUnixTimestamp({end}) = {LAST_SECOND}"
            )
        })
    }

    /// A time in the type of start or end, so that ClickHouse can prune partitions.
    fn time(&self, column: usize, nanos: i64, round: Round, statement: &mut Statement) -> String {
        if !self.whole_seconds.get(column).is_some_and(|whole_seconds| *whole_seconds) {
            return statement.time(Timestamp::from_nanos(nanos));
        }
        let whole = nanos.div_euclid(NANOS_PER_SECOND);
        let second = match round {
            Round::Up if nanos.rem_euclid(NANOS_PER_SECOND) != 0 => whole.saturating_add(1),
            Round::Up | Round::Down => whole,
        };
        format!("toDateTime({})", statement.int(second.clamp(0, LAST_SECOND)))
    }
}

/// Rounding to whole seconds.
#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

impl IndexBounds {
    /// Converts the bounds for comparison with a timestamp of this precision, whose range exceeds that of nanoseconds.
    pub(crate) fn with_precision(self, precision: Option<u8>) -> Self {
        let Some(precision) = precision else { return self };
        let coarse = |bound: String| format!("toDateTime64({bound}, {precision})");
        Self { from: coarse(self.from), to: coarse(self.to), ..self }
    }

    /// Returns the bounds as nanoseconds since the epoch.
    pub(crate) fn nanos(&self) -> [String; 2] {
        [&self.from, &self.to].map(|bound| format!("toUnixTimestamp64Nano({bound})"))
    }
}
