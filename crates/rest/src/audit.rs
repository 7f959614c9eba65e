//! `/audit`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Deserialize;
use tracewarden_model::Timestamp;
use tracewarden_service::{AuditPage, AuditQuery, Outcome};
use utoipa::IntoParams;

use crate::app::App;
use crate::extractors::Caller;
use crate::limit;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::query::Query;

/// Selects audit records.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListRequest {
    /// Only records from this time on.
    #[param(inline)]
    from: Option<Timestamp>,
    /// Only records before this time; must be later than `from`.
    #[param(inline)]
    to: Option<Timestamp>,
    /// Name of the user, case-insensitive, or the user's id. For a deleted user, the name exactly as it was recorded.
    actor: Option<String>,
    /// Id of the API key or session that was used, which a record has as `actor.credential_id`.
    key: Option<String>,
    /// Object of the action, such as a trace id (in any notation), a role or a user.
    target: Option<String>,
    /// Name of the action.
    #[param(example = "traces.query")]
    action: Option<String>,
    /// Outcome of the action.
    #[param(inline)]
    outcome: Option<Outcome>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of records in a page: 50 when absent, at most 500.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// Lists the audit records: authentication, trace queries and configuration changes.
#[utoipa::path(get, path = "/audit", tag = "audit", params(ListRequest), responses(
    (status = 200, description = "Records", body = AuditPage),
    (status = 400, description = "`invalid_cursor`: not a cursor of the audit log"),
    (status = 422, description = "`invalid_window`: `from` is not before `to`"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<ListRequest>,
) -> Result<JsonResponse<AuditPage>, Problem> {
    let ListRequest { from, to, actor, key, target, action, outcome, cursor, limit } = request;
    let query = AuditQuery { from, to, actor, key, action, target, outcome, cursor, limit };
    Ok(JsonResponse(app.service.audit_log().page(&caller.require_admin()?, query).await?))
}
