//! The trace index: a table with the time bounds of each trace, as the materialized view of the OpenTelemetry exporter fills
//! it.
//!
//! Its `DateTime` covers only the years 1970 to 2106. For a span outside, ClickHouse stores the nearest end of the type
//! (observed with 26.7), or the low 32 bits of the seconds, which can be any time (observed with 25.8). Such an entry does
//! not bound the trace: all spans of its trace count, however far apart they are.

#[cfg(test)]
mod tests;

use tracewarden_model::{ColumnType, Timestamp, Window};

use crate::sql::{Statement, quote_table};
use crate::table::Column;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
/// The last second of `DateTime`.
const LAST: i64 = u32::MAX as i64;

/// Whether a `DateTime` can hold the time.
pub(crate) fn is_date_time(time: Timestamp) -> bool {
    (0..=LAST.saturating_mul(SECOND)).contains(&time.as_nanos())
}

/// A trace index that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceIndex {
    /// Its quoted name.
    pub(crate) name: String,
    /// Whether `Start` and `End` are `DateTime` (whole seconds).
    short: [bool; 2],
}

/// Time bounds from the entries of one or several traces, as SQL over their rows.
pub(crate) struct Bounds {
    /// Start of the bounds. In `DateTime64`, where the seconds of `DateTime` do not wrap around.
    pub(crate) from: String,
    /// End of the bounds, exclusive: the index holds whole seconds, rounded down. A second after the last one of the type
    /// would overflow.
    pub(crate) to: String,
    /// Whether the bounds are unusable.
    pub(crate) open: String,
    /// Whether a search treats the trace as indexed: it has an entry near the window. If a trace has
    /// entries only before and after it, the entries in between are missing.
    pub(crate) known: String,
}

/// Whether a table has the columns of the OpenTelemetry exporter's trace index.
pub(crate) fn is_trace_index(columns: &[Column]) -> bool {
    TraceIndex::of(columns, "", "").is_some()
}

impl TraceIndex {
    /// Returns the table as a trace index, if it has the columns of the OpenTelemetry exporter's.
    pub(crate) fn of(columns: &[Column], database: &str, name: &str) -> Option<Self> {
        let bare = |name: &str| {
            let column = columns.iter().find(|column| column.name == name)?;
            (!column.column_type.is_nullable()).then(|| column.column_type.bare())
        };
        // Other types have a wider range than the type that bounds are compared with.
        let time = |name: &str| {
            bare(name).filter(|column_type| {
                matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { precision: 9 })
            })
        };
        let (start, end) = (time("Start")?, time("End")?);
        bare("TraceId").filter(|column_type| column_type.is_string())?;
        let short = [start, end].map(|column_type| *column_type == ColumnType::DateTime);
        Some(Self { name: quote_table(database, name), short })
    }

    /// Bounds for a search of `window`; `around` is the range for unindexed traces. If the index cannot represent the window,
    /// the bounds are unusable: a trace in it may have any entry.
    pub(crate) fn bounds(
        &self,
        window: Window,
        around: Option<(Timestamp, Timestamp)>,
        statement: &mut Statement,
    ) -> Bounds {
        let open = match (self.tells_of(window), self.short, self.says_nothing()) {
            (false, ..) => "1".to_owned(),
            (true, _, None) => "0".to_owned(),
            // The same for seconds, with one comparison per entry.
            (true, [true, true], _) => format!(
                "(max(`Start` > `End`) OR toUnixTimestamp(min(`Start`)) = 0 OR toUnixTimestamp(max(`End`)) = {LAST})"
            ),
            (true, _, Some(nothing)) => format!("max({nothing})"),
        };
        let end = match self.short {
            [_, true] => "toDateTime64(max(`End`), 9)",
            [_, false] => "least(max(`End`), toDateTime64('2262-04-11 00:00:00', 9, 'UTC'))",
        };
        Bounds {
            from: "toDateTime64(min(`Start`), 9)".to_owned(),
            to: format!("({end} + INTERVAL 1 SECOND)"),
            open,
            known: format!("max({})", self.entry_near(window, around, statement)),
        }
    }

    /// SQL: whether an entry overlaps a range or is unusable.
    pub(crate) fn entry_near(
        &self,
        window: Window,
        range: Option<(Timestamp, Timestamp)>,
        statement: &mut Statement,
    ) -> String {
        let Some((from, to)) = range.filter(|_| self.tells_of(window)) else { return "1".to_owned() };
        let [start, end] = [to.as_nanos().saturating_sub(1), from.as_nanos().saturating_sub(SECOND - 1)];
        let start = self.time(0, start, Round::Down, statement);
        let end = self.time(1, end, Round::Up, statement);
        let overlaps = format!("`Start` <= {start} AND `End` >= {end}");
        match self.says_nothing() {
            Some(nothing) => format!("({overlaps} OR {nothing})"),
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
        if !self.tells_of(window) {
            return "0".to_owned();
        }
        let start = self.time(0, from, Round::Up, statement);
        let end = self.time(1, to.saturating_sub(SECOND), Round::Down, statement);
        let within = format!("`Start` >= {start} AND `End` <= {end} AND `Start` <= `End`");
        match self.says_nothing() {
            Some(nothing) => format!("({within} AND NOT ({nothing}))"),
            None => format!("({within})"),
        }
    }

    /// Whether the index can represent times of this window.
    pub(crate) fn tells_of(&self, window: Window) -> bool {
        !self.is_short() || (is_date_time(window.from()) && is_date_time(window.to()))
    }

    fn is_short(&self) -> bool {
        self.short.contains(&true)
    }

    /// SQL: whether an entry gives no usable time range.
    pub(crate) fn says_nothing(&self) -> Option<String> {
        self.is_short().then(|| {
            format!("`Start` > `End` OR toUnixTimestamp(`Start`) = 0 OR toUnixTimestamp(`End`) = {LAST}")
        })
    }

    /// A time in the type of `Start` or `End`, so that ClickHouse can prune partitions.
    fn time(&self, column: usize, nanos: i64, round: Round, statement: &mut Statement) -> String {
        if !self.short.get(column).is_some_and(|short| *short) {
            return statement.time(Timestamp::from_nanos(nanos));
        }
        let whole = nanos.div_euclid(SECOND);
        let second = match round {
            Round::Up if nanos.rem_euclid(SECOND) != 0 => whole.saturating_add(1),
            Round::Up | Round::Down => whole,
        };
        format!("toDateTime({})", statement.int(second.clamp(0, LAST)))
    }
}

/// Rounding to whole seconds.
#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

impl Bounds {
    /// Converts the bounds for comparison with a timestamp of this precision, whose range exceeds that of nanoseconds.
    pub(crate) fn coarser(self, precision: Option<u8>) -> Self {
        let Some(precision) = precision else { return self };
        let coarse = |bound: String| format!("toDateTime64({bound}, {precision})");
        Self { from: coarse(self.from), to: coarse(self.to), ..self }
    }

    /// Returns the bounds as nanoseconds since the epoch.
    pub(crate) fn nanos(&self) -> [String; 2] {
        [&self.from, &self.to].map(|bound| format!("toUnixTimestamp64Nano({bound})"))
    }
}
