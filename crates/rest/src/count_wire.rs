//! Wire types that describe a count of traces: the set of traces, the accuracy and the cost.

use serde::Serialize;
use tracewarden_model::Window;
use tracewarden_service::{Cost, CountedTraces};
use utoipa::ToSchema;

use crate::wire::Time;

/// The set of traces that was counted.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CountedTraces)]
enum WireCountedTraces {
    /// All traces in the window.
    All,
    /// The traces that the caller may read, because the setting `discovery_samples` is off.
    Readable,
}

impl From<CountedTraces> for WireCountedTraces {
    fn from(counted_traces: CountedTraces) -> Self {
        match counted_traces {
            CountedTraces::All => Self::All,
            CountedTraces::Readable => Self::Readable,
        }
    }
}

/// Resources that ClickHouse used.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
pub(crate) struct WireCost {
    /// Rows read.
    rows: u64,
    /// Uncompressed bytes read.
    bytes: u64,
    /// Execution time in milliseconds.
    milliseconds: u64,
}

impl From<Cost> for WireCost {
    fn from(Cost { rows, bytes, elapsed }: Cost) -> Self {
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Self { rows, bytes, milliseconds }
    }
}

/// The traces that were counted, and the accuracy of the counts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Counted)]
pub(crate) struct WireCounted {
    /// Start of the window.
    from: Time,
    /// End of the window.
    to: Time,
    /// The set of traces that was counted.
    among: WireCountedTraces,
    /// Whether only a sample was evaluated, for lack of time. The counts of traces are then estimates for the whole window, and
    /// the counts of values are those of the sample.
    sampled: bool,
    /// Fraction of the traces that was read; 1 when the counts are exact.
    fraction: f64,
    /// Resources used.
    cost: WireCost,
    /// Parts that were left out, with the reason, as readable text.
    notes: Vec<String>,
}

impl WireCounted {
    pub(crate) fn new(
        window: Window,
        among: CountedTraces,
        fraction: f64,
        cost: Cost,
        notes: Vec<String>,
    ) -> Self {
        let (from, to) = (window.from().into(), window.to().into());
        Self { from, to, among: among.into(), sampled: fraction < 1.0, fraction, cost: cost.into(), notes }
    }
}
