//! The hash chain over audit records. Each record's hash covers its content and the previous hash, so verification
//! detects a changed, inserted, removed or reordered row. An attacker who can rewrite the whole table can also rewrite
//! the chain; an anchor kept elsewhere (the hash of the head) detects that too.

use sha2::{Digest as _, Sha256};
use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use crate::audit_record::NewAuditRecord;
use crate::error::DbError;
use crate::migrations;
use crate::rows::{self, FromRow};
use crate::transactions::ReadTx;
use crate::values::{signed, values};

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
    if rows::get::<String>(row, "previous_hash")? != previous {
        return Ok(Some("it does not follow the record before it"));
    }
    let text = |column| rows::get::<String>(row, column);
    let optional_text = |column| rows::get::<Option<String>>(row, column);
    let (actor_id, actor_name) = (optional_text("actor_id")?, optional_text("actor_name")?);
    let (credential_id, client_ip) = (optional_text("credential_id")?, optional_text("client_ip")?);
    let (user_agent, target) = (optional_text("user_agent")?, optional_text("target")?);
    let record = NewAuditRecord {
        completes: rows::get(row, "completes")?,
        at: rows::get(row, "at")?,
        actor_id: actor_id.as_deref(),
        actor_name: actor_name.as_deref(),
        credential_id: credential_id.as_deref(),
        via: &text("via")?,
        action: &text("action")?,
        outcome: &text("outcome")?,
        request_id: &text("request_id")?,
        client_ip: client_ip.as_deref(),
        user_agent: user_agent.as_deref(),
        target: target.as_deref(),
        detail: &text("detail")?,
    };
    let expected = hash(previous, sequence, &record);
    Ok((text("hash")? != expected).then_some("its content has been changed"))
}

/// A missing audit table means that data is corrupt, not that the database is unavailable.
pub(crate) fn missing_table_error(table: &str, error: sqlx::Error) -> DbError {
    if migrations::is_missing_table(&error) {
        return DbError::Corrupt(format!("the table `{table}` is missing"));
    }
    error.into()
}

/// Returns the sequence number and the hash in the one row of a table.
async fn end(tx: &mut ReadTx, table: &str) -> Result<(u64, String), DbError> {
    let statement = AssertSqlSafe(format!("SELECT sequence, hash FROM {table} WHERE id = 1"));
    let rows = tx.connection.rows(statement, values![]).await;
    let rows = rows.map_err(|error| missing_table_error(table, error))?;
    // The first migration inserts the row, and the program never removes it.
    let row = rows.first().ok_or_else(|| DbError::Corrupt(format!("the one row of `{table}` is missing")))?;
    FromRow::from_row(row)
}

impl ReadTx {
    /// Returns sequence number and hash of the last record; 0 and [`GENESIS_HASH`] before the first record.
    pub async fn audit_head(&mut self) -> Result<(u64, String), DbError> {
        end(self, "audit_head").await
    }

    /// Returns sequence number and hash of the newest record that was pruned because of its age; 0 and [`GENESIS_HASH`]
    /// before the first pruning. The oldest kept record follows it.
    pub async fn audit_anchor(&mut self) -> Result<(u64, String), DbError> {
        end(self, "audit_anchor").await
    }

    /// Returns the hash of one kept record.
    pub async fn audit_hash(&mut self, sequence: u64) -> Result<Option<String>, DbError> {
        let statement = "SELECT hash FROM audit WHERE sequence = $1";
        self.connection.optional(statement, values![signed(sequence)?]).await
    }
}
