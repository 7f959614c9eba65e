//! Metrics of transactions and audit records.

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Histogram buckets in seconds, from a look-up in a file to the longest wait.
const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Kind of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only reads.
    Read,
    /// Also writes.
    Write,
}

impl Kind {
    fn label(self) -> KindLabels {
        KindLabels {
            kind: match self {
                Self::Read => "read",
                Self::Write => "write",
            },
        }
    }
}

/// Step at which a transaction failed. `begin`: no connection was available, or the wait for other writers was too
/// long. `statement`: a statement failed, or the transaction was abandoned during one. `commit`: the commit failed.
const BEGIN: StepLabels = StepLabels { step: "begin" };
const STATEMENT: StepLabels = StepLabels { step: "statement" };
const COMMIT: StepLabels = StepLabels { step: "commit" };

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

type Durations = Family<KindLabels, Histogram, fn() -> Histogram>;

/// Metrics of a database. Cheap to clone; clones share their counters.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wait: Durations,
    transaction: Durations,
    failures: Family<StepLabels, Counter>,
    statements: Counter,
    audit_records: Counter,
    audit_failures: Counter,
    audit_pruned: Counter,
    audit_prune_refusals: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let durations = || Durations::new_with_constructor(|| Histogram::new(SECONDS));
        let inner = Inner {
            wait: durations(),
            transaction: durations(),
            failures: Family::default(),
            statements: Counter::default(),
            audit_records: Counter::default(),
            audit_failures: Counter::default(),
            audit_pruned: Counter::default(),
            audit_prune_refusals: Counter::default(),
        };
        // Counters start at zero, so that an alert on a rate also detects the first event.
        for kind in [Kind::Read, Kind::Write] {
            drop(inner.wait.get_or_create(&kind.label()));
            drop(inner.transaction.get_or_create(&kind.label()));
        }
        for step in [BEGIN, STATEMENT, COMMIT] {
            drop(inner.failures.get_or_create(&step));
        }
        Self(Arc::new(inner))
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Inner {
            wait,
            transaction,
            failures,
            statements,
            audit_records,
            audit_failures,
            audit_pruned,
            audit_prune_refusals,
        } = self.0.as_ref();
        registry.register(
            "tracewarden_database_wait_seconds",
            "Time until a transaction of the application database began, including waits for a connection \
             and for earlier writers",
            wait.clone(),
        );
        registry.register(
            "tracewarden_database_transaction_seconds",
            "Duration of a transaction of the application database",
            transaction.clone(),
        );
        registry.register(
            "tracewarden_database_failures",
            "Failed transactions of the application database, by stage",
            failures.clone(),
        );
        registry.register(
            "tracewarden_database_statements",
            "Statements sent to the application database, except `BEGIN`, `COMMIT` and `ROLLBACK`",
            statements.clone(),
        );
        registry.register(
            "tracewarden_audit_records",
            "Audit records written durably",
            audit_records.clone(),
        );
        registry.register(
            "tracewarden_audit_write_failures",
            "Transactions with audit records that could not be committed",
            audit_failures.clone(),
        );
        registry.register(
            "tracewarden_audit_pruned_records",
            "Audit records removed for their age",
            audit_pruned.clone(),
        );
        registry.register(
            "tracewarden_audit_prune_refusals",
            "Removals of old audit records that were refused because the audit log fails verification",
            audit_prune_refusals.clone(),
        );
    }

    /// Number of statements sent so far.
    pub(crate) fn statements(&self) -> &Counter {
        &self.0.statements
    }

    /// Starts to measure the time until a transaction begins, and then the transaction itself.
    pub(crate) fn begin_timer(&self, kind: Kind) -> BeginTimer {
        BeginTimer { metrics: self.clone(), kind, since: Instant::now() }
    }
}

/// A transaction that is about to begin.
pub(crate) struct BeginTimer {
    metrics: Metrics,
    kind: Kind,
    since: Instant,
}

impl BeginTimer {
    pub(crate) fn finish<T, E>(self, result: Result<T, E>) -> Result<(T, TransactionMetrics), E> {
        let Self { metrics, kind, since } = self;
        metrics.0.wait.get_or_create(&kind.label()).observe(since.elapsed().as_secs_f64());
        match result {
            Ok(begun) => {
                let since = Instant::now();
                Ok((
                    begun,
                    TransactionMetrics { metrics, kind, since, usable: true, appended_records: 0, pruned: 0 },
                ))
            }
            Err(error) => {
                metrics.0.failures.get_or_create(&BEGIN).inc();
                Err(error)
            }
        }
    }
}

/// A running transaction; recorded when it is dropped.
pub(crate) struct TransactionMetrics {
    pub(crate) metrics: Metrics,
    kind: Kind,
    since: Instant,
    /// False while a statement runs and after one failed.
    pub(crate) usable: bool,
    /// Audit records written in the transaction, not yet known to be durable.
    pub(crate) appended_records: u64,
    /// Audit records removed in the transaction.
    pub(crate) pruned: u64,
}

impl TransactionMetrics {
    /// Counts a pruning that was refused because the log is broken.
    pub(crate) fn record_refused_prune(&self) {
        self.metrics.0.audit_prune_refusals.inc();
    }

    /// Records the result of a commit.
    pub(crate) fn record_commit<T, E>(mut self, result: Result<T, E>) -> Result<T, E> {
        if result.is_ok() {
            let Inner { audit_records, audit_pruned, .. } = self.metrics.0.as_ref();
            audit_records.inc_by(std::mem::take(&mut self.appended_records));
            audit_pruned.inc_by(std::mem::take(&mut self.pruned));
        } else {
            self.metrics.0.failures.get_or_create(&COMMIT).inc();
        }
        result
    }
}

impl Drop for TransactionMetrics {
    fn drop(&mut self) {
        let Inner { transaction, failures, audit_failures, .. } = self.metrics.0.as_ref();
        transaction.get_or_create(&self.kind.label()).observe(self.since.elapsed().as_secs_f64());
        if !self.usable {
            failures.get_or_create(&STATEMENT).inc();
        }
        if self.appended_records > 0 {
            audit_failures.inc();
        }
    }
}
