//! `/filter`.

use axum::Json as JsonResponse;
use axum::extract::State;
use tracewarden_service::FilterSchema;

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;

/// Lists the fields that the caller may use in the filter of `POST /traces/query`.
#[utoipa::path(get, path = "/filter/schema", tag = "traces", responses(
    (status = 200, description = "The filter schema", body = FilterSchema),
))]
pub(crate) async fn schema(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<FilterSchema>, Problem> {
    Ok(JsonResponse(app.service.traces().filter_schema(&caller).await?))
}
