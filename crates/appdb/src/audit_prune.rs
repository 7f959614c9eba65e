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

const PAGE: i64 = 1_000;

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

/// Where the log may be cut: nowhere between the beginning of something and its completion.
struct Sweep {
    before: Timestamp,
    open_since: Timestamp,
    anchor: u64,
    limit: u64,
    last: u64,
    previous: String,
    /// The latest completion of anything begun so far.
    open_until: u64,
    cut: Option<(u64, String)>,
}

impl Sweep {
    /// Takes the next record; whether to go on.
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
        let hash = rows::text(row, "hash")?;
        let begun = rows::optional_integer(row, "completes")?.is_none();
        match rows::optional_integer(row, "completed_by")? {
            Some(_) => self.open_until = self.open_until.max(rows::unsigned(row, "completed_by")?),
            None if begun && rows::text(row, "outcome")? == "unknown" && at >= self.open_since => {
                return Ok(false);
            }
            None => {}
        }
        self.last = sequence;
        self.previous.clone_from(&hash);
        if sequence >= self.open_until {
            self.cut = Some((sequence, hash));
        }
        Ok(self.cut.is_none() || sequence.saturating_sub(self.anchor) < self.limit)
    }
}

impl WriteTx {
    /// Removes the oldest records up to the first one from `before` or later, about `limit` at most (more only where
    /// something begun and its completion lie further apart); nothing that is begun is parted from its completion.
    /// `None`: there was nothing to remove. Otherwise the caller appends a record with the action [`AUDIT_PRUNE`] and
    /// the result as its detail before it commits.
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
            last: anchor,
            previous,
            open_until: 0,
            cut: None,
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
        let Some((through, hash)) = sweep.cut else { return Ok(None) };
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
