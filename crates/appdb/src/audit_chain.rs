//! The hash chain over audit records: each record's hash covers its content and the hash before it, so that a changed,
//! inserted, removed or reordered row shows. Whoever can rewrite the whole table can also rewrite the chain; an anchor
//! kept elsewhere (the head's hash) shows that too.

use crate::audit::NewAuditRecord;
use crate::database::ReadTx;
use crate::error::DbError;
use crate::migrations;
use crate::rows;
use sha2::{Digest as _, Sha256};

/// The hash before the first record.
pub const GENESIS_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// SHA-256 over every member with its length before it, so that no two different records have the same input.
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

/// The row is there from the first step of the schema on, and nothing of ours removes it.
fn without_row(table: &str) -> DbError {
    DbError::Corrupt(format!("the one row of `{table}` is missing"))
}

/// A part of the log that is gone is not a database that is away.
pub(crate) fn without_table(table: &str, error: sqlx::Error) -> DbError {
    if migrations::is_missing_table(&error) {
        return DbError::Corrupt(format!("the table `{table}` is missing"));
    }
    error.into()
}

impl ReadTx {
    /// The number and hash of the last record: 0 and [`GENESIS_HASH`] before the first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_head(&mut self) -> Result<(u64, String), DbError> {
        let row = sqlx::query("SELECT sequence, hash FROM audit_head WHERE id = 1")
            .fetch_optional(self.statements())
            .await
            .map_err(|error| without_table("audit_head", error))?
            .ok_or_else(|| without_row("audit_head"))?;
        Ok((rows::unsigned(&row, "sequence")?, rows::text(&row, "hash")?))
    }

    /// The number and hash of the last record that was removed for its age; 0 and [`GENESIS_HASH`] before the first.
    /// The oldest record follows it.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_anchor(&mut self) -> Result<(u64, String), DbError> {
        let row = sqlx::query("SELECT sequence, hash FROM audit_anchor WHERE id = 1")
            .fetch_optional(self.statements())
            .await
            .map_err(|error| without_table("audit_anchor", error))?
            .ok_or_else(|| without_row("audit_anchor"))?;
        Ok((rows::unsigned(&row, "sequence")?, rows::text(&row, "hash")?))
    }

    /// The hash of one record that is kept.
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
