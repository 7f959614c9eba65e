//! Removes the oldest audit records. The chain then begins later. Its new beginning is stored as the anchor. The caller
//! appends a record of the removal in the same transaction, and that record confirms the anchor from inside the chain.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::audit_chain;
use crate::error::DbError;
use crate::rows;
use crate::transactions::WriteTx;
use crate::values::{signed, values};

/// Action of the record that documents a removal.
pub const AUDIT_PRUNE: &str = "audit.prune";

/// Additional age, beyond the bound, that a record must have if it was begun and never completed. The operation may
/// still be running, and its completion must find the record. After this time no completion arrives.
const INCOMPLETE_GRACE_NANOS: i64 = 3_600 * 1_000_000_000;

/// Records per query. A record's detail has a few members of up to 64 KiB each.
const PAGE_SIZE: i64 = 100;

/// Limit on the bytes of details removed in one call. The record that reaches the limit is still removed. All details
/// are read and hashed while other writers wait.
const MAX_DETAIL_BYTES: usize = 16 * 1024 * 1024;

/// The removed records: every record up to `through`. The detail of the [`AUDIT_PRUNE`] record has members with these
/// names. It may have others, such as `before`, the time from which records were kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedAudit {
    /// Sequence number of the last record removed.
    pub through: u64,
    /// Hash of that record, which the first kept record follows.
    pub hash: String,
    /// Number of records removed.
    pub removed: u64,
}

/// State of a scan for removable records.
struct PruneScan {
    before: Timestamp,
    incomplete_since: Timestamp,
    anchor: u64,
    limit: u64,
    /// Bytes of the details so far.
    bytes: usize,
    /// Sequence number and hash of the last removable record; at first those of the anchor.
    last: u64,
    previous: String,
}

impl PruneScan {
    /// Processes the next record. Returns whether to continue.
    ///
    /// A completion may remain in the log after its beginning is removed. It is not an entry by itself and goes with a
    /// later removal. If both had to be removed together, a log with overlapping reads at all times could never be
    /// pruned.
    fn next(&mut self, row: &AnyRow) -> Result<bool, DbError> {
        let sequence = rows::get(row, "sequence")?;
        // Pruning must not remove tampered records as if they were old. Until the hash is verified, not even a record's
        // time is trustworthy.
        if let Some(reason) = audit_chain::check_link(row, sequence, self.last, &self.previous)? {
            return Err(DbError::Corrupt(format!(
                "the audit log is broken at record {sequence}: {reason}; nothing is removed from it, verify it"
            )));
        }
        let at: Timestamp = rows::get(row, "at")?;
        if at >= self.before {
            return Ok(false);
        }
        let is_complete = rows::get::<Option<u64>>(row, "completes")?.is_some()
            || rows::get::<Option<u64>>(row, "completed_by")?.is_some()
            || rows::get::<String>(row, "outcome")? != "unknown";
        if !is_complete && at >= self.incomplete_since {
            return Ok(false);
        }
        self.last = sequence;
        self.previous = rows::get(row, "hash")?;
        self.bytes = self.bytes.saturating_add(rows::get::<String>(row, "detail")?.len());
        Ok(sequence.saturating_sub(self.anchor) < self.limit && self.bytes < MAX_DETAIL_BYTES)
    }
}

impl WriteTx {
    /// Removes the oldest records up to the first one at or after `before`: at most `limit` records, and fewer if they
    /// are large. Returns `None` if there was nothing to remove. Otherwise the caller must append a record with the
    /// action [`AUDIT_PRUNE`] and the result as its detail before it commits.
    ///
    /// # Errors
    /// [`DbError::Corrupt`] when the chain of the records to remove is broken; otherwise the error of the database.
    pub async fn prune_audit(
        &mut self,
        before: Timestamp,
        limit: u32,
    ) -> Result<Option<PrunedAudit>, DbError> {
        let (anchor, previous) = self.audit_anchor().await?;
        let mut scan = PruneScan {
            before,
            incomplete_since: before.saturating_sub(INCOMPLETE_GRACE_NANOS),
            anchor,
            limit: u64::from(limit),
            bytes: 0,
            last: anchor,
            previous,
        };
        'scan: loop {
            let statement = "SELECT begun.sequence, begun.completes, begun.at, begun.actor_id, begun.actor_name, \
                 begun.credential_id, begun.via, begun.action, begun.outcome, begun.request_id, begun.client_ip, \
                 begun.user_agent, begun.target, begun.detail, begun.previous_hash, begun.hash, \
                 ended.sequence AS completed_by \
                 FROM audit AS begun LEFT JOIN audit AS ended ON ended.completes = begun.sequence \
                 WHERE begun.sequence > $1 ORDER BY begun.sequence LIMIT $2";
            let page = self.connection.rows(statement, values![signed(scan.last)?, PAGE_SIZE]).await?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                match scan.next(row) {
                    Ok(true) => {}
                    Ok(false) => break 'scan,
                    Err(error) => {
                        self.connection.transaction_metrics.metrics.audit_prune_refusals.inc();
                        return Err(error);
                    }
                }
            }
        }
        let PruneScan { last: through, previous: hash, .. } = scan;
        if through == anchor {
            return Ok(None);
        }
        let statement = "DELETE FROM audit WHERE sequence > $1 AND sequence <= $2";
        let removed = self.connection.execute(statement, values![signed(anchor)?, signed(through)?]).await?;
        let statement = "UPDATE audit_anchor SET sequence = $1, hash = $2 WHERE id = 1";
        self.connection.execute(statement, values![signed(through)?, &hash]).await?;
        let metrics = &mut self.connection.transaction_metrics;
        metrics.pruned = metrics.pruned.saturating_add(removed);
        Ok(Some(PrunedAudit { through, hash, removed }))
    }
}
