//! Sample traces of a realistic web shop: fourteen services of three teams, three hundred tenants, one day.
//!
//! The same seed and the same moment give the same spans, bit for bit. This code never reads the clock.

mod assistant;
mod attributes;
mod builder;
mod calls;
mod checkout;
mod landmarks;
mod logistics;
mod otlp;
mod payments;
mod reindex;
mod rng;
mod services;
mod span;
mod storefront;
#[cfg(test)]
mod tests;
mod timeline;
mod traffic;
mod ui_stress_traces;
mod visitors;

pub use attributes::{Attributes, Value};
pub use landmarks::Landmarks;
pub use otlp::{Batch, Batches, SPANS_PER_REQUEST};
pub use reindex::REINDEX_SPANS;
pub use services::{Environment, Service, Team};
pub use span::{Event, Kind, Link, Span, SpanId, Status, Trace, TraceId};
pub use ui_stress_traces::{LARGE_SPANS, UiStressTraces};
pub use visitors::{OTHER_TENANT, SUPPORTED_TENANTS, TENANTS, tenant};

use timeline::Timeline;
use traffic::Traffic;

/// The seed of the demo, and the default seed.
pub const SEED: u64 = 7;

/// Default for the minimum number of spans of ordinary traffic; landmarks are additional.
pub const SPANS: usize = 205_000;

/// A sample. Its content depends on these values only.
#[derive(Clone, Copy, Debug)]
pub struct Shop {
    seed: u64,
    now_unix_nanos: u64,
    spans: usize,
}

impl Shop {
    /// Creates a sample of the day before the given moment, in nanoseconds since 1970.
    pub fn new(seed: u64, now_unix_nanos: u64) -> Self {
        Self { seed, now_unix_nanos, spans: SPANS }
    }

    /// Sets the minimum number of spans of ordinary traffic.
    #[must_use]
    pub fn with_spans(self, spans: usize) -> Self {
        Self { spans, ..self }
    }

    /// Returns the half-open window of all spans, in nanoseconds since 1970.
    pub fn window(&self) -> (u64, u64) {
        Timeline::new(self.now_unix_nanos).window()
    }

    /// Returns the period in which the provider of card payments did not respond, in nanoseconds since 1970.
    pub fn incident(&self) -> (u64, u64) {
        Timeline::new(self.now_unix_nanos).incident()
    }

    /// Returns the traces that tests and demos refer to.
    pub fn landmarks(&self) -> Landmarks {
        Landmarks::of(self.seed)
    }

    /// Returns traces that are not part of the sample, for tests of user interfaces.
    pub fn ui_stress_traces(&self) -> (UiStressTraces, impl Iterator<Item = Trace> + use<>) {
        let ids = UiStressTraces::of(self.seed);
        (ids, ui_stress_traces::traces(self.seed, Timeline::new(self.now_unix_nanos)))
    }

    /// Returns every trace, landmarks first. Traces are generated one by one, so memory does not grow with the sample.
    pub fn traces(&self) -> impl Iterator<Item = Trace> + use<> {
        let timeline = Timeline::new(self.now_unix_nanos);
        landmarks::traces(self.seed, timeline).chain(Traffic::new(self.seed, timeline, self.spans))
    }

    /// Returns every trace as OTLP requests of at most [`SPANS_PER_REQUEST`] spans.
    pub fn batches(&self) -> impl Iterator<Item = Batch> + use<> {
        Batches::new(self.traces(), SPANS_PER_REQUEST)
    }
}
