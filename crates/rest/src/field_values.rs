//! `/filter/values`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Deserialize;
use tracewarden_model::Timestamp;
use tracewarden_service::{FieldValuesAnswer, FieldValuesRequest};
use utoipa::IntoParams;

use crate::app::App;
use crate::extractors::Caller;
use crate::limit;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::query::Query;

/// The field and the time window.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValuesQuery {
    /// `ref` of a filterable field of type string or string_array, as `GET /filter/schema` writes it.
    #[param(example = "ServiceName")]
    #[serde(rename = "ref")]
    reference: String,
    /// Prefix of the values, compared exactly, as by the operator `prefix`.
    prefix: Option<String>,
    /// Text that the values contain, ignoring the case of ASCII letters.
    contains: Option<String>,
    /// Start of the window; 24 hours before `to` when absent.
    #[param(inline, example = "2026-11-20T12:00:00Z")]
    from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    #[param(inline, example = "2026-11-21T12:00:00Z")]
    to: Option<Timestamp>,
    /// Maximum number of values: 20 when absent, at most 100.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// Lists values of a field for use in filters, counted in all spans of the newest traces in the window that the caller may read
/// and that have such a value.
#[utoipa::path(get, path = "/filter/values", tag = "traces", params(ValuesQuery), responses(
    (status = 200, description = "The values", body = FieldValuesAnswer),
    (status = 422, description = "`unknown_field`, `not_filterable`; `value_type`: a field of type number or boolean; `invalid_window`"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ValuesQuery>,
) -> Result<JsonResponse<FieldValuesAnswer>, Problem> {
    let ValuesQuery { reference, prefix, contains, from, to, limit } = query;
    let request = FieldValuesRequest { reference, prefix, contains, from, to, limit };
    Ok(JsonResponse(app.service.traces().field_values(&caller, request).await?))
}
