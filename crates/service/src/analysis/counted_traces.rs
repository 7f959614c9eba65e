//! The set of traces that an administrator may count.

use serde::Serialize;
use tracewarden_clickhouse::Cost;
use tracewarden_model::{Timestamp, Window};
use utoipa::ToSchema;

use crate::analysis::Analysis;

/// The set of traces that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedTraces {
    /// All traces in the window.
    All,
    /// The traces that the caller may read, because the setting `discovery_samples` is off.
    Readable,
}

/// The traces that were counted, and the accuracy of the counts.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Counted {
    /// Start of the window.
    pub from: Timestamp,
    /// End of the window.
    pub to: Timestamp,
    /// The set of traces that was counted.
    pub counted_traces: CountedTraces,
    /// Whether only a sample was evaluated, for lack of time. The counts of traces are then estimates for the whole window, and
    /// the counts of values are those of the sample.
    pub sampled: bool,
    /// Fraction of the traces that was read; 1 when the counts are exact.
    // If several statements read different shares, the smallest.
    pub fraction: f64,
    /// Resources used.
    pub cost: Cost,
    /// Parts that were left out, with the reason, as readable text.
    pub notes: Vec<String>,
}

impl Counted {
    /// Returns the description of exact counts.
    pub(crate) fn new(window: Window, counted_traces: CountedTraces) -> Self {
        let (from, to) = (window.from(), window.to());
        Self {
            from,
            to,
            counted_traces,
            sampled: false,
            fraction: 1.0,
            cost: Cost::default(),
            notes: Vec::new(),
        }
    }
}

impl Analysis {
    /// Returns the set of traces that administrators may count.
    pub(crate) fn counted_traces(&self) -> CountedTraces {
        if self.core.settings.discovery_samples { CountedTraces::All } else { CountedTraces::Readable }
    }
}
