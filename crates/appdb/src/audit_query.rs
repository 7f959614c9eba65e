//! Reading the audit log: one entry for each thing that was done, with its completion joined to it.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::database::ReadTx;
use crate::error::DbError;
use crate::rows;

/// Which entries to read. Absent members admit everything.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter<'a> {
    /// Begun at or after.
    pub from: Option<Timestamp>,
    /// Begun before.
    pub to: Option<Timestamp>,
    /// Name or id of the user.
    pub actor: Option<&'a str>,
    /// The action.
    pub action: Option<&'a str>,
    /// The outcome, after completion.
    pub outcome: Option<&'a str>,
    /// Only entries with a smaller sequence number.
    pub before: Option<u64>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Place in the chain.
    pub sequence: u64,
    /// When it began.
    pub at: Timestamp,
    /// When it was complete, for what takes time.
    pub completed_at: Option<Timestamp>,
    /// The user's id.
    pub actor_id: Option<String>,
    /// The user's name at the time.
    pub actor_name: Option<String>,
    /// Id of the session or key.
    pub credential_id: Option<String>,
    /// `session`, `api_key`, `mcp` or `service`.
    pub via: String,
    /// What was done.
    pub action: String,
    /// `success`, `failed`, `denied`, `aborted`; `unknown` when it never came to an end.
    pub outcome: String,
    /// The request.
    pub request_id: String,
    /// Address of the client.
    pub client_ip: Option<String>,
    /// User agent of the client.
    pub user_agent: Option<String>,
    /// What it was done to.
    pub target: Option<String>,
    /// Details, a JSON object as text.
    pub detail: String,
    /// Details of the completion, a JSON object as text.
    pub completion_detail: Option<String>,
    /// The hash over this record and all before it.
    pub hash: String,
}

fn entry(row: &AnyRow) -> Result<AuditRecord, DbError> {
    Ok(AuditRecord {
        sequence: rows::unsigned(row, "sequence")?,
        at: rows::time(row, "at")?,
        completed_at: rows::optional_time(row, "completed_at")?,
        actor_id: rows::optional_text(row, "actor_id")?,
        actor_name: rows::optional_text(row, "actor_name")?,
        credential_id: rows::optional_text(row, "credential_id")?,
        via: rows::text(row, "via")?,
        action: rows::text(row, "action")?,
        outcome: rows::text(row, "outcome")?,
        request_id: rows::text(row, "request_id")?,
        client_ip: rows::optional_text(row, "client_ip")?,
        user_agent: rows::optional_text(row, "user_agent")?,
        target: rows::optional_text(row, "target")?,
        detail: rows::text(row, "detail")?,
        completion_detail: rows::optional_text(row, "completion_detail")?,
        hash: rows::text(row, "hash")?,
    })
}

impl ReadTx {
    /// At most `limit` entries, newest first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn audit_records(
        &mut self,
        filter: &AuditFilter<'_>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, DbError> {
        // One statement with a parameter for each condition: absent bounds become the ends of the number range, absent
        // texts match through the CAST, which also tells a database with typed parameters what an untyped NULL is.
        let found = sqlx::query(
            "SELECT begun.sequence, begun.at, ended.at AS completed_at, begun.actor_id, begun.actor_name, \
             begun.credential_id, begun.via, begun.action, COALESCE(ended.outcome, begun.outcome) AS outcome, \
             begun.request_id, begun.client_ip, begun.user_agent, begun.target, begun.detail, \
             ended.detail AS completion_detail, begun.hash \
             FROM audit AS begun LEFT JOIN audit AS ended ON ended.completes = begun.sequence \
             WHERE begun.completes IS NULL AND begun.sequence < $1 AND begun.at >= $2 AND begun.at < $3 \
             AND (CAST($4 AS TEXT) IS NULL OR begun.actor_name = $4 OR begun.actor_id = $4) \
             AND (CAST($5 AS TEXT) IS NULL OR begun.action = $5) \
             AND (CAST($6 AS TEXT) IS NULL OR COALESCE(ended.outcome, begun.outcome) = $6) \
             ORDER BY begun.sequence DESC LIMIT $7",
        )
        .bind(filter.before.map_or(Ok(i64::MAX), rows::signed)?)
        .bind(filter.from.map_or(i64::MIN, micros_up))
        .bind(filter.to.map_or(i64::MAX, micros_up))
        .bind(filter.actor)
        .bind(filter.action)
        .bind(filter.outcome)
        .bind(i64::from(limit))
        .fetch_all(self.statements())
        .await?;
        found.iter().map(entry).collect()
    }
}

/// Rounded up: stored times are whole microseconds, and `at >= from` must not admit one before `from`.
fn micros_up(at: Timestamp) -> i64 {
    let micros = at.as_micros();
    if Timestamp::from_micros(micros) < at { micros.saturating_add(1) } else { micros }
}
