//! Appends records to the audit log.

use crate::audit_chain;
use crate::audit_record::NewAuditRecord;
use crate::error::DbError;
use crate::rows;
use crate::transactions::WriteTx;

impl WriteTx {
    /// Appends a record to the chain and returns its sequence number, which starts at 1.
    ///
    /// # Errors
    /// [`DbError`] when the database fails; [`DbError::Conflict`] when the record to complete is already completed.
    pub async fn append_audit(&mut self, record: &NewAuditRecord<'_>) -> Result<u64, DbError> {
        self.connection.transaction_metrics.appended_records =
            self.connection.transaction_metrics.appended_records.saturating_add(1);
        // Writers are serialized, so two records never follow the same record. Even without that, the lock on this row
        // would keep the chain from forking.
        sqlx::query("UPDATE audit_head SET sequence = sequence + 1 WHERE id = 1")
            .execute(self.connection.statements())
            .await?;
        let head = sqlx::query("SELECT sequence, hash FROM audit_head WHERE id = 1")
            .fetch_one(self.connection.statements())
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
        .execute(self.connection.statements())
        .await?;
        sqlx::query("UPDATE audit_head SET hash = $1 WHERE id = 1")
            .bind(hash.as_str())
            .execute(self.connection.statements())
            .await?;
        Ok(sequence)
    }
}
