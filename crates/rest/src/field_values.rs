//! `/filter/values`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{FieldValuesRequest, Time, ValueCount};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extractors::Caller;
use crate::limit;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::query::Query;
use crate::schema_wire::SearchedAround;

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
    /// Start of the window; 24 hours before `to` when absent.
    #[param(inline, example = "2026-11-20T12:00:00Z")]
    from: Option<Time>,
    /// End of the window, exclusive; now when absent.
    #[param(inline, example = "2026-11-21T12:00:00Z")]
    to: Option<Time>,
    /// Maximum number of values: 20 when absent, at most 100.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// The values that a field has in the newest traces that the caller may read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldValues {
    /// The field.
    #[serde(rename = "ref")]
    #[schema(examples("SpanAttributes[\"http.route\"]"))]
    reference: String,
    /// Ordered by number of traces, then by number of spans, both descending, then by value.
    values: Vec<ValueCount>,
    /// Whether the sampled traces have values that are not listed because of `limit`.
    more: bool,
    /// Number of different values that are never listed: longer than 1,024 bytes, or not UTF-8.
    unlisted: u64,
    /// Number of sampled traces, at most 500, and fewer where they are far apart.
    sampled_traces: u64,
    /// Whether all traces in the window with such a value were sampled; otherwise only the newest.
    complete: bool,
    /// Start of the window.
    from: Time,
    /// End of the window.
    to: Time,
    /// Without a trace index: spans outside of this time were not read when traces were matched. Absent if no such bound applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    searched_around: Option<SearchedAround>,
}

/// Lists values of a field for use in filters, counted in all spans of the newest traces in the window that the caller may read
/// and that have such a value.
#[utoipa::path(get, path = "/filter/values", tag = "traces", params(ValuesQuery), responses(
    (status = 200, description = "The values", body = FieldValues),
    (status = 422, description = "`unknown_field`, `not_filterable`; `value_type`: a field of type number or boolean; `invalid_window`"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ValuesQuery>,
) -> Result<JsonResponse<FieldValues>, Problem> {
    let request = FieldValuesRequest {
        reference: query.reference,
        prefix: query.prefix,
        from: query.from.map(|time| time.0),
        to: query.to.map(|time| time.0),
        limit: query.limit,
    };
    let found = app.service.traces().field_values(&caller, request).await?;
    Ok(JsonResponse(FieldValues {
        reference: found.reference,
        values: found.values,
        more: found.more,
        unlisted: found.unlisted,
        sampled_traces: found.sampled_traces,
        complete: found.complete,
        from: found.window.from().into(),
        to: found.window.to().into(),
        searched_around: found.searched_around.map(SearchedAround::from),
    }))
}
