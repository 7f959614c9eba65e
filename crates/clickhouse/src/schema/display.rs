//! Writes the display columns of spans as SQL, in one place: a list of traces, an outline of one and statistics about many
//! then always agree on which spans failed, and how long they took.

use tracewarden_model::{ColumnType, Display, NumberType, TimeUnit};

use crate::schema::column::{Column, plain_text};
use crate::schema::table::{BoundTable, TimeExpressions, known_column};
use crate::sql::{Statement, quote};

/// The display columns that are bound and that the table still has, each as an expression over a span.
pub(crate) struct DisplayExpressions {
    /// As a plain string, like the next three.
    pub(crate) name: Option<String>,
    pub(crate) service: Option<String>,
    pub(crate) kind: Option<String>,
    status: Option<String>,
    error_values: Vec<String>,
    duration: Option<DurationExpressions>,
}

/// The duration of a span.
struct DurationExpressions {
    /// Nanoseconds in 64 bits, not negative.
    nanos: String,
    /// Whether the stored value is not a valid duration.
    invalid: String,
}

impl DurationExpressions {
    /// Writes the duration from its column. For a span that ends before it begins, exporters write a negative number, or in an
    /// unsigned column one that wrapped around below zero to some 580 years. Neither is a valid duration, nor is a float that
    /// is not a finite number: they count as 0. All code that shows, counts or orders durations uses this.
    fn of_column(quoted: &str, column_type: &ColumnType, unit: TimeUnit) -> Self {
        if let (ColumnType::Number(NumberType::Integer { bits: ..=64, signed }), TimeUnit::Nanoseconds) =
            (column_type, unit)
        {
            // Without converting every span to 128 bits.
            let invalid =
                if *signed { format!("({quoted} < 0)") } else { format!("({quoted} > 9223372036854775807)") };
            return Self { nanos: valid_nanos(&invalid, quoted), invalid };
        }
        // In 128 bits, where nothing overflows.
        let scaled = |value: String| match unit {
            TimeUnit::Nanoseconds => value,
            unit => format!("{value} * {}", unit.nanos()),
        };
        Self::of_128_bits(&match column_type {
            ColumnType::Number(NumberType::Float { .. }) => {
                let nanos = scaled(quoted.to_owned());
                format!("toInt128(if(isFinite({quoted}), least(greatest({nanos}, -1), 1e19), -1))")
            }
            _ => scaled(format!("toInt128({quoted})")),
        })
    }

    /// Writes the duration from the end of the span. One without an end, or with the epoch as its end, is not finished, and
    /// has no duration yet.
    fn until(end: &Column, unit: Option<TimeUnit>, table: &BoundTable) -> Option<Self> {
        let quoted = quote(&end.name);
        // `least` ignores NULL, so that it must not get there.
        let value =
            if end.column_type.is_nullable() { format!("assumeNotNull({quoted})") } else { quoted.clone() };
        let time = TimeExpressions::of_value(value, end.column_type.bare(), unit)?;
        let per_tick = 10_i64.pow(9 - u32::from(time.precision));
        let ticks = match end.column_type.is_nullable() {
            true => format!("if(isNull({quoted}), toInt64(0), {})", time.ticks),
            false => time.ticks,
        };
        let raw = format!("if({ticks} = 0, toInt128(0), toInt128({ticks}) * {per_tick} - {})", start(table));
        Some(Self::of_128_bits(&format!("({raw})")))
    }

    /// Writes the duration from nanoseconds in 128 bits.
    fn of_128_bits(raw: &str) -> Self {
        let invalid = format!("({raw} < 0 OR {raw} > 9223372036854775807)");
        Self { nanos: valid_nanos(&invalid, raw), invalid }
    }
}

fn valid_nanos(invalid: &str, raw: &str) -> String {
    format!("if({invalid}, toInt64(0), toInt64({raw}))")
}

impl DisplayExpressions {
    pub(crate) fn new(table: &BoundTable, display: &Display) -> Self {
        let column = |name: &Option<String>| known_column(table, name.as_deref());
        let text = |name: &Option<String>| {
            column(name).map(|(column, quoted)| plain_text(&quoted, &column.column_type))
        };
        let unit = display.duration_unit.unwrap_or_default();
        let duration = column(&display.duration)
            .map(|(column, quoted)| DurationExpressions::of_column(&quoted, column.column_type.bare(), unit));
        let until_end = || DurationExpressions::until(column(&display.end)?.0, table.timestamp_unit, table);
        Self {
            name: text(&display.name),
            service: text(&display.service),
            kind: text(&display.kind),
            status: text(&display.status),
            error_values: display.statuses_of_errors(),
            duration: duration.or_else(until_end),
        }
    }

    /// Whether a column tells which spans failed.
    pub(crate) fn has_status(&self) -> bool {
        self.status.is_some()
    }

    /// Writes whether the span's status is an error; false without a status column.
    pub(crate) fn is_error(&self, statement: &mut Statement) -> String {
        match &self.status {
            Some(status) => format!("{status} IN ({})", statement.string_parameters(&self.error_values)),
            None => "0".to_owned(),
        }
    }

    /// Whether a column tells how long spans took, or when they ended.
    pub(crate) fn has_duration(&self) -> bool {
        self.duration.is_some()
    }

    /// Writes the duration of the span in nanoseconds, in 64 bits, not negative; NULL without duration and end.
    pub(crate) fn duration_nanos(&self) -> &str {
        self.duration.as_ref().map_or("NULL", |duration| &duration.nanos)
    }

    /// Writes whether the duration is invalid, so that it counts as 0; false without a duration column.
    pub(crate) fn is_duration_invalid(&self) -> &str {
        self.duration.as_ref().map_or("0", |duration| &duration.invalid)
    }

    /// Writes the end of the span, in nanoseconds since the epoch, in 128 bits. Without a duration column, it is the start.
    fn end(&self, table: &BoundTable) -> String {
        let start = start(table);
        match &self.duration {
            Some(duration) => format!("{start} + {}", duration.nanos),
            None => start,
        }
    }

    /// Writes, for a group of spans, the time from the earliest start to the latest end, in nanoseconds of 64 bits.
    /// Negative ones become 0, and too large ones the maximum.
    ///
    /// Without `greatest` and `least`. Observed with 26.7: once a statement has run so often that ClickHouse compiles its
    /// expressions, these treat a negative 128-bit integer as an enormous one.
    pub(crate) fn trace_duration(&self, table: &BoundTable) -> String {
        let nanos = format!("max({}) - min({})", self.end(table), start(table));
        format!(
            "multiIf({nanos} <= 0, toInt64(0), {nanos} >= 9223372036854775807, toInt64(9223372036854775807), toInt64({nanos}))"
        )
    }
}

/// Writes the start of the span, in nanoseconds since the epoch: in 128 bits, so that nothing overflows.
fn start(table: &BoundTable) -> String {
    format!("(toInt128({}) * {})", table.ticks, table.nanos_per_tick)
}
