//! `/schema`: the trace source, and suggested changes to its table.

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tracewarden_model::{AccessModel, Binding, LogicalType};
use tracewarden_service::{DdlAdvice, FieldMark, TableDetail, TableSummary};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::code::Code;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, etag};
use crate::problem::Problem;
use crate::query::Path;
use crate::read_only::ReadOnly;
use crate::schema_wire::{BindingRequest, access_model};

/// Returns the binding and the marked fields.
#[utoipa::path(get, path = "/schema", tag = "trace source", responses(
    (status = 200, description = "The access model", body = AccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
))]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    let current = app.service.source().access_model(&caller.require_admin()?).await?;
    Ok((etag(current.model.version), JsonResponse(access_model(current))))
}

/// Tables in ClickHouse.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableList {
    /// Tables, without ClickHouse's system tables.
    tables: Vec<TableSummary>,
}

/// Lists the ClickHouse tables that could be bound.
#[utoipa::path(get, path = "/schema/tables", tag = "trace source", responses(
    (status = 200, description = "Tables", body = TableList),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn tables(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<TableList>, Problem> {
    let tables = app.service.source().tables(&caller.require_admin()?).await?;
    Ok(JsonResponse(TableList { tables }))
}

/// Lists the columns of a table, the keys of its maps and the paths of its JSON columns, with example values. Sampling is
/// recorded in the audit log.
#[utoipa::path(get, path = "/schema/tables/{database}/{table}", tag = "trace source", params(
    ("database" = String, Path, description = "Database"), ("table" = String, Path, description = "Table")), responses(
    (status = 200, description = "The columns and keys of the table", body = TableDetail),
    (status = 404, description = "`not_found`: no such table"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn table(
    State(app): State<App>,
    caller: Caller,
    Path((database, table)): Path<(String, String)>,
) -> Result<JsonResponse<TableDetail>, Problem> {
    Ok(JsonResponse(app.service.source().table(&caller.require_admin()?, &database, &table).await?))
}

/// The access model after a table was bound.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BoundSchema {
    /// The access model.
    #[serde(flatten)]
    model: AccessModel,
    /// Warnings about the binding, which is valid.
    warnings: Vec<String>,
}

/// Binds a table as trace source, after checking its columns and their types.
#[utoipa::path(put, path = "/schema/binding", tag = "trace source", request_body = BindingRequest, params(
    ("If-Match" = Option<String>, Header, description = "The `ETag` of `GET /schema`; required when a table is bound, unless the body has `version`", example = "*")), responses(
    (status = 200, description = "Bound", body = BoundSchema, headers(("ETag" = String, description = "Of binding and fields"))),
    (status = 409, description = "`conflict`: a marked field or a stored policy would break"),
    (status = 412, description = "`precondition_failed`: changed in the meantime"),
    (status = 422, description = "`unknown_field`, or `invalid_value`: a table or column that cannot be used"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn put_binding(
    State(app): State<App>,
    caller: Caller,
    if_match: IfMatch,
    Json(request): Json<BindingRequest>,
) -> Result<impl IntoResponse, Problem> {
    let (version, binding) = request.into_parts();
    let if_match = if_match.and_model(version);
    let bound = app.service.source().put_binding(&caller.require_admin()?, binding, if_match).await?;
    let tag = etag(bound.current.model.version);
    Ok((tag, JsonResponse(BoundSchema { model: access_model(bound.current), warnings: bound.warnings })))
}

/// The complete list of marked fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldsRequest {
    /// Fields that are not in this list are no longer marked.
    fields: Vec<WireFieldMark>,
    /// The version of the access model to replace; acts as `If-Match` does.
    version: Option<u64>,
    /// The bound table, unchanged: `PUT /schema/binding` changes it.
    binding: Option<Binding>,
}

/// A field to mark.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FieldMark)]
pub(crate) struct WireFieldMark {
    /// The map column or the JSON column; absent or empty for a field that is a column itself.
    map: Option<String>,
    /// The key within the map, the path within the JSON column (`a.b`), the column's name, or that of a nested column's
    /// member (`Events.Name`).
    name: String,
    /// Logical type; absent for the natural one of the column, which for a JSON path without a declared type is `string`.
    #[serde(rename = "type")]
    logical: Option<LogicalType>,
    /// Whether filters may use the field.
    filterable: bool,
    /// Whether policies may use the field; never for numbers.
    policy: bool,
    /// For a key of a map: a materialized column with the same values, which policies read instead of the map because it is
    /// faster. It is compared with the map over the whole table before it is adopted. Absent for none.
    #[schema(examples("SpanAttributes_tenant"))]
    column: Option<String>,
    #[serde(rename = "ref")]
    reference: ReadOnly,
    column_type: ReadOnly,
    source: ReadOnly,
}

impl From<WireFieldMark> for FieldMark {
    fn from(mark: WireFieldMark) -> Self {
        Self {
            map: mark.map.filter(|map| !map.is_empty()),
            name: mark.name,
            logical: mark.logical,
            filterable: mark.filterable,
            policy: Some(mark.policy),
            column: mark.column,
        }
    }
}

/// Replaces the marked fields in one step. A change that would break a stored policy is rejected.
#[utoipa::path(put, path = "/schema/fields", tag = "trace source", request_body = FieldsRequest, params(
    ("If-Match" = Option<String>, Header, description = "The `ETag` of `GET /schema`; required, unless the body has `version`", example = "*")), responses(
    (status = 200, description = "Marked", body = AccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
    (status = 409, description = "`conflict`: a stored policy would break; `not_bound`: no table is bound"),
    (status = 412, description = "`precondition_failed`: changed in the meantime"),
    (status = 422, description = "`unknown_field`, or `invalid_value`: a field that cannot be used; `column_differs`: the values of a column to adopt differ from the map"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn put_fields(
    State(app): State<App>,
    caller: Caller,
    if_match: IfMatch,
    Json(request): Json<FieldsRequest>,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let FieldsRequest { fields, version, binding } = request;
    if let Some(binding) = binding
        && app.service.source().access_model(&admin).await?.model.binding != Some(binding)
    {
        let detail = "the binding differs from the current one; change it with `PUT /schema/binding`";
        return Err(Problem::member(Code::InvalidValue, "/binding", detail));
    }
    let marks = fields.into_iter().map(FieldMark::from).collect();
    let current = app.service.source().put_fields(&admin, marks, if_match.and_model(version)).await?;
    Ok((etag(current.model.version), JsonResponse(access_model(current))))
}

/// Suggests changes to the bound table that reduce the cost of searches and reads
///
/// The suggestions follow from the table's current definition and ClickHouse's own estimates. The service never runs these
/// statements.
#[utoipa::path(get, path = "/schema/ddl", tag = "trace source", responses(
    (status = 200, description = "Suggestions", body = DdlAdvice),
    (status = 409, description = "`not_bound`: no trace source is bound"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn ddl(State(app): State<App>, caller: Caller) -> Result<JsonResponse<DdlAdvice>, Problem> {
    Ok(JsonResponse(app.service.source().ddl(&caller.require_admin()?).await?))
}
