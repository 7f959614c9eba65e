//! Sample traces of a believable web shop: fourteen services of three teams, three hundred tenants, one day.
//!
//! The same seed and the same moment give the same spans, bit for bit. Nothing here reads the clock.

mod assistant;
mod builder;
mod calls;
mod chance;
mod checkout;
mod hard_to_show;
mod landmarks;
mod logistics;
mod otlp;
mod payments;
mod people;
mod reindex;
mod services;
mod span;
mod storefront;
#[cfg(test)]
mod tests;
mod timeline;
mod traffic;

pub use hard_to_show::{HardToShow, LARGE_SPANS};
pub use landmarks::Landmarks;
pub use otlp::{Batch, Batches, SPANS_A_REQUEST};
pub use people::{OTHER_TENANT, SUPPORTED_TENANTS, TENANTS, tenant};
pub use reindex::REINDEX_SPANS;
pub use services::{Environment, Service, Team};
pub use span::{Attributes, Event, Kind, Link, Span, SpanId, Status, Trace, TraceId, Value};

use timeline::Timeline;
use traffic::Traffic;

/// The seed of the demo, and of whatever has no reason for another.
pub const SEED: u64 = 7;

/// Ordinary traffic has at least this many spans unless asked otherwise; the landmarks come on top.
pub const SPANS: usize = 205_000;

/// One sample: what it holds is a function of these values alone.
#[derive(Clone, Copy, Debug)]
pub struct Shop {
    seed: u64,
    now_unix_nanos: u64,
    spans: usize,
}

impl Shop {
    /// The day before the given moment, in nanoseconds since 1970.
    pub fn new(seed: u64, now_unix_nanos: u64) -> Self {
        Self { seed, now_unix_nanos, spans: SPANS }
    }

    /// With at least this many spans of ordinary traffic.
    #[must_use]
    pub fn with_spans(self, spans: usize) -> Self {
        Self { spans, ..self }
    }

    /// All spans lie in this half-open window, in nanoseconds since 1970.
    pub fn window(&self) -> (u64, u64) {
        Timeline::new(self.now_unix_nanos).window()
    }

    /// When the provider of card payments did not answer, in nanoseconds since 1970.
    pub fn incident(&self) -> (u64, u64) {
        Timeline::new(self.now_unix_nanos).incident()
    }

    /// The traces that tests and demos point at.
    pub fn landmarks(&self) -> Landmarks {
        Landmarks::of(self.seed)
    }

    /// Traces that are no part of the sample: what shows traces must bear them too.
    pub fn hard_to_show(&self) -> (HardToShow, impl Iterator<Item = Trace> + use<>) {
        let ids = HardToShow::of(self.seed);
        (ids, hard_to_show::traces(self.seed, Timeline::new(self.now_unix_nanos)))
    }

    /// Every trace, landmarks first. Made one by one: memory does not grow with the sample.
    pub fn traces(&self) -> impl Iterator<Item = Trace> + use<> {
        let timeline = Timeline::new(self.now_unix_nanos);
        landmarks::traces(self.seed, timeline).chain(Traffic::new(self.seed, timeline, self.spans))
    }

    /// Every trace as requests of an OTLP exporter, with [`SPANS_A_REQUEST`] spans at most.
    pub fn batches(&self) -> impl Iterator<Item = Batch> + use<> {
        Batches::new(self.traces(), SPANS_A_REQUEST)
    }
}
