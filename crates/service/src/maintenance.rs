//! Periodic maintenance: removes audit records beyond their retention, expired sessions and stale sign-in counters, and
//! numbers changes of the access model that have no version. Every replica does it; if two do it at the same time, the second
//! finds nothing to do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracewarden_appdb::AUDIT_PRUNE;
use tracewarden_model::Timestamp;

use crate::access::sign_in_throttle;
use crate::core::{Core, Result, ServiceError};

/// Number of records removed in one transaction; other writers wait for it.
const PRUNE_BATCH_RECORDS: u32 = 5_000;

const REMOVED: &str = "old audit records removed";

const MAX_INTERVAL: Duration = Duration::from_secs(3_600);
/// For the shortest retentions, which are only used in tests: each run queues as a writer three times.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Periodic tasks.
#[derive(Clone)]
pub struct Maintenance {
    pub(crate) core: Arc<Core>,
}

impl Maintenance {
    /// Runs the maintenance at once and then periodically, until `stop` completes. Failures are logged and retried in the
    /// next run.
    pub async fn maintain(&self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            // Can be cancelled between any two statements: a transaction that is not committed changes nothing.
            let cycle = async {
                self.run_maintenance().await;
                tokio::time::sleep(self.next_delay()).await;
            };
            tokio::select! {
                () = &mut stop => return,
                () = cycle => {}
            }
        }
    }

    async fn run_maintenance(&self) {
        let pruned = self.prune_audit_once().await;
        report(pruned, REMOVED, "old audit records were not removed");
        let deleted = self.delete_expired_sessions_once().await;
        report(deleted, "expired sessions removed", "expired sessions were not removed");
        let deleted = self.delete_stale_throttles_once().await.map(|()| 0);
        report(deleted, "outdated sign-in counters removed", "outdated sign-in counters were not removed");
        match self.number_changes_once().await {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "an older version of the program changed the access model without recording it in the \
                 history: the change has been added to the history"
            ),
            Err(error) => log_failure("could not compare the access model with its history", &error),
        }
    }

    /// Returns the time until the next run: an hour, or less if the retention is short, minus a random part of up to a
    /// quarter, so that replicas that were started together do not stay synchronised.
    fn next_delay(&self) -> Duration {
        let retention = self.core.settings.audit_retention_nanos.map(|nanos| nanos.unsigned_abs() / 24);
        let cycle = retention.map_or(MAX_INTERVAL, Duration::from_nanos).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let mut early = [0_u8; 1];
        // Without randomness replicas run at the same time, which does no harm.
        self.core.entropy.fill(&mut early).unwrap_or_default();
        cycle.saturating_sub(cycle.saturating_mul(u8::from_be_bytes(early).into()) / 1_024)
    }

    /// Removes the audit records that are older than the retention, oldest first; returns their number. Each transaction that
    /// removes records is recorded.
    ///
    /// # Errors
    /// When the application database fails, or the records to remove differ from those that were written; earlier removals
    /// stay in effect.
    pub async fn prune_audit_once(&self) -> Result<u64> {
        let Some(retention_nanos) = self.core.settings.audit_retention_nanos else { return Ok(0) };
        let before = self.core.now().saturating_sub(retention_nanos);
        let mut total: u64 = 0;
        loop {
            match self.prune_audit_transaction(before).await {
                Ok(None) => return Ok(total),
                Ok(Some(removed)) => total = total.saturating_add(removed),
                Err(error) => {
                    // Reported separately: the error does not include these.
                    if total > 0 {
                        tracing::info!(removed = total, "{REMOVED}");
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Removes records in one transaction; `None` if none is older.
    async fn prune_audit_transaction(&self, before: Timestamp) -> Result<Option<u64>> {
        let mut tx = self.core.db.begin_write().await?;
        let Some(pruned) = tx.prune_audit(before, PRUNE_BATCH_RECORDS).await? else { return Ok(None) };
        let detail = json!({
            "through": pruned.through,
            "hash": pruned.hash,
            "removed": pruned.removed,
            "before": before.to_string(),
        });
        self.core.commit_own_change(tx, AUDIT_PRUNE, None, detail).await?;
        Ok(Some(pruned.removed))
    }

    /// Deletes expired sessions, and those of people whose identity provider no longer confirms them; returns their number. They granted no access any more, so that no audit record is needed.
    pub async fn delete_expired_sessions_once(&self) -> Result<u64> {
        let settings = &self.core.settings;
        let before = |limit: Option<i64>| limit.map(|nanos| self.core.now().saturating_sub(nanos));
        let (created, seen) = (before(settings.session_absolute_nanos), before(settings.session_idle_nanos));
        let has_providers = settings.providers.iter().next().is_some();
        if created.is_none() && seen.is_none() && !has_providers {
            return Ok(0);
        }
        let mut tx = self.core.db.begin_write().await?;
        let mut deleted = tx.delete_expired_sessions(created, seen).await?;
        if has_providers {
            let confirmed_before = self.core.now().saturating_sub(settings.identity_max_age_nanos);
            deleted =
                deleted.saturating_add(tx.identities_mut().delete_lapsed_sessions(confirmed_before).await?);
        }
        tx.commit().await?;
        Ok(deleted)
    }

    /// Adds changes of the access model that a replica of an earlier version made without a number to the history; returns
    /// whether there were any. Such a replica may write as long as replicas are being replaced, even after newer ones have
    /// started.
    pub async fn number_changes_once(&self) -> Result<bool> {
        Ok(self.core.db.record_missed_changes(self.core.now()).await?)
    }

    /// Deletes the sign-in counters that no longer limit any client.
    pub async fn delete_stale_throttles_once(&self) -> Result<()> {
        let mut tx = self.core.db.begin_write().await?;
        tx.delete_stale_throttles(sign_in_throttle::stale_before(self.core.now())).await?;
        Ok(tx.commit().await?)
    }
}

fn report(result: Result<u64>, success_message: &str, failure_message: &str) {
    match result {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "{success_message}"),
        Err(error) => log_failure(failure_message, &error),
    }
}

fn log_failure(what: &str, error: &ServiceError) {
    let (code, log_cause) = (error.code(), error.log_cause());
    match error {
        // Not caused by an unavailable database, so an operator must investigate it.
        ServiceError::Internal { .. } => tracing::error!(code, log_cause, "{what}"),
        _ => tracing::warn!(code, log_cause, "{what}"),
    }
}
