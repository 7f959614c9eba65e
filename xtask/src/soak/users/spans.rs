//! The spans that are written before and during the soak, and the expected facts about each trace.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use prost::Message as _;
use tracewarden_sample_data::{Batches, SPANS_PER_REQUEST, Shop, Trace};

use super::policies::{self, Mask};
use super::shared::SharedState;
use crate::demo::{load, now};

/// Number of spans of the previous day.
const SAMPLE: usize = 60_000;
/// Number of traces per batch during the soak, and the interval between batches.
const BATCH: usize = 8;
const EVERY: Duration = Duration::from_secs(2);

/// Known facts about a trace.
pub struct ExpectedTrace {
    pub id: String,
    /// Conditions that some span of the trace satisfies.
    pub satisfied: Mask,
    pub spans: usize,
    /// Start time of each span, in nanoseconds since 1970.
    starts: Box<[u64]>,
    /// Time at which ClickHouse acknowledged all spans. Until then, the trace may be absent or incomplete.
    pub written: Option<Instant>,
}

impl ExpectedTrace {
    fn of(trace: &Trace, written: Option<Instant>) -> Self {
        Self {
            id: trace.id.to_string(),
            satisfied: policies::satisfied(trace),
            spans: trace.spans.len(),
            starts: trace.spans.iter().map(|span| span.start_unix_nanos).collect(),
            written,
        }
    }

    pub fn is_in(&self, (from, to): (u64, u64)) -> bool {
        self.starts.iter().any(|start| (from..to).contains(start))
    }

    pub fn was_written(&self, before: Instant) -> bool {
        self.written.is_some_and(|written| written < before)
    }
}

/// All traces, those of the previous day first.
#[derive(Default)]
pub struct ExpectedTraces {
    all: Vec<ExpectedTrace>,
    by_id: HashMap<String, usize>,
    /// Number of traces of the previous day. No spans are added to their window.
    pub sample: usize,
}

impl ExpectedTraces {
    fn add(&mut self, expected_trace: ExpectedTrace) {
        self.by_id.insert(expected_trace.id.clone(), self.all.len());
        self.all.push(expected_trace);
    }

    pub fn get(&self, id: &str) -> Option<&ExpectedTrace> {
        self.by_id.get(id).and_then(|index| self.all.get(*index))
    }

    pub fn at(&self, index: usize) -> Option<&ExpectedTrace> {
        self.all.get(index)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the traces of the previous day with a span in the window.
    pub fn within(&self, window: (u64, u64)) -> impl Iterator<Item = &ExpectedTrace> {
        self.all.iter().take(self.sample).filter(move |expected_trace| expected_trace.is_in(window))
    }
}

/// The written spans.
pub struct WrittenSpans {
    expected_traces: RwLock<ExpectedTraces>,
    /// Time range of all spans of the previous day.
    pub window: (u64, u64),
    /// Locked while spans are sent and while ClickHouse is down: if a request was cut off, it would be unknown whether its spans
    /// were written.
    pub writing: Mutex<()>,
}

impl WrittenSpans {
    /// Sends the spans of the previous day.
    pub fn begin(seed: u64, otlp: &str) -> Result<Self> {
        let shop = Shop::new(seed, now()?).with_spans(SAMPLE);
        let mut expected_traces = ExpectedTraces::default();
        let traces = shop
            .traces()
            .inspect(|trace| expected_traces.add(ExpectedTrace::of(trace, Some(Instant::now()))));
        load::send(traces, SAMPLE, otlp)?;
        expected_traces.sample = expected_traces.len();
        Ok(Self {
            expected_traces: RwLock::new(expected_traces),
            window: shop.window(),
            writing: Mutex::new(()),
        })
    }

    pub fn expected_traces(&self) -> RwLockReadGuard<'_, ExpectedTraces> {
        self.expected_traces.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a few traces that start now.
    fn write(&self, traces: Vec<Trace>, otlp: &str) -> Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let ids: Vec<String> = traces.iter().map(|trace| trace.id.to_string()).collect();
        {
            let mut expected_traces = self.expected_traces.write().unwrap_or_else(PoisonError::into_inner);
            traces.iter().for_each(|trace| expected_traces.add(ExpectedTrace::of(trace, None)));
        }
        // Use a new connection each time, because the store may have been restarted since the last request.
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60))).build().into();
        for batch in Batches::new(traces.into_iter(), SPANS_PER_REQUEST) {
            let request = agent.post(otlp).header("content-type", "application/x-protobuf");
            let answer = request
                .send(&batch.request.encode_to_vec())
                .context("the local store does not accept spans")?;
            if answer.status() != 200 {
                bail!("the local store refused spans with {}", answer.status());
            }
        }
        let written = Instant::now();
        let mut expected_traces = self.expected_traces.write().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            let index = expected_traces.by_id.get(&id).copied();
            if let Some(expected_trace) = index.and_then(|index| expected_traces.all.get_mut(index)) {
                expected_trace.written = Some(written);
            }
        }
        Ok(())
    }
}

/// Writes spans until the soak ends.
pub fn run_until_end(shared: &SharedState, otlp: &str) {
    let mut seed = shared.seed;
    let mut traces: Box<dyn Iterator<Item = Trace>> = Box::new(std::iter::empty());
    while !shared.is_over() {
        let begun = Instant::now();
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(trace) = traces.next() else {
                seed = seed.wrapping_add(1);
                let shop = Shop::new(seed, shared.written.window.1).with_spans(SAMPLE);
                // The first traces are landmarks, which may have thousands of spans.
                traces = Box::new(shop.traces().filter(|trace| trace.spans.len() <= 200));
                continue;
            };
            let known = shared.written.expected_traces().get(&trace.id.to_string()).is_some();
            if let (false, Ok(now)) = (known, now()) {
                batch.push(moved(trace, now));
            }
        }
        if let Err(error) = shared.written.write(batch, otlp) {
            shared.wrong(format!("{error:#}"));
        }
        thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
}

/// Returns the trace shifted to start at `to`.
fn moved(mut trace: Trace, to: u64) -> Trace {
    let from = trace.start_unix_nanos();
    let shift = |time: u64| time.saturating_sub(from).saturating_add(to);
    for span in &mut trace.spans {
        span.start_unix_nanos = shift(span.start_unix_nanos);
        span.end_unix_nanos = shift(span.end_unix_nanos);
        for event in &mut span.events {
            event.time_unix_nanos = shift(event.time_unix_nanos);
        }
    }
    trace
}
