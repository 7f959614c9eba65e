//! `/filter`.

use axum::Json as JsonResponse;
use axum::extract::State;
use tracewarden_service::{FieldValuesAnswer, FieldValuesRequest, FilterSchema};

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;
use crate::query::Query;

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

/// Lists values of a field for use in filters, counted in all spans of the newest traces in the window that the caller may read
/// and that have such a value.
#[utoipa::path(get, path = "/filter/values", tag = "traces", params(FieldValuesRequest), responses(
    (status = 200, description = "The values", body = FieldValuesAnswer),
    (status = 422, description = "`unknown_field`, `not_filterable`; `value_type`: a field of type number or boolean; `invalid_window`"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn values(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<FieldValuesRequest>,
) -> Result<JsonResponse<FieldValuesAnswer>, Problem> {
    Ok(JsonResponse(app.service.traces().field_values(&caller, request).await?))
}
