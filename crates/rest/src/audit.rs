//! `/audit`.

use axum::Json as JsonResponse;
use axum::extract::State;
use tracewarden_service::{AuditPage, AuditQuery};

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;
use crate::query::Query;

/// Lists the audit records: authentication, trace queries and configuration changes.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery), responses(
    (status = 200, description = "Records", body = AuditPage),
    (status = 400, description = "`invalid_cursor`: not a cursor of the audit log"),
    (status = 422, description = "`invalid_window`: `from` is not before `to`"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<JsonResponse<AuditPage>, Problem> {
    Ok(JsonResponse(app.service.audit_log().page(&caller.require_admin()?, query).await?))
}
