//! Metrics of statements.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::ClickHouseError;
use crate::client::failure::FAILURE_REASONS;

/// Histogram buckets in seconds, from reading the columns to the longest query.
const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// How statements end: with the whole answer; with a reader that drops the rest of it; without a reachable endpoint; at their
/// time limit; refused or failed by ClickHouse; with an aborted answer; by a fault of this program.
const OUTCOMES: [&str; 7] =
    ["complete", "abandoned", "unavailable", "timeout", "refused", "broken", "internal"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// An endpoint, by host, port and path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    endpoint: String,
    reason: &'static str,
}

/// Counts the statements of a client. Cheap to clone; clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    statements: Family<OutcomeLabels, Counter>,
    seconds: Histogram,
    running: Gauge,
    healthy: Family<EndpointLabels, Gauge>,
    requests: Family<EndpointLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    /// Statements that another endpoint, or a retry, answered after a failure.
    pub(crate) failovers: Counter,
}

impl Metrics {
    /// Creates the metrics, with these endpoints, which work until one fails.
    pub(crate) fn new<'a>(endpoints: impl Iterator<Item = &'a str>) -> Self {
        let metrics = Self {
            statements: Family::default(),
            seconds: Histogram::new(SECONDS),
            running: Gauge::default(),
            healthy: Family::default(),
            requests: Family::default(),
            failures: Family::default(),
            failovers: Counter::default(),
        };
        // Outcomes that have not happened yet are exported as zero: an alert on a rate then notices the first one, too.
        for outcome in OUTCOMES {
            drop(metrics.statements.get_or_create(&OutcomeLabels { outcome }));
        }
        for endpoint in endpoints.map(str::to_owned) {
            metrics.set_healthy(&endpoint, true);
            drop(metrics.requests.get_or_create(&EndpointLabels { endpoint: endpoint.clone() }));
            for reason in FAILURE_REASONS {
                drop(metrics.failures.get_or_create(&FailureLabels { endpoint: endpoint.clone(), reason }));
            }
        }
        metrics
    }

    pub(crate) fn set_healthy(&self, endpoint: &str, healthy: bool) {
        self.healthy.get_or_create(&EndpointLabels { endpoint: endpoint.to_owned() }).set(healthy.into());
    }

    /// Counts a statement that was sent to an endpoint, and the reason of its failure, if any.
    pub(crate) fn record_request(&self, endpoint: &str, failure: Option<&'static str>) {
        self.requests.get_or_create(&EndpointLabels { endpoint: endpoint.to_owned() }).inc();
        if let Some(reason) = failure {
            self.failures.get_or_create(&FailureLabels { endpoint: endpoint.to_owned(), reason }).inc();
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { statements, seconds, running, healthy, requests, failures, failovers } = self;
        registry.register(
            "tracewarden_clickhouse_endpoint_up",
            "Whether a ClickHouse endpoint is healthy (1) or marked unhealthy (0)",
            healthy.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_endpoint_requests",
            "Statements sent to an endpoint, including health checks",
            requests.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_endpoint_failures",
            "Statements that failed at an endpoint, by reason",
            failures.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_failovers",
            "Statements that were answered after a failure at an endpoint",
            failovers.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_statements",
            "Statements sent to ClickHouse, by outcome",
            statements.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_statement_duration_seconds",
            "Time from sending a statement to the end of its response",
            seconds.clone(),
        );
        registry.register(
            "tracewarden_clickhouse_statements_running",
            "Statements in progress",
            running.clone(),
        );
    }

    pub(crate) fn begin(&self) -> InFlightStatement {
        self.running.inc();
        InFlightStatement { metrics: self.clone(), since: Instant::now(), outcome: None }
    }
}

/// A running statement; counted when it is dropped.
pub(crate) struct InFlightStatement {
    metrics: Metrics,
    since: Instant,
    outcome: Option<&'static str>,
}

impl InFlightStatement {
    pub(crate) fn record_complete(&mut self) {
        self.outcome.get_or_insert("complete");
    }

    /// Records that the statement failed. Later outcomes do not count.
    pub(crate) fn record_failure(&mut self, error: &ClickHouseError) {
        self.outcome.get_or_insert(match error {
            ClickHouseError::Unavailable { .. } => "unavailable",
            ClickHouseError::Timeout(_) => "timeout",
            ClickHouseError::Memory(_)
            | ClickHouseError::TooLarge(_)
            | ClickHouseError::Exception { .. }
            | ClickHouseError::Unusable(_) => "refused",
            ClickHouseError::IncompleteResponse(_) => "broken",
            ClickHouseError::UnknownColumn { .. }
            | ClickHouseError::FieldsChanged(_)
            | ClickHouseError::InvalidBinding(_)
            | ClickHouseError::TableChanged(_)
            | ClickHouseError::Internal(_) => "internal",
        });
    }
}

impl Drop for InFlightStatement {
    fn drop(&mut self) {
        let Metrics { statements, seconds, running, .. } = &self.metrics;
        running.dec();
        seconds.observe(self.since.elapsed().as_secs_f64());
        let outcome = self.outcome.unwrap_or("abandoned");
        statements.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
