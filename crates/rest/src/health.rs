//! `/healthz` and `/readyz`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;

/// Health of the service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Reports that the process is running.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, description = "The process answers", body = Health)))]
pub(crate) async fn healthz() -> JsonResponse<Health> {
    JsonResponse(Health { status: "ok" })
}

/// Reports whether the application database and ClickHouse can serve requests.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, description = "Both can serve requests", body = Health),
    (status = 503, description = "`unavailable`: one of them cannot, named in `detail`, or the service is shutting down"),
))]
pub(crate) async fn readyz(State(app): State<App>) -> Result<JsonResponse<Health>, Problem> {
    if app.middleware.shutdown.has_begun() {
        return Err(Problem::new(Code::Unavailable, "the service is shutting down"));
    }
    app.service.ready().await?;
    Ok(JsonResponse(Health { status: "ok" }))
}
