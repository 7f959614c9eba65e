//! Reading the audit log.

use indexmap::IndexMap;
use serde_json::value::RawValue;
use tracewarden_appdb::{AuditFilter, AuditRecord};
use tracewarden_model::Timestamp;

use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::principal::Administrator;
use crate::query_input;
use crate::service::Service;
use crate::validate;

/// Which entries to read; absent members admit everything.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Begun at or after.
    pub from: Option<Timestamp>,
    /// Begun before.
    pub to: Option<Timestamp>,
    /// Name or id of the user.
    pub actor: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The outcome.
    pub outcome: Option<Outcome>,
    /// From the page before.
    pub cursor: Option<String>,
    /// Entries in a page, at least 1; 50 when absent, at most 500.
    pub limit: Option<i64>,
}

/// The members of a detail, each as it is stored. What agents sent stands there as they sent it: as a tree it would take a
/// hundred times its text, and a page of such records all memory.
pub type AuditDetail = IndexMap<String, Box<RawValue>>;

/// A page of entries, newest first.
#[derive(Debug, Clone)]
pub struct AuditPage {
    /// Entries.
    pub records: Vec<AuditEntry>,
    /// For the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

/// Something that was done, from beginning to end.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    /// Opaque id.
    pub id: String,
    /// When it began.
    pub at: Timestamp,
    /// When it ended, for what takes time.
    pub completed_at: Option<Timestamp>,
    /// The user's id.
    pub actor_id: Option<String>,
    /// The user's name at the time.
    pub actor_name: Option<String>,
    /// Id of the session or key.
    pub credential_id: Option<String>,
    /// `session`, `api_key` or `mcp`; `service` for what the service does by itself.
    pub via: Option<String>,
    /// What was done.
    pub action: String,
    /// `success`, `denied`, `failed`, `not_found`, `aborted`; `unknown` for what never came to an end.
    pub outcome: String,
    /// The request.
    pub request_id: String,
    /// Address of the client.
    pub client_ip: Option<String>,
    /// User agent of the client.
    pub user_agent: Option<String>,
    /// What it was done to.
    pub target: Option<String>,
    /// Details, an object; with those of the completion.
    pub detail: AuditDetail,
}

const PAGE_DEFAULT: u32 = 50;
const PAGE_MAX: u32 = 500;

impl Service {
    /// A page of the audit log.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCursor`], [`ServiceError::InvalidRequest`], [`ServiceError::Refused`] with `invalid_window`,
    /// or a failure of the own database.
    pub async fn audit(
        &self,
        _admin: &Administrator<'_>,
        query: AuditQuery,
    ) -> Result<AuditPage, ServiceError> {
        let before = query_input::before(query.cursor.as_deref(), "not a cursor of the audit log")?;
        let limit = query_input::limit(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        if let (Some(from), Some(to)) = (query.from, query.to) {
            query_input::window(from, to)?;
        }
        let texts = [&query.actor, &query.action];
        if !texts.into_iter().flatten().all(|text| validate::is_storable(text)) {
            return Ok(AuditPage { records: Vec::new(), next_cursor: None });
        }
        let filter = AuditFilter {
            from: query.from,
            to: query.to,
            actor: query.actor.as_deref(),
            action: query.action.as_deref(),
            outcome: query.outcome.map(Outcome::as_str),
            before,
        };
        let _scan = self.scans().acquire().await;
        let mut tx = self.db().begin_read().await?;
        let mut records = tx.audit_records(&filter, limit.saturating_add(1)).await?;
        let more = records.len() > limit as usize;
        records.truncate(limit as usize);
        let next_cursor = records.last().filter(|_| more).map(|record| record.sequence.to_string());
        let records = records.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(AuditPage { records, next_cursor })
    }
}

fn entry(record: AuditRecord) -> Result<AuditEntry, ServiceError> {
    let read = |text: &str| {
        serde_json::from_str::<AuditDetail>(text)
            .map_err(|error| ServiceError::internal(format!("audit record {}: {error}", record.sequence)))
    };
    let mut detail = read(&record.detail)?;
    if let Some(completion) = &record.completion_detail {
        detail.extend(read(completion)?);
    }
    Ok(AuditEntry {
        id: record.sequence.to_string(),
        at: record.at,
        completed_at: record.completed_at,
        actor_id: record.actor_id,
        actor_name: record.actor_name,
        credential_id: record.credential_id,
        via: Some(record.via),
        action: record.action,
        outcome: record.outcome,
        request_id: record.request_id,
        client_ip: record.client_ip,
        user_agent: record.user_agent,
        target: record.target,
        detail,
    })
}
