//! `/audit`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{AuditDetail, AuditEntry, AuditQuery, Outcome};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extractors::Caller;
use crate::limit;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::query::Query;
use crate::wire::Time;

/// Selects audit records.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListRequest {
    /// Only records from this time on.
    #[param(inline)]
    from: Option<Time>,
    /// Only records before this time; must be later than `from`.
    #[param(inline)]
    to: Option<Time>,
    /// Name of the user, case-insensitive, or the user's id. For a deleted user, the name exactly as it was recorded.
    actor: Option<String>,
    /// Name of the action.
    #[param(example = "traces.query")]
    action: Option<String>,
    /// Outcome of the action.
    #[param(inline)]
    outcome: Option<WireOutcome>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of records in a page: 50 when absent, at most 500.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// Outcome of an action.
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

/// The actor of an audit record, as far as it is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Actor {
    /// Id of the user.
    #[schema(required = true)]
    id: Option<String>,
    /// Name of the user at the time of the action.
    #[schema(required = true)]
    username: Option<String>,
    /// Id of the session or API key.
    #[schema(required = true)]
    credential_id: Option<String>,
    /// `session`, `api_key` or `mcp`; `service` for actions of the service itself. Sign-in attempts, also rejected ones, have
    /// `session`.
    #[schema(required = true)]
    via: Option<String>,
}

/// An action that was done or attempted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditRecord {
    /// Opaque id.
    id: String,
    /// When the action began.
    at: Time,
    /// When the action was complete; null if it was never completed.
    #[schema(required = true)]
    completed_at: Option<Time>,
    /// The user and the credential.
    actor: Actor,
    /// Name of the action.
    action: String,
    /// Outcome: `success`; `denied`, the caller is not permitted to do this; `failed`, because of a fault in the request or in a
    /// system; `not_found`, the trace is absent or the caller may not read it; `aborted`, the client disconnected; `unknown`
    /// while the action runs, and for an action that was never completed.
    outcome: String,
    /// Id of the request.
    request_id: String,
    /// Address of the client.
    #[schema(required = true)]
    client_ip: Option<String>,
    /// `User-Agent` of the client.
    #[schema(required = true)]
    user_agent: Option<String>,
    /// Object of the action.
    #[schema(required = true)]
    target: Option<String>,
    /// More information, depending on the action. It never contains span data or secrets.
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

/// Lists the audit records: authentication, trace queries and configuration changes.
#[utoipa::path(get, path = "/audit", tag = "audit", params(ListRequest), responses(
    (status = 200, description = "Records", body = AuditList),
    (status = 400, description = "`invalid_cursor`: not a cursor of the audit log"),
    (status = 422, description = "`invalid_window`: `from` is not before `to`"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<ListRequest>,
) -> Result<JsonResponse<AuditList>, Problem> {
    let query = AuditQuery {
        from: request.from.map(|time| time.0),
        to: request.to.map(|time| time.0),
        actor: request.actor,
        action: request.action,
        outcome: request.outcome.map(Outcome::from),
        cursor: request.cursor,
        limit: request.limit,
    };
    let page = app.service.audit_log().page(&caller.require_admin()?, query).await?;
    let records = page.records.into_iter().map(AuditRecord::from).collect();
    Ok(JsonResponse(AuditList { records, next_cursor: page.next_cursor }))
}
