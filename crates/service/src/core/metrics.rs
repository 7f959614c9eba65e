//! Metrics of the service. Labels are constants of this program: they contain no names, no ids and no client input.

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracewarden_policy::CompiledPolicies;

use crate::core::audit_event::Outcome;
use crate::core::error::{Result, ServiceError};
use crate::core::principal::Credential;

/// Histogram buckets in seconds, from an empty page to the largest one.
const SECONDS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Metrics of the service. Cheap to clone; clones share their counters.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    reads: Family<Labels<2>, Counter>,
    seconds: Family<Labels<1>, Histogram, fn() -> Histogram>,
    running: Gauge,
    pub(crate) over_limit: Counter,
    traces: Counter,
    spans: Counter,
    sign_ins: Family<Labels<1>, Counter>,
    unauthenticated: Family<Labels<1>, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            reads: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            running: Gauge::default(),
            over_limit: Counter::default(),
            traces: Counter::default(),
            spans: Counter::default(),
            sign_ins: Family::default(),
            unauthenticated: Family::default(),
        };
        // Counters start as zero instead of being absent, so that an alert on a rate notices the first event.
        for outcome in ["success", "invalid", "throttled", "over_limit", "failed"] {
            drop(metrics.sign_ins.get_or_create(&[("outcome", outcome)]));
        }
        for credential in ["session", "api_key"] {
            drop(metrics.unauthenticated.get_or_create(&[("credential", credential)]));
        }
        metrics
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { reads, seconds, running, over_limit, traces, spans, sign_ins, unauthenticated } = self;
        registry.register(
            "tracewarden_trace_reads",
            "Completed reads of traces, by action and outcome",
            reads.clone(),
        );
        registry.register(
            "tracewarden_trace_read_duration_seconds",
            "Time from the first to the second audit record of a read of traces",
            seconds.clone(),
        );
        registry.register("tracewarden_trace_reads_running", "Reads of traces in progress", running.clone());
        registry.register(
            "tracewarden_trace_reads_over_limit",
            "Reads of traces refused because the user reached the limit of concurrent reads",
            over_limit.clone(),
        );
        registry.register("tracewarden_traces_returned", "Traces returned", traces.clone());
        registry.register("tracewarden_spans_returned", "Spans returned", spans.clone());
        registry.register("tracewarden_logins", "Attempts to sign in, by outcome", sign_ins.clone());
        registry.register(
            "tracewarden_authentication_refusals",
            "Requests whose session or key was not valid",
            unauthenticated.clone(),
        );
    }

    pub(crate) fn start_read(&self, action: &'static str) -> ReadMeasurement {
        self.running.inc();
        ReadMeasurement {
            metrics: self.clone(),
            action,
            since: Instant::now(),
            outcome: Outcome::Aborted,
            traces: 0,
            spans: 0,
        }
    }

    pub(crate) fn sign_in<T>(&self, result: &Result<T>) {
        let outcome = match result {
            Ok(_) => "success",
            Err(ServiceError::InvalidCredentials) => "invalid",
            Err(ServiceError::TooManyAttempts { .. }) => "throttled",
            Err(ServiceError::Overloaded { .. }) => "over_limit",
            Err(_) => "failed",
        };
        self.sign_ins.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn unauthenticated(&self, credential: &Credential) {
        let credential = match credential {
            Credential::Session(_) => "session",
            Credential::ApiKey(_) => "api_key",
            Credential::AccessToken(_) => "access_token",
        };
        self.unauthenticated.get_or_create(&[("credential", credential)]).inc();
    }
}

/// Cache hits and misses of compiled policies.
#[derive(Debug)]
pub(crate) struct PolicyCacheCollector(pub(crate) Arc<CompiledPolicies>);

impl Collector for PolicyCacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let cache_stats = self.0.cache_stats();
        let counts = [
            (
                "tracewarden_policies_reused",
                "Stored policies whose compiled form was reused",
                cache_stats.found,
            ),
            (
                "tracewarden_policies_compiled",
                "Stored policies that had to be compiled",
                cache_stats.compiled,
            ),
        ];
        for (name, help, count) in counts {
            let counter = ConstCounter::new(count);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}

/// A read of traces in progress; counted when it is dropped, as aborted unless it ended before.
#[derive(Debug)]
pub(crate) struct ReadMeasurement {
    metrics: Metrics,
    action: &'static str,
    since: Instant,
    pub(crate) outcome: Outcome,
    /// Number of traces returned so far.
    pub(crate) traces: u64,
    /// Number of spans returned so far.
    pub(crate) spans: u64,
}

impl Drop for ReadMeasurement {
    fn drop(&mut self) {
        let Metrics { reads, seconds, running, traces, spans, .. } = &self.metrics;
        let action = ("action", self.action);
        running.dec();
        seconds.get_or_create(&[action]).observe(self.since.elapsed().as_secs_f64());
        reads.get_or_create(&[action, ("outcome", self.outcome.into())]).inc();
        traces.inc_by(self.traces);
        spans.inc_by(self.spans);
    }
}
