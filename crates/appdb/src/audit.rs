//! Appends records to the audit log.

use tracewarden_model::Timestamp;

use crate::audit_chain;
use crate::database::WriteTx;
use crate::error::DbError;
use crate::rows;

/// An audit record before it is appended to the chain.
#[derive(Debug, Clone)]
pub struct NewAuditRecord<'a> {
    /// Sequence number of the record that this one completes. An operation that takes time is recorded before it
    /// begins, with the outcome `unknown`; a second record completes it.
    pub completes: Option<u64>,
    /// Current time.
    pub at: Timestamp,
    /// The user's id.
    pub actor_id: Option<&'a str>,
    /// The user's name at the time.
    pub actor_name: Option<&'a str>,
    /// Id of the session or key.
    pub credential_id: Option<&'a str>,
    /// `session`, `api_key`, `mcp`, or `service` for actions of the service itself.
    pub via: &'a str,
    /// The action, such as `role.put`.
    pub action: &'a str,
    /// `success`, `failed`, `denied`, `aborted` or `unknown`.
    pub outcome: &'a str,
    /// Id of the request.
    pub request_id: &'a str,
    /// Address of the client.
    pub client_ip: Option<&'a str>,
    /// User agent of the client.
    pub user_agent: Option<&'a str>,
    /// Target of the action.
    pub target: Option<&'a str>,
    /// Details, a JSON object as text. Never span data, never secrets.
    pub detail: &'a str,
}

impl WriteTx {
    /// Appends a record to the chain and returns its sequence number, which starts at 1.
    ///
    /// # Errors
    /// [`DbError`] when the database fails; [`DbError::Conflict`] when the record to complete is already completed.
    pub async fn append_audit(&mut self, record: &NewAuditRecord<'_>) -> Result<u64, DbError> {
        self.transaction_metrics.appended_records =
            self.transaction_metrics.appended_records.saturating_add(1);
        // Writers are serialized, so two records never follow the same record. Even without that, the lock on this row
        // would keep the chain from forking.
        sqlx::query("UPDATE audit_head SET sequence = sequence + 1 WHERE id = 1")
            .execute(self.statements())
            .await?;
        let head = sqlx::query("SELECT sequence, hash FROM audit_head WHERE id = 1")
            .fetch_one(self.statements())
            .await?;
        let sequence = rows::unsigned(&head, "sequence")?;
        let previous = rows::text(&head, "hash")?;
        let hash = audit_chain::hash(&previous, sequence, record);
        sqlx::query(
            "INSERT INTO audit (sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, \
             request_id, client_ip, user_agent, target, detail, previous_hash, hash) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        )
        .bind(rows::signed(sequence)?)
        .bind(record.completes.map(rows::signed).transpose()?)
        .bind(record.at.as_micros())
        .bind(record.actor_id)
        .bind(record.actor_name)
        .bind(record.credential_id)
        .bind(record.via)
        .bind(record.action)
        .bind(record.outcome)
        .bind(record.request_id)
        .bind(record.client_ip)
        .bind(record.user_agent)
        .bind(record.target)
        .bind(record.detail)
        .bind(previous.as_str())
        .bind(hash.as_str())
        .execute(self.statements())
        .await?;
        sqlx::query("UPDATE audit_head SET hash = $1 WHERE id = 1")
            .bind(hash.as_str())
            .execute(self.statements())
            .await?;
        Ok(sequence)
    }
}
