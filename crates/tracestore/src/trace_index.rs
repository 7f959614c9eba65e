//! The trace index: a table with the bounds of each trace, as the OpenTelemetry exporter fills it by a materialized view.
//!
//! Its `DateTime` knows the years 1970 to 2106 alone. Of a span beyond them ClickHouse stores the nearest end of the type (seen
//! with 26.7), or what is left of the seconds in 32 bits, which is any time (seen with 25.8). Such an entry says nothing of where
//! the trace is: all spans of its trace count, however far apart they are.

#[cfg(test)]
mod tests;

use tracewarden_model::{ColumnType, Timestamp, Window};

use crate::sql::quote_table;
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
    /// Whether a bound is a `DateTime`.
    short: bool,
}

/// What the entries of one or several traces say, as SQL over their rows.
pub(crate) struct Bounds {
    /// Where they begin. In `DateTime64`, where the seconds of `DateTime` do not wrap around.
    pub(crate) from: String,
    /// Where they end, exclusive: the index holds whole seconds, rounded down. A second more than the last one of the type
    /// would be too large.
    pub(crate) to: String,
    /// Whether the bounds say nothing.
    pub(crate) open: String,
}

/// Whether a table has the columns of the OpenTelemetry exporter's trace index.
pub(crate) fn is_trace_index(columns: &[Column]) -> bool {
    TraceIndex::of(columns, "", "").is_some()
}

impl TraceIndex {
    /// The table as a trace index, if it has the columns of the OpenTelemetry exporter's.
    pub(crate) fn of(columns: &[Column], database: &str, name: &str) -> Option<Self> {
        let bare = |name: &str| {
            let column = columns.iter().find(|column| column.name == name)?;
            (!column.column_type.is_nullable()).then(|| column.column_type.bare())
        };
        // Others reach further than what bounds are compared with.
        let time = |name: &str| {
            bare(name).filter(|column_type| {
                matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { precision: 9 })
            })
        };
        let (start, end) = (time("Start")?, time("End")?);
        bare("TraceId").filter(|column_type| column_type.is_string())?;
        let short = [start, end].contains(&&ColumnType::DateTime);
        Some(Self { name: quote_table(database, name), short })
    }

    /// What entries say to a search of this window. Of a window beyond what the index can say, nothing: a trace that is there
    /// may have any entry.
    pub(crate) fn bounds(&self, window: Window) -> Bounds {
        let open = if !self.short {
            "0".to_owned()
        } else if !is_date_time(window.from()) || !is_date_time(window.to()) {
            "1".to_owned()
        } else {
            format!("max(`Start` > `End` OR toUnixTimestamp(`Start`) = 0 OR toUnixTimestamp(`End`) = {LAST})")
        };
        Bounds {
            from: "toDateTime64(min(`Start`), 9)".to_owned(),
            to: "(least(toDateTime64(max(`End`), 9), toDateTime64('2262-04-11 00:00:00', 9, 'UTC')) + INTERVAL 1 SECOND)"
                .to_owned(),
            open,
        }
    }
}

impl Bounds {
    /// The bounds for comparing with a timestamp of this precision, where it reaches further than nanoseconds do.
    pub(crate) fn coarser(self, precision: Option<u8>) -> Self {
        let Some(precision) = precision else { return self };
        let coarse = |bound: String| format!("toDateTime64({bound}, {precision})");
        Self { from: coarse(self.from), to: coarse(self.to), open: self.open }
    }

    /// The bounds as nanoseconds since the epoch.
    pub(crate) fn nanos(&self) -> [String; 2] {
        [&self.from, &self.to].map(|bound| format!("toUnixTimestamp64Nano({bound})"))
    }
}
