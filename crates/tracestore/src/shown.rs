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
    /// Nanoseconds in 128 bits, where nothing overflows; as they are written, so perhaps negative.
    pub(crate) nanos: Option<String>,
}

impl Shown {
    pub(crate) fn of(table: &BoundTable, display: &Display) -> Self {
        let column = |name: &Option<String>| known_column(table, name.as_deref());
        let text = |name: &Option<String>| {
            column(name).map(|(column, quoted)| plain_text(&quoted, &column.column_type))
        };
        let nanos = column(&display.duration).map(|(column, quoted)| match column.column_type.bare() {
            ColumnType::Float { .. } => {
                format!("toInt128(if(isFinite({quoted}), least(greatest({quoted}, -9e18), 9e18), 0))")
            }
            _ => format!("toInt128({quoted})"),
        });
        Self {
            name: text(&display.name),
            service: text(&display.service),
            kind: text(&display.kind),
            status: text(&display.status),
            nanos,
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

    /// When the span ended, in nanoseconds since the epoch, in 128 bits; when it began, where nothing says how long it took.
    pub(crate) fn end(&self, table: &BoundTable) -> String {
        let start = start(table);
        match &self.nanos {
            Some(nanos) => format!("{start} + {nanos}"),
            None => start,
        }
    }
}

/// When the span began, in nanoseconds since the epoch: in 128 bits, so that nothing overflows and none is lost.
pub(crate) fn start(table: &BoundTable) -> String {
    format!("(toInt128({}) * {})", table.ticks, table.nanos_per_tick)
}

/// Nanoseconds of 128 bits as 64: none are negative, and more than fit are as many as do.
///
/// Not by `greatest` and `least`. Seen with 26.7: once a statement has been asked so often that the store compiles its
/// expressions, these take a negative integer of 128 bits for an enormous one.
pub(crate) fn as_duration(nanos: &str) -> String {
    format!(
        "multiIf({nanos} <= 0, toInt64(0), {nanos} >= 9223372036854775807, toInt64(9223372036854775807), toInt64({nanos}))"
    )
}
