//! What the display columns say of spans, as SQL: in one place, so that a list of traces, an outline of one and numbers
//! about many never disagree about which spans failed, or how long they took.

use tracewarden_model::{ColumnType, Display};

use crate::select::known_column;
use crate::table::{BoundTable, plain_text};

/// What a span's status is when it failed, by the exporters that there are.
pub const ERROR_STATUSES: [&str; 3] = ["Error", "STATUS_CODE_ERROR", "ERROR"];

/// The display columns that are bound and still there, each as an expression over a span.
pub(crate) struct Shown {
    /// As a plain string, as are the next three.
    pub(crate) name: Option<String>,
    pub(crate) service: Option<String>,
    pub(crate) kind: Option<String>,
    status: Option<String>,
    took: Option<Took>,
}

/// How long a span took, as the duration's column says.
struct Took {
    /// Nanoseconds in 64 bits, from 0 on.
    nanos: String,
    /// Whether the column says something that is no duration.
    invalid: String,
}

impl Took {
    /// Of a span that ends before it begins, exporters write a negative number, or in an unsigned column one that wrapped
    /// round below zero to some 580 years. Both are no durations, nor is what a float holds that is no number: they count
    /// as 0. Whatever shows, counts or orders durations takes them from here.
    fn of(quoted: &str, column_type: &ColumnType) -> Self {
        let nanos = |invalid: &str, raw: &str| format!("if({invalid}, toInt64(0), toInt64({raw}))");
        if let ColumnType::Integer { bits: ..=64, signed } = column_type {
            // Without a conversion of every span to 128 bits.
            let invalid =
                if *signed { format!("({quoted} < 0)") } else { format!("({quoted} > 9223372036854775807)") };
            return Self { nanos: nanos(&invalid, quoted), invalid };
        }
        // In 128 bits, where nothing overflows.
        let raw = match column_type {
            ColumnType::Float { .. } => {
                format!("toInt128(if(isFinite({quoted}), least(greatest({quoted}, -1), 1e19), -1))")
            }
            _ => format!("toInt128({quoted})"),
        };
        let invalid = format!("({raw} < 0 OR {raw} > 9223372036854775807)");
        Self { nanos: nanos(&invalid, &raw), invalid }
    }
}

impl Shown {
    pub(crate) fn of(table: &BoundTable, display: &Display) -> Self {
        let column = |name: &Option<String>| known_column(table, name.as_deref());
        let text = |name: &Option<String>| {
            column(name).map(|(column, quoted)| plain_text(&quoted, &column.column_type))
        };
        let took =
            column(&display.duration).map(|(column, quoted)| Took::of(&quoted, column.column_type.bare()));
        Self {
            name: text(&display.name),
            service: text(&display.service),
            kind: text(&display.kind),
            status: text(&display.status),
            took,
        }
    }

    /// Whether anything says which spans failed.
    pub(crate) fn has_status(&self) -> bool {
        self.status.is_some()
    }

    /// Whether the span's status says that it failed; never without a column for it.
    pub(crate) fn failed(&self) -> String {
        match &self.status {
            Some(status) => format!("{status} IN ('{}')", ERROR_STATUSES.join("', '")),
            None => "0".to_owned(),
        }
    }

    /// Whether anything says how long spans took.
    pub(crate) fn has_durations(&self) -> bool {
        self.took.is_some()
    }

    /// How long the span took, in nanoseconds of 64 bits, from 0 on; NULL without a column for it.
    pub(crate) fn nanos(&self) -> &str {
        self.took.as_ref().map_or("NULL", |took| &took.nanos)
    }

    /// Whether its duration is none, so that it counts as 0; never without a column for it.
    pub(crate) fn is_invalid(&self) -> &str {
        self.took.as_ref().map_or("0", |took| &took.invalid)
    }

    /// When the span ended, in nanoseconds since the epoch, in 128 bits; when it began, where nothing says how long it took.
    fn end(&self, table: &BoundTable) -> String {
        let start = start(table);
        match &self.took {
            Some(took) => format!("{start} + {}", took.nanos),
            None => start,
        }
    }

    /// Of a group of spans: from the start of the earliest to the end of the one that ends last, in nanoseconds of 64 bits.
    pub(crate) fn whole(&self, table: &BoundTable) -> String {
        as_duration(&format!("max({}) - min({})", self.end(table), start(table)))
    }
}

/// When the span began, in nanoseconds since the epoch: in 128 bits, so that nothing overflows and none is lost.
fn start(table: &BoundTable) -> String {
    format!("(toInt128({}) * {})", table.ticks, table.nanos_per_tick)
}

/// Nanoseconds of 128 bits as 64: none are negative, and more than fit are as many as do.
///
/// Not by `greatest` and `least`. Seen with 26.7: once a statement has been asked so often that the store compiles its
/// expressions, these take a negative integer of 128 bits for an enormous one.
fn as_duration(nanos: &str) -> String {
    format!(
        "multiIf({nanos} <= 0, toInt64(0), {nanos} >= 9223372036854775807, toInt64(9223372036854775807), toInt64({nanos}))"
    )
}
