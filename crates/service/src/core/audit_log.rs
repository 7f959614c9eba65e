//! Reading of the audit log.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tracewarden_appdb::{AuditFilter, AuditRecord};
use tracewarden_model::{Timestamp, TraceIdNotations};
use utoipa::{IntoParams, ToSchema};

use crate::core::audit_event::Outcome;
use crate::core::error::{Result, ServiceError};
use crate::core::limit::{Limit, limit_in_query};
use crate::core::principal::Administrator;
use crate::core::text::sanitize;
use crate::core::{Core, query_input, validate};

/// Selects audit records.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only records from this time on.
    #[param(inline)]
    pub from: Option<Timestamp>,
    /// Only records before this time; must be later than `from`.
    #[param(inline)]
    pub to: Option<Timestamp>,
    /// Name of the user, case-insensitive, or the user's id. For a deleted user, the name exactly as it was recorded.
    pub actor: Option<String>,
    /// Id of the API key or session that was used, which a record has as `actor.credential_id`.
    pub key: Option<String>,
    /// Object of the action, such as a trace id (in any notation), a role or a user.
    pub target: Option<String>,
    /// Name of the action.
    #[param(example = "traces.query")]
    pub action: Option<String>,
    /// Outcome of the action.
    #[param(inline)]
    pub outcome: Option<Outcome>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// Maximum number of records in a page: 50 when absent, at most 500.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit_in_query")]
    pub limit: Option<i64>,
}

/// Members of a detail, each as stored JSON text. They contain arguments of agents' calls as sent: parsed trees would take a
/// hundred times the size of the text, and a page of such records could exhaust the memory.
pub type AuditDetail = IndexMap<String, Box<RawValue>>;

/// A page of audit records.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = AuditList)]
pub struct AuditPage {
    /// Newest first.
    pub records: Vec<AuditEntry>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// The actor of an audit record, as far as it is known.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Actor {
    /// Id of the user.
    pub id: Option<String>,
    /// Name of the user at the time of the action.
    pub username: Option<String>,
    /// Id of the session or API key.
    pub credential_id: Option<String>,
    /// `session`, `api_key` or `mcp`; `service` for actions of the service itself. Sign-in attempts, also rejected ones, have
    /// `session`.
    pub via: Option<String>,
}

/// An action that was done or attempted.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = AuditRecord)]
pub struct AuditEntry {
    /// Opaque id.
    pub id: String,
    /// When the action began.
    pub at: Timestamp,
    /// When the action was complete; null if it was never completed.
    pub completed_at: Option<Timestamp>,
    /// The user and the credential.
    pub actor: Actor,
    /// Name of the action.
    pub action: String,
    /// Outcome: `success`; `denied`, the caller is not permitted to do this; `failed`, because of a fault in the request or in a
    /// system; `not_found`, the trace is absent or the caller may not read it; `aborted`, the client disconnected; `unknown`
    /// while the action runs, and for an action that was never completed.
    pub outcome: String,
    /// Id of the request.
    pub request_id: String,
    /// Address of the client.
    pub client_ip: Option<String>,
    /// `User-Agent` of the client.
    pub user_agent: Option<String>,
    /// Object of the action.
    pub target: Option<String>,
    /// More information, depending on the action. It never contains span data or secrets.
    #[schema(value_type = Object)]
    pub detail: AuditDetail,
}

const PAGE_DEFAULT: u32 = 50;
const PAGE_MAX: u32 = 500;

/// The audit log.
#[derive(Clone)]
pub struct AuditLog {
    pub(crate) core: Arc<Core>,
}

impl AuditLog {
    /// Returns a page of the audit log.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCursor`], [`ServiceError::InvalidRequest`], [`ServiceError::Refused`] with `invalid_window`, or
    /// a failure of the application database.
    pub async fn page(&self, _admin: &Administrator<'_>, query: AuditQuery) -> Result<AuditPage> {
        let before = query_input::sequence_cursor(query.cursor.as_deref(), "the audit log")?;
        let limit = query_input::limit(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        if let (Some(from), Some(to)) = (query.from, query.to) {
            query_input::window(from, to)?;
        }
        let texts = [&query.actor, &query.key, &query.action, &query.target];
        let target = query.target.as_deref().map(target_spellings);
        if !texts.into_iter().flatten().all(|text| validate::is_storable(text)) {
            return Ok(AuditPage { records: Vec::new(), next_cursor: None });
        }
        let filter = AuditFilter {
            from: query.from,
            to: query.to,
            actor: query.actor.as_deref(),
            credential_id: query.key.as_deref(),
            action: query.action.as_deref(),
            target: target.as_deref(),
            outcome: query.outcome.map(Outcome::into),
            before,
        };
        let _scan = self.core.permits.scans.wait().await;
        let mut tx = self.core.db.begin_read().await?;
        let mut records = tx.audit_records(&filter, limit.saturating_add(1)).await?;
        let more = records.len() > limit as usize;
        records.truncate(limit as usize);
        let next_cursor = records.last().filter(|_| more).map(|record| record.sequence.to_string());
        let records = records.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(AuditPage { records, next_cursor })
    }
}

/// The texts under which a target may be recorded: names as they are, trace ids in any notation.
fn target_spellings(text: &str) -> Vec<String> {
    let mut spellings = vec![sanitize(text)];
    spellings.extend(TraceIdNotations::of(text).ids().iter().filter(|id| *id != text).cloned());
    spellings
}

fn entry(record: AuditRecord) -> Result<AuditEntry> {
    let read = |text: &str| {
        serde_json::from_str::<AuditDetail>(text)
            .map_err(|error| ServiceError::failed(format!("audit record {}", record.sequence), error))
    };
    let mut detail = read(&record.detail)?;
    if let Some(completion) = &record.completion_detail {
        detail.extend(read(completion)?);
    }
    Ok(AuditEntry {
        id: record.sequence.to_string(),
        at: record.at,
        completed_at: record.completed_at,
        actor: Actor {
            id: record.actor_id,
            username: record.actor_name,
            credential_id: record.credential_id,
            via: Some(record.via),
        },
        action: record.action,
        outcome: record.outcome,
        request_id: record.request_id,
        client_ip: record.client_ip,
        user_agent: record.user_agent,
        target: record.target,
        detail,
    })
}
