//! `/filter`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;
use crate::schema_wire::LogicalType;

/// A field that the caller may use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FieldDescriptor)]
pub(crate) struct WireField {
    /// The map column; empty for a field that is a column itself.
    map: String,
    /// The key within the map, or the column's name.
    name: String,
    /// Reference to the field in policies.
    #[serde(rename = "ref")]
    #[schema(examples("SpanAttributes[\"http.route\"]"))]
    reference: String,
    /// Type of the field.
    #[serde(rename = "type")]
    logical: LogicalType,
    /// Operators for conditions on the field; only when it is filterable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    operators: Option<Vec<&'static str>>,
    /// Whether filters may use the field; administrators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    filterable: Option<bool>,
    /// Whether policies may use the field; administrators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    policy: Option<bool>,
}

/// Limits on filters and pages.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limits)]
pub(crate) struct WireLimits {
    /// Maximum number of conditions in a filter.
    max_conditions: usize,
    /// Maximum number of values in a condition.
    max_values: usize,
    /// Maximum number of traces in a page.
    max_limit: u32,
}

/// The fields and limits of filters.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FilterSchema)]
pub(crate) struct WireFilterSchema {
    /// Fields that the caller may use.
    fields: Vec<WireField>,
    /// Version of the access model.
    version: u64,
    /// Limits on filters and pages.
    limits: WireLimits,
    /// How filters work, in plain English.
    description: &'static str,
}

/// Lists the fields that the caller may use in the filter of `POST /traces/query`.
#[utoipa::path(get, path = "/filter/schema", tag = "traces", responses(
    (status = 200, description = "The filter schema", body = WireFilterSchema),
))]
pub(crate) async fn schema(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<WireFilterSchema>, Problem> {
    let schema = app.service.traces().filter_schema(&caller).await?;
    let fields = schema.fields.into_iter().map(|field| WireField {
        map: field.map,
        name: field.name,
        reference: field.reference,
        logical: field.logical.into(),
        operators: field.operators.map(|list| list.iter().map(|operator| operator.as_str()).collect()),
        filterable: field.filterable,
        policy: field.policy,
    });
    Ok(JsonResponse(WireFilterSchema {
        fields: fields.collect(),
        version: schema.version,
        limits: WireLimits {
            max_conditions: schema.limits.max_conditions,
            max_values: schema.limits.max_values,
            max_limit: schema.limits.max_limit,
        },
        description: schema.description,
    }))
}
