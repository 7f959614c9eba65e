//! `/audit`.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{AuditDetail, AuditEntry, AuditQuery, Outcome};
use utoipa::{IntoParams, ToSchema};

use crate::limit::Limit;
use crate::problem::Problem;
use crate::query::Query;
use crate::routes::Caller;
use crate::wire::Time;
use crate::{App, limit};

/// Which records.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListRequest {
    /// Not before.
    #[param(inline)]
    from: Option<Time>,
    /// Before; later than `from`.
    #[param(inline)]
    to: Option<Time>,
    /// The user's name, in upper or lower case, or id. Of a user who was deleted, the name as it was written.
    actor: Option<String>,
    /// What was done.
    #[param(example = "traces.query")]
    action: Option<String>,
    /// How it ended.
    #[param(inline)]
    outcome: Option<WireOutcome>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Most records in a page; 50 when absent, and never more than 500.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// How something ended.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireOutcome {
    Success,
    Denied,
    Failed,
    NotFound,
    Aborted,
    Unknown,
}

impl From<WireOutcome> for Outcome {
    fn from(outcome: WireOutcome) -> Self {
        match outcome {
            WireOutcome::Success => Self::Success,
            WireOutcome::Denied => Self::Denied,
            WireOutcome::Failed => Self::Failed,
            WireOutcome::NotFound => Self::NotFound,
            WireOutcome::Aborted => Self::Aborted,
            WireOutcome::Unknown => Self::Unknown,
        }
    }
}

/// Who did something, as far as it is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Actor {
    /// Id of the user.
    #[schema(required = true)]
    id: Option<String>,
    /// Name of the user at that time.
    #[schema(required = true)]
    username: Option<String>,
    /// Id of the session or key.
    #[schema(required = true)]
    credential_id: Option<String>,
    /// `session`, `api_key` or `mcp`; `service` for what the service does by itself. Log-ins, also refused ones, have
    /// `session`.
    #[schema(required = true)]
    via: Option<String>,
}

/// Something that was done, or tried.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditRecord {
    /// Opaque id.
    id: String,
    /// When it began.
    at: Time,
    /// When it was complete; null when it never was.
    #[schema(required = true)]
    completed_at: Option<Time>,
    /// Who.
    actor: Actor,
    /// What.
    action: String,
    /// How it ended: `success`; `denied`, refused to this caller; `failed`, for a fault in the request or in a system;
    /// `not_found`, a trace that is absent or not authorised; `aborted`, the client went away; `unknown` while it runs,
    /// and for what never came to an end.
    outcome: String,
    /// The request.
    request_id: String,
    /// Address of the client.
    #[schema(required = true)]
    client_ip: Option<String>,
    /// What the client calls itself.
    #[schema(required = true)]
    user_agent: Option<String>,
    /// What it was done to.
    #[schema(required = true)]
    target: Option<String>,
    /// More, depending on the action; never span data, never a secret.
    #[schema(value_type = Object)]
    detail: AuditDetail,
}

impl From<AuditEntry> for AuditRecord {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at.into(),
            completed_at: entry.completed_at.map(Time),
            actor: Actor {
                id: entry.actor_id,
                username: entry.actor_name,
                credential_id: entry.credential_id,
                via: entry.via,
            },
            action: entry.action,
            outcome: entry.outcome,
            request_id: entry.request_id,
            client_ip: entry.client_ip,
            user_agent: entry.user_agent,
            target: entry.target,
            detail: entry.detail,
        }
    }
}

/// A page of audit records.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditList {
    /// Newest first.
    records: Vec<AuditRecord>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// Authentication, trace queries and configuration changes.
#[utoipa::path(get, path = "/audit", tag = "audit", params(ListRequest), responses(
    (status = 200, description = "Records", body = AuditList),
    (status = 400, description = "`invalid_cursor`: not a cursor of the audit log"),
    (status = 422, description = "`invalid_window`: `from` is not before `to`"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<ListRequest>,
) -> Result<Answer<AuditList>, Problem> {
    let query = AuditQuery {
        from: request.from.map(|time| time.0),
        to: request.to.map(|time| time.0),
        actor: request.actor,
        action: request.action,
        outcome: request.outcome.map(Outcome::from),
        cursor: request.cursor,
        limit: request.limit,
    };
    let page = app.service.audit(&caller.require_admin()?, query).await?;
    let records = page.records.into_iter().map(AuditRecord::from).collect();
    Ok(Answer(AuditList { records, next_cursor: page.next_cursor }))
}
