//! Appends records to the audit log.

use crate::audit_chain;
use crate::audit_record::NewAuditRecord;
use crate::error::DbError;
use crate::statements::MeteredConnection;
use crate::transactions::{AppendTx, Epoch, WriteTx};
use crate::values::{Value, signed, values};

const TABLE: &str = "audit (sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, request_id, \
     client_ip, user_agent, target, detail, previous_hash, hash)";
const COLUMNS: usize = 16;

/// Maximum number of records of one statement.
const STATEMENT_RECORDS_MAX: usize = 128;

impl WriteTx {
    /// Appends a record to the chain and returns its sequence number, which starts at 1.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the record to complete is already completed.
    pub async fn append_audit(&mut self, record: &NewAuditRecord<'_>) -> Result<u64, DbError> {
        self.append(std::slice::from_ref(record)).await
    }

    /// Appends records in order; returns the sequence number of the first.
    async fn append(&mut self, records: &[NewAuditRecord<'_>]) -> Result<u64, DbError> {
        let MeteredConnection { transaction_metrics, .. } = &mut self.connection;
        transaction_metrics.appended_records =
            transaction_metrics.appended_records.saturating_add(records.len() as u64);
        let (head, mut hash) = self.audit_head().await?;
        let mut sequence = head;
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            sequence = sequence.saturating_add(1);
            let previous = std::mem::take(&mut hash);
            hash = audit_chain::hash(&previous, sequence, record);
            rows.push(row(sequence, record, previous, &hash)?);
        }
        // The database prepares a statement for each number of rows; powers of two keep these few.
        while !rows.is_empty() {
            let count = 1 << rows.len().min(STATEMENT_RECORDS_MAX).ilog2();
            self.insert_rows(TABLE, rows.drain(..count).collect(), "").await?;
        }
        // Writers are serialized, so two records never follow the same record. Even without that, the condition would keep the
        // chain from forking.
        let statement = "UPDATE audit_head SET sequence = $1, hash = $2, epoch_through = $1, \
             epoch = epoch + CASE WHEN epoch_through = sequence THEN 0 ELSE 1 END WHERE id = 1 AND sequence = $3";
        let values = values![signed(sequence)?, hash, signed(head)?];
        if self.connection.execute(statement, values).await? != 1 {
            return Err(DbError::Corrupt("the end of the audit log is not the one that was read".to_owned()));
        }
        Ok(head.saturating_add(1))
    }
}

impl AppendTx {
    /// Returns the epoch.
    pub async fn epoch(&mut self) -> Result<Epoch, DbError> {
        let statement = "SELECT epoch, sequence - epoch_through AS uncounted FROM audit_head WHERE id = 1";
        self.0.connection.one(statement, values![]).await
    }

    /// Appends records to the chain, in order; returns the sequence number of the first.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when a record to complete is already completed, or is completed by two of these records.
    pub async fn append_audit(&mut self, records: &[NewAuditRecord<'_>]) -> Result<u64, DbError> {
        self.0.append(records).await
    }

    /// Returns which of these records have been completed, and the outcome and the detail of each completion.
    pub async fn audit_completions(
        &mut self,
        sequences: &[u64],
    ) -> Result<Vec<(u64, String, String)>, DbError> {
        // As few different statements as for appending: the last number is repeated.
        let padding = sequences.len().next_power_of_two().saturating_sub(sequences.len());
        let padding = sequences.last().into_iter().cycle().take(padding);
        let numbers = sequences.iter().chain(padding).map(|sequence| signed(*sequence));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        self.0
            .select_where_in("SELECT completes, outcome, detail FROM audit WHERE completes", &numbers, "")
            .await
    }
}

fn row(
    sequence: u64,
    record: &NewAuditRecord<'_>,
    previous: String,
    hash: &String,
) -> Result<[Value; COLUMNS], DbError> {
    Ok(values![
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
        hash,
    ])
}
