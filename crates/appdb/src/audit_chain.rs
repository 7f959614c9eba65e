//! The hash chain over audit records. Each record's hash covers its content and the previous hash, so verification
//! detects a changed, inserted, removed or reordered row. An attacker who can rewrite the whole table can also rewrite
//! the chain; an anchor kept elsewhere (the hash of the head) detects that too.

use crate::audit::NewAuditRecord;
use crate::database::ReadTx;
use crate::error::DbError;
use crate::migrations;
use crate::rows;
use sha2::{Digest as _, Sha256};

/// Hash that precedes the first record.
pub const GENESIS_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns the SHA-256 over all members. Each member is preceded by its length, so different records never have the
/// same input.
pub(crate) fn hash(previous: &str, sequence: u64, record: &NewAuditRecord<'_>) -> String {
    let mut hasher = Sha256::new();
    let mut member = |value: Option<&str>| match value {
        None => hasher.update([0]),
        Some(text) => {
            hasher.update([1]);
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    };
    member(Some("tracewarden audit 1"));
    member(Some(previous));
    member(Some(&sequence.to_string()));
    member(record.completes.map(|completes| completes.to_string()).as_deref());
    // Microseconds, as stored: a hash over more digits could not be recomputed from the row.
    member(Some(&record.at.as_micros().to_string()));
    member(record.actor_id);
    member(record.actor_name);
    member(record.credential_id);
    member(Some(record.via));
    member(Some(record.action));
    member(Some(record.outcome));
    member(Some(record.request_id));
    member(record.client_ip);
    member(record.user_agent);
    member(record.target);
    member(Some(record.detail));
    hex::encode(hasher.finalize())
}

/// Error for a missing row. The first migration inserts the row, and the program never removes it.
fn missing_row_error(table: &str) -> DbError {
    DbError::Corrupt(format!("the one row of `{table}` is missing"))
}

/// A missing audit table means that data is corrupt, not that the database is unavailable.
pub(crate) fn missing_table_error(table: &str, error: sqlx::Error) -> DbError {
    if migrations::is_missing_table(&error) {
        return DbError::Corrupt(format!("the table `{table}` is missing"));
    }
    error.into()
}

impl ReadTx {
    /// Returns sequence number and hash of the last record; 0 and [`GENESIS_HASH`] before the first record.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_head(&mut self) -> Result<(u64, String), DbError> {
        let row = sqlx::query("SELECT sequence, hash FROM audit_head WHERE id = 1")
            .fetch_optional(self.statements())
            .await
            .map_err(|error| missing_table_error("audit_head", error))?
            .ok_or_else(|| missing_row_error("audit_head"))?;
        Ok((rows::unsigned(&row, "sequence")?, rows::text(&row, "hash")?))
    }

    /// Returns sequence number and hash of the newest record that was pruned because of its age; 0 and [`GENESIS_HASH`]
    /// before the first pruning. The oldest kept record follows it.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_anchor(&mut self) -> Result<(u64, String), DbError> {
        let row = sqlx::query("SELECT sequence, hash FROM audit_anchor WHERE id = 1")
            .fetch_optional(self.statements())
            .await
            .map_err(|error| missing_table_error("audit_anchor", error))?
            .ok_or_else(|| missing_row_error("audit_anchor"))?;
        Ok((rows::unsigned(&row, "sequence")?, rows::text(&row, "hash")?))
    }

    /// Returns the hash of one kept record.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_hash(&mut self, sequence: u64) -> Result<Option<String>, DbError> {
        let row = sqlx::query("SELECT hash FROM audit WHERE sequence = $1")
            .bind(rows::signed(sequence)?)
            .fetch_optional(self.statements())
            .await?;
        row.map(|row| rows::text(&row, "hash")).transpose()
    }
}
