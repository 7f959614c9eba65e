//! Metrics of transactions and audit records.

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::DbError;

/// Histogram buckets in seconds, from a look-up in a file to the longest wait.
const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// A label with its value.
pub(crate) type Labels = [(&'static str, &'static str); 1];

/// Kind of a transaction that only reads.
pub(crate) const READ: Labels = [("kind", "read")];
/// Kind of a transaction that also writes.
pub(crate) const WRITE: Labels = [("kind", "write")];

/// Step at which a transaction failed. `begin`: no connection was available, or the wait for other writers was too
/// long. `statement`: a statement failed, or the transaction was abandoned during one. `commit`: the commit failed.
const BEGIN: Labels = [("step", "begin")];
const STATEMENT: Labels = [("step", "statement")];
const COMMIT: Labels = [("step", "commit")];

type Durations = Family<Labels, Histogram, fn() -> Histogram>;

/// Metrics of a database.
#[derive(Debug)]
pub(crate) struct Metrics {
    wait: Durations,
    transaction: Durations,
    failures: Family<Labels, Counter>,
    /// Number of statements sent.
    pub(crate) statements: Counter,
    audit_records: Counter,
    audit_failures: Counter,
    audit_pruned: Counter,
    /// Number of prunings that were refused because the log is broken.
    pub(crate) audit_prune_refusals: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let durations = || Durations::new_with_constructor(|| Histogram::new(SECONDS));
        let metrics = Self {
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
        for kind in [READ, WRITE] {
            drop(metrics.wait.get_or_create(&kind));
            drop(metrics.transaction.get_or_create(&kind));
        }
        for step in [BEGIN, STATEMENT, COMMIT] {
            drop(metrics.failures.get_or_create(&step));
        }
        metrics
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "tracewarden_database_wait_seconds",
            "Time until a transaction of the application database began, including waits for a connection \
             and for earlier writers",
            self.wait.clone(),
        );
        registry.register(
            "tracewarden_database_transaction_seconds",
            "Duration of a transaction of the application database",
            self.transaction.clone(),
        );
        registry.register(
            "tracewarden_database_failures",
            "Failed transactions of the application database, by stage",
            self.failures.clone(),
        );
        for (name, help, counter) in [
            (
                "tracewarden_database_statements",
                "Statements sent to the application database, except `BEGIN`, `COMMIT` and `ROLLBACK`",
                &self.statements,
            ),
            ("tracewarden_audit_records", "Audit records written durably", &self.audit_records),
            (
                "tracewarden_audit_write_failures",
                "Transactions with audit records that could not be committed",
                &self.audit_failures,
            ),
            ("tracewarden_audit_pruned_records", "Audit records removed for their age", &self.audit_pruned),
            (
                "tracewarden_audit_prune_refusals",
                "Removals of old audit records that were refused because the audit log fails verification",
                &self.audit_prune_refusals,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }

    /// Runs the beginning of a transaction. Measures it, and then the transaction itself.
    pub(crate) async fn begin<T>(
        self: &Arc<Self>,
        kind: Labels,
        begin: impl Future<Output = Result<T, DbError>>,
    ) -> Result<(T, TransactionMetrics), DbError> {
        let since = Instant::now();
        let begun = begin.await;
        self.wait.get_or_create(&kind).observe(since.elapsed().as_secs_f64());
        let begun = begun.inspect_err(|_| {
            self.failures.get_or_create(&BEGIN).inc();
        })?;
        let (metrics, since) = (Arc::clone(self), Instant::now());
        Ok((begun, TransactionMetrics { metrics, kind, since, usable: true, appended_records: 0, pruned: 0 }))
    }
}

/// A running transaction; recorded when it is dropped.
pub(crate) struct TransactionMetrics {
    pub(crate) metrics: Arc<Metrics>,
    kind: Labels,
    since: Instant,
    /// False while a statement runs and after one failed.
    pub(crate) usable: bool,
    /// Audit records written in the transaction, not yet known to be durable.
    pub(crate) appended_records: u64,
    /// Audit records removed in the transaction.
    pub(crate) pruned: u64,
}

impl TransactionMetrics {
    /// Records the result of a commit.
    pub(crate) fn record_commit<T, E>(mut self, result: Result<T, E>) -> Result<T, E> {
        if result.is_ok() {
            self.metrics.audit_records.inc_by(std::mem::take(&mut self.appended_records));
            self.metrics.audit_pruned.inc_by(std::mem::take(&mut self.pruned));
        } else {
            self.metrics.failures.get_or_create(&COMMIT).inc();
        }
        result
    }
}

impl Drop for TransactionMetrics {
    fn drop(&mut self) {
        let Metrics { transaction, failures, audit_failures, .. } = self.metrics.as_ref();
        transaction.get_or_create(&self.kind).observe(self.since.elapsed().as_secs_f64());
        if !self.usable {
            failures.get_or_create(&STATEMENT).inc();
        }
        if self.appended_records > 0 {
            audit_failures.inc();
        }
    }
}
