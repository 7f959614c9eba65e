//! Removing the oldest audit records. The chain then begins later: its new beginning is kept as the anchor, and the
//! record of the removal, which the caller appends in the same transaction, confirms the anchor from inside the chain.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::audit_verify;
use crate::database::WriteTx;
use crate::error::DbError;
use crate::rows;

/// The action of the record that a removal leaves behind.
pub const AUDIT_PRUNE: &str = "audit.prune";

/// How much older than the bound a record must be that was begun and never completed. It may be running still, and its
/// completion must find it; after this long it never comes.
const OPEN_GRACE_NANOS: i64 = 3_600 * 1_000_000_000;

/// Each member of a record's detail may have 64 KiB, and there are a few.
const PAGE: i64 = 100;

/// So many bytes of details go in one call, and the record with which there are as many: all of it is read and hashed while
/// everybody else who writes waits.
const BYTES_AT_ONCE: usize = 16 * 1024 * 1024;

/// What was removed: every record up to `through`. The detail of the record with the action [`AUDIT_PRUNE`] has members
/// of these names, and may have more, such as `before`, the time from which on records were kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedAudit {
    /// The last record removed.
    pub through: u64,
    /// Its hash, which the first record kept follows.
    pub hash: String,
    /// How many.
    pub removed: u64,
}

/// How far the log may be removed.
struct Sweep {
    before: Timestamp,
    open_since: Timestamp,
    anchor: u64,
    limit: u64,
    /// Bytes of the details so far.
    bytes: usize,
    /// The last record that may go, and its hash; at first the anchor's.
    last: u64,
    previous: String,
}

impl Sweep {
    /// Takes the next record; whether to go on.
    ///
    /// A completion may be left behind by its beginning: it is no entry by itself, and goes when it is next. To keep the two
    /// together, a log in which reads always overlap could never be cut.
    fn next(&mut self, row: &AnyRow) -> Result<bool, DbError> {
        let sequence = rows::unsigned(row, "sequence")?;
        // What was tampered with must not vanish as if it had become too old: not even its time can be believed before.
        if let Some(reason) = audit_verify::check_link(row, sequence, self.last, &self.previous)? {
            return Err(DbError::Corrupt(format!(
                "the audit log is broken at record {sequence}: {reason}; nothing is removed from it, verify it"
            )));
        }
        let at = rows::time(row, "at")?;
        if at >= self.before {
            return Ok(false);
        }
        let is_complete = rows::optional_integer(row, "completes")?.is_some()
            || rows::optional_integer(row, "completed_by")?.is_some()
            || rows::text(row, "outcome")? != "unknown";
        if !is_complete && at >= self.open_since {
            return Ok(false);
        }
        self.last = sequence;
        self.previous = rows::text(row, "hash")?;
        self.bytes = self.bytes.saturating_add(rows::text(row, "detail")?.len());
        Ok(sequence.saturating_sub(self.anchor) < self.limit && self.bytes < BYTES_AT_ONCE)
    }
}

impl WriteTx {
    /// Removes the oldest records up to the first one from `before` or later, `limit` at most, and fewer where they are large.
    /// `None`: there was nothing to remove. Otherwise the caller appends a record with the action [`AUDIT_PRUNE`] and the result as
    /// its detail before it commits.
    ///
    /// # Errors
    /// [`DbError::Corrupt`] when the records to remove are not the unbroken chain that was written, else as the database
    /// fails.
    pub async fn prune_audit(
        &mut self,
        before: Timestamp,
        limit: u32,
    ) -> Result<Option<PrunedAudit>, DbError> {
        let (anchor, previous) = self.audit_anchor().await?;
        let mut sweep = Sweep {
            before,
            open_since: before.saturating_sub(OPEN_GRACE_NANOS),
            anchor,
            limit: u64::from(limit),
            bytes: 0,
            last: anchor,
            previous,
        };
        'sweep: loop {
            let page = sqlx::query(
                "SELECT begun.sequence, begun.completes, begun.at, begun.actor_id, begun.actor_name, \
                 begun.credential_id, begun.via, begun.action, begun.outcome, begun.request_id, begun.client_ip, \
                 begun.user_agent, begun.target, begun.detail, begun.previous_hash, begun.hash, \
                 ended.sequence AS completed_by \
                 FROM audit AS begun LEFT JOIN audit AS ended ON ended.completes = begun.sequence \
                 WHERE begun.sequence > $1 ORDER BY begun.sequence LIMIT $2",
            )
            .bind(rows::signed(sweep.last)?)
            .bind(PAGE)
            .fetch_all(self.statements())
            .await?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                match sweep.next(row) {
                    Ok(true) => {}
                    Ok(false) => break 'sweep,
                    Err(error) => {
                        self.measured.refused_to_prune();
                        return Err(error);
                    }
                }
            }
        }
        let Sweep { last: through, previous: hash, .. } = sweep;
        if through == anchor {
            return Ok(None);
        }
        let done = sqlx::query("DELETE FROM audit WHERE sequence > $1 AND sequence <= $2")
            .bind(rows::signed(anchor)?)
            .bind(rows::signed(through)?)
            .execute(self.statements())
            .await?;
        sqlx::query("UPDATE audit_anchor SET sequence = $1, hash = $2 WHERE id = 1")
            .bind(rows::signed(through)?)
            .bind(hash.as_str())
            .execute(self.statements())
            .await?;
        self.measured.pruned = self.measured.pruned.saturating_add(done.rows_affected());
        Ok(Some(PrunedAudit { through, hash, removed: done.rows_affected() }))
    }
}
