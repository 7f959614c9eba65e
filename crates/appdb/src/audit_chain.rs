//! The hash chain over audit records. Each record's hash covers its content and the previous hash, so verification
//! detects a changed, inserted, removed or reordered row. An attacker who can rewrite the whole table can also rewrite
//! the chain; an anchor kept elsewhere (the hash of the head) detects that too.

use sha2::{Digest as _, Sha256};
use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::audit_record::NewAuditRecord;
use crate::error::DbError;
use crate::migrations;
use crate::rows;
use crate::transactions::ReadTx;

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

/// Returns why a record with all its columns is not the unchanged successor of `last`; `None` if it is.
pub(crate) fn check_link(
    row: &AnyRow,
    sequence: u64,
    last: u64,
    previous: &str,
) -> Result<Option<&'static str>, DbError> {
    if last.checked_add(1) != Some(sequence) {
        return Ok(Some("records before it are missing"));
    }
    if rows::text(row, "previous_hash")? != previous {
        return Ok(Some("it does not follow the record before it"));
    }
    let texts = [
        rows::optional_text(row, "actor_id")?,
        rows::optional_text(row, "actor_name")?,
        rows::optional_text(row, "credential_id")?,
        rows::optional_text(row, "client_ip")?,
        rows::optional_text(row, "user_agent")?,
        rows::optional_text(row, "target")?,
    ];
    let [actor_id, actor_name, credential_id, client_ip, user_agent, target] =
        texts.each_ref().map(Option::as_deref);
    let record = NewAuditRecord {
        completes: match rows::optional_integer(row, "completes")? {
            None => None,
            Some(_) => Some(rows::unsigned(row, "completes")?),
        },
        at: Timestamp::from_micros(rows::integer(row, "at")?),
        actor_id,
        actor_name,
        credential_id,
        via: &rows::text(row, "via")?,
        action: &rows::text(row, "action")?,
        outcome: &rows::text(row, "outcome")?,
        request_id: &rows::text(row, "request_id")?,
        client_ip,
        user_agent,
        target,
        detail: &rows::text(row, "detail")?,
    };
    let expected = hash(previous, sequence, &record);
    Ok((rows::text(row, "hash")? != expected).then_some("its content has been changed"))
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
            .fetch_optional(self.connection.statements())
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
            .fetch_optional(self.connection.statements())
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
            .fetch_optional(self.connection.statements())
            .await?;
        row.map(|row| rows::text(&row, "hash")).transpose()
    }
}
