//! Appends records to the audit log.

use crate::audit_chain;
use crate::audit_record::NewAuditRecord;
use crate::error::DbError;
use crate::transactions::WriteTx;
use crate::values::{signed, values};

impl WriteTx {
    /// Appends a record to the chain and returns its sequence number, which starts at 1.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the record to complete is already completed.
    pub async fn append_audit(&mut self, record: &NewAuditRecord<'_>) -> Result<u64, DbError> {
        self.connection.transaction_metrics.appended_records =
            self.connection.transaction_metrics.appended_records.saturating_add(1);
        // Writers are serialized, so two records never follow the same record. Even without that, the lock on this row
        // would keep the chain from forking.
        let statement = "UPDATE audit_head SET sequence = sequence + 1 WHERE id = 1";
        self.connection.execute(statement, values![]).await?;
        let statement = "SELECT sequence, hash FROM audit_head WHERE id = 1";
        let (sequence, previous): (u64, String) = self.connection.one(statement, values![]).await?;
        let hash = audit_chain::hash(&previous, sequence, record);
        let statement = "INSERT INTO audit (sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, \
             request_id, client_ip, user_agent, target, detail, previous_hash, hash) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        let values = values![
            signed(sequence)?,
            record.completes.map(signed).transpose()?,
            record.at,
            record.actor_id,
            record.actor_name,
            record.credential_id,
            record.via,
            record.action,
            record.outcome,
            record.request_id,
            record.client_ip,
            record.user_agent,
            record.target,
            record.detail,
            previous,
            &hash,
        ];
        self.connection.execute(statement, values).await?;
        self.connection.execute("UPDATE audit_head SET hash = $1 WHERE id = 1", values![hash]).await?;
        Ok(sequence)
    }
}
