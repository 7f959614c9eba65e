//! Verifies the audit chain from its anchor to its head.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::audit_chain::{self, GENESIS_HASH};
use crate::audit_prune::{AUDIT_PRUNE, PrunedAudit};
use crate::documents;
use crate::error::DbError;
use crate::rows::{self, FromRow as _};
use crate::transactions::ReadTx;
use crate::values::{signed, values};

/// Records per query. A record may have 64 KiB.
const PAGE_SIZE: i64 = 250;

/// A break in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFault {
    /// Sequence number of the first record that does not match.
    pub sequence: u64,
    /// Reason.
    pub reason: &'static str,
}

/// Position of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPosition {
    /// Sequence number.
    pub sequence: u64,
    /// Time.
    pub at: Timestamp,
}

/// A removal of old records, as documented by its audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRemoval {
    /// Position of that audit record.
    pub record: AuditPosition,
    /// The removed records.
    pub removed: PrunedAudit,
    /// Time from which records were kept, if the audit record contains it.
    pub before: Option<Timestamp>,
}

/// Summary of an unbroken chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifiedAudit {
    /// Number of records.
    pub records: u64,
    /// The oldest record.
    pub first: Option<AuditPosition>,
    /// The newest record.
    pub last: Option<AuditPosition>,
    /// Sequence number and hash of the newest record, from the head. Operators keep this value elsewhere.
    pub head: (u64, String),
    /// Sequence number and hash of the newest record pruned because of its age; 0 and [`GENESIS_HASH`] before the first
    /// pruning.
    pub anchor: (u64, String),
    /// Number of records that document a removal. Records of earlier removals are pruned in turn.
    pub removals: u64,
    /// The newest removal, which set the anchor.
    pub newest_removal: Option<AuditRemoval>,
}

impl VerifiedAudit {
    /// Adds the record after `end`, the sequence number and hash of the last one, or returns the reason why it does not
    /// continue the chain.
    fn add(&mut self, row: &AnyRow, end: &mut (u64, String)) -> Result<Result<(), ChainFault>, DbError> {
        let sequence = rows::get(row, "sequence")?;
        if let Some(reason) = audit_chain::check_link(row, sequence, end.0, &end.1)? {
            return Ok(Err(ChainFault { sequence, reason }));
        }
        let position = AuditPosition { sequence, at: rows::get(row, "at")? };
        if rows::get::<String>(row, "action")? == AUDIT_PRUNE
            && rows::get::<String>(row, "outcome")? == "success"
        {
            let Ok((removed, before)) = documents::read_pruned(&rows::get::<String>(row, "detail")?) else {
                let reason = "it records a removal of old records, but not which ones";
                return Ok(Err(ChainFault { sequence, reason }));
            };
            self.removals = self.removals.saturating_add(1);
            self.newest_removal = Some(AuditRemoval { record: position, removed, before });
        }
        self.first.get_or_insert(position);
        self.last = Some(position);
        self.records = self.records.saturating_add(1);
        *end = (sequence, rows::get(row, "hash")?);
        Ok(Ok(()))
    }

    /// Whether the recorded removals led to the anchor. An attacker who cuts off the beginning by hand and moves the
    /// anchor leaves no such record. The record of the last removal is always kept, because it is newer than all
    /// records that it removed.
    fn matches_anchor(&self) -> bool {
        let (sequence, hash) = &self.anchor;
        match &self.newest_removal {
            Some(newest) => (newest.removed.through, &newest.removed.hash) == (*sequence, hash),
            None => *sequence == 0 && hash == GENESIS_HASH,
        }
    }
}

impl ReadTx {
    /// Checks the whole chain and returns its summary or the first fault. `progress` is called from time to time with
    /// the number of records checked and the total number.
    pub async fn verify_audit(
        &mut self,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Result<VerifiedAudit, ChainFault>, DbError> {
        let anchor = self.audit_anchor().await?;
        let head = self.audit_head().await?;
        if let Some(sequence) = record_before(self, anchor.0).await? {
            let reason = "its sequence number is among removed records, or never existed";
            return Ok(Err(ChainFault { sequence, reason }));
        }
        let total = head.0.saturating_sub(anchor.0);
        let mut end = anchor.clone();
        let mut verified = VerifiedAudit { head, anchor, ..VerifiedAudit::default() };
        loop {
            let statement = "SELECT sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, \
                 request_id, client_ip, user_agent, target, detail, previous_hash, hash FROM audit \
                 WHERE sequence > $1 ORDER BY sequence LIMIT $2";
            let page = self.connection.rows(statement, values![signed(end.0)?, PAGE_SIZE]).await;
            let page = page.map_err(|error| audit_chain::missing_table_error("audit", error))?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                if let Err(fault) = verified.add(row, &mut end)? {
                    return Ok(Err(fault));
                }
            }
            progress(verified.records, total);
        }
        if end != verified.head {
            let reason = "the log does not end with the last record written";
            let sequence = if end.0 < verified.head.0 { end.0.saturating_add(1) } else { end.0 };
            return Ok(Err(ChainFault { sequence, reason }));
        }
        if !verified.matches_anchor() {
            let reason = "the log does not begin where the record of the last removal ends";
            return Ok(Err(ChainFault { sequence: verified.anchor.0, reason }));
        }
        Ok(Ok(verified))
    }
}

/// Returns the sequence number of a record at or before the anchor, where no record may be.
async fn record_before(tx: &mut ReadTx, anchor: u64) -> Result<Option<u64>, DbError> {
    let statement = "SELECT sequence FROM audit WHERE sequence <= $1 ORDER BY sequence LIMIT 1";
    let rows = tx.connection.rows(statement, values![signed(anchor)?]).await;
    let rows = rows.map_err(|error| audit_chain::missing_table_error("audit", error))?;
    let sequence = rows.first().map(i64::from_row).transpose()?;
    // A forged record may have a negative number.
    Ok(sequence.map(|sequence| u64::try_from(sequence).unwrap_or(0)))
}
