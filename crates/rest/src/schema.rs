//! `/schema`: the trace source.

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tracewarden_service::{
    ColumnDetail, FieldMark, LogicalType, MemberDetail, PairedMap, SampledColumn, TableSummary, WireBinding,
};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::code::Code;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, Version, etag};
use crate::problem::Problem;
use crate::query::Path;
use crate::read_only::ReadOnly;
use crate::schema_wire::{BindingRequest, WireAccessModel};

/// Returns the binding and the marked fields.
#[utoipa::path(get, path = "/schema", tag = "trace source", responses(
    (status = 200, description = "The access model", body = WireAccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
))]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    let current = app.service.source().access_model(&caller.require_admin()?).await?;
    Ok((etag(current.model.version), JsonResponse(WireAccessModel::from(current))))
}

/// A table in ClickHouse.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Table {
    /// Database.
    database: String,
    /// Name.
    name: String,
    /// Engine.
    engine: String,
    /// Number of rows, if the engine knows it.
    #[schema(required = true)]
    rows: Option<u64>,
    /// Bytes on disk, if the engine knows them.
    #[schema(required = true)]
    bytes: Option<u64>,
    /// Proposed binding; null when the table does not look like a table of spans.
    #[schema(required = true)]
    proposal: Option<WireBinding>,
    /// The product that writes such tables, if their columns tell.
    #[schema(required = true, examples("SigNoz"))]
    product: Option<&'static str>,
    /// The reason why there is no proposal, and the table to bind instead, if the cause is the kind of table and not its columns.
    #[schema(required = true)]
    unsuitable: Option<String>,
}

impl From<TableSummary> for Table {
    fn from(table: TableSummary) -> Self {
        Self {
            database: table.database,
            name: table.name,
            engine: table.engine,
            rows: table.rows,
            bytes: table.bytes,
            proposal: table.proposal.map(WireBinding::from),
            product: table.product,
            unsuitable: table.unsuitable,
        }
    }
}

/// Tables in ClickHouse.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableList {
    /// Tables, without ClickHouse's system tables.
    tables: Vec<Table>,
}

/// Lists the ClickHouse tables that could be bound.
#[utoipa::path(get, path = "/schema/tables", tag = "trace source", responses(
    (status = 200, description = "Tables", body = TableList),
    (status = 502, description = "`clickhouse_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn tables(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<TableList>, Problem> {
    let tables = app.service.source().tables(&caller.require_admin()?).await?;
    Ok(JsonResponse(TableList { tables: tables.into_iter().map(Table::from).collect() }))
}

/// A column.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableColumn {
    /// Name.
    name: String,
    /// Type in ClickHouse.
    #[serde(rename = "type")]
    column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot be marked.
    logical_types: Vec<LogicalType>,
    /// The types that keys of a map, or paths of a JSON column without a declared type, can be marked as.
    key_logical_types: Vec<LogicalType>,
    /// Members of a nested column and declared paths of a JSON column.
    members: Vec<ColumnMember>,
}

/// A part of a column that the column's type declares.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ColumnMember {
    /// The value of `map` to mark it with: the JSON column; empty for a member of a nested column.
    map: String,
    /// The value of `name` to mark it with: the path, or the column and the member with a dot between them.
    #[schema(examples("Events.Name"))]
    name: String,
    /// Type in ClickHouse; empty when it cannot be a field.
    #[serde(rename = "type")]
    column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot be marked.
    logical_types: Vec<LogicalType>,
}

fn wire(list: &[tracewarden_model::LogicalType]) -> Vec<LogicalType> {
    list.iter().copied().map(LogicalType::from).collect()
}

impl From<MemberDetail> for ColumnMember {
    fn from(MemberDetail { field, physical }: MemberDetail) -> Self {
        Self {
            map: field.map.unwrap_or_default(),
            name: field.name,
            column_type: physical
                .as_ref()
                .map(|physical| physical.column_type.to_string())
                .unwrap_or_default(),
            logical_types: physical.map(|physical| wire(physical.logical_types)).unwrap_or_default(),
        }
    }
}

impl From<ColumnDetail> for TableColumn {
    fn from(detail: ColumnDetail) -> Self {
        Self {
            name: detail.column.name,
            column_type: detail.column.type_text,
            logical_types: wire(detail.logical_types),
            key_logical_types: wire(detail.key_logical_types),
            members: detail.members.into_iter().map(ColumnMember::from).collect(),
        }
    }
}

/// Sampled content of a map or JSON column.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SampledMap {
    /// The column.
    map: String,
    /// Number of rows in the sample.
    sampled_rows: u64,
    /// Keys or paths, the most frequent first; at most 500.
    keys: Vec<SampledKey>,
    /// Whether sampling took longer than a few seconds and was stopped, so that the keys are not known.
    stopped_early: bool,
}

/// A key of a map, or a path of a JSON column, in the sample.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SampledKey {
    /// The key or path.
    name: String,
    /// Number of sampled rows that have it.
    rows: u64,
    /// Types of its values in ClickHouse: of the map's values, or those found at the path.
    types: Vec<String>,
    /// The types that it can be marked as, those that fit the sampled values first; empty when it cannot be marked.
    logical_types: Vec<LogicalType>,
    /// Some of its values.
    examples: Vec<String>,
}

impl From<SampledColumn> for SampledMap {
    fn from(sampled: SampledColumn) -> Self {
        let keys = sampled.keys.into_iter().map(|key| SampledKey {
            name: key.name,
            rows: key.rows,
            types: key.types,
            logical_types: wire(&key.logical_types),
            examples: key.examples,
        });
        Self {
            map: sampled.column,
            sampled_rows: sampled.sampled_rows,
            keys: keys.collect(),
            stopped_early: sampled.stopped_early,
        }
    }
}

/// A map that is stored as two array columns.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PairedMap)]
pub(crate) struct WirePairedMap {
    /// The value of `map` to mark a key with.
    #[schema(examples("str_attributes"))]
    name: String,
    /// Column with the keys.
    #[schema(examples("str_attributes.key"))]
    keys: String,
    /// Column with the values.
    #[schema(examples("str_attributes.value"))]
    values: String,
    /// The types that keys can be marked as.
    key_logical_types: Vec<LogicalType>,
}

impl From<PairedMap> for WirePairedMap {
    fn from(map: PairedMap) -> Self {
        let [keys, values] = map.columns();
        Self {
            keys,
            values,
            key_logical_types: wire(map.column_type.map_key_logical_types()),
            name: map.name,
        }
    }
}

/// Content of a table.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TableDetail)]
pub(crate) struct WireTableDetail {
    /// Columns in order.
    columns: Vec<TableColumn>,
    /// Maps that are stored as two array columns, of keys and of values.
    paired_maps: Vec<WirePairedMap>,
    /// Proposed binding; units and values are those of a sample, where rows were sampled. Null when the table does not look
    /// like a table of spans.
    #[schema(required = true)]
    proposal: Option<WireBinding>,
    /// Keys of maps and paths of JSON columns, from a bounded sample of the first 30 such columns.
    maps: Vec<SampledMap>,
    /// Whether rows were sampled; the setting `discovery_samples` can forbid it.
    sampled: bool,
    /// The reason why the table is not suitable as a trace source, and the table to bind instead; null where there is none.
    #[schema(required = true)]
    unsuitable: Option<String>,
}

/// Lists the columns of a table, the keys of its maps and the paths of its JSON columns, with example values. Sampling is
/// recorded in the audit log.
#[utoipa::path(get, path = "/schema/tables/{database}/{table}", tag = "trace source", params(
    ("database" = String, Path, description = "Database"), ("table" = String, Path, description = "Table")), responses(
    (status = 200, description = "The columns and keys of the table", body = WireTableDetail),
    (status = 404, description = "`not_found`: no such table"),
    (status = 502, description = "`clickhouse_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn table(
    State(app): State<App>,
    caller: Caller,
    Path((database, table)): Path<(String, String)>,
) -> Result<JsonResponse<WireTableDetail>, Problem> {
    let detail = app.service.source().table(&caller.require_admin()?, &database, &table).await?;
    Ok(JsonResponse(WireTableDetail {
        columns: detail.columns.into_iter().map(TableColumn::from).collect(),
        paired_maps: detail.paired_maps.into_iter().map(WirePairedMap::from).collect(),
        proposal: detail.proposal.map(WireBinding::from),
        maps: detail.maps.into_iter().map(SampledMap::from).collect(),
        sampled: detail.sampled,
        unsuitable: detail.unsuitable,
    }))
}

/// The access model after a table was bound.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BoundSchema {
    /// The access model.
    #[serde(flatten)]
    model: WireAccessModel,
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
    (status = 502, description = "`clickhouse_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
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
    Ok((tag, JsonResponse(BoundSchema { model: bound.current.into(), warnings: bound.warnings })))
}

/// The complete list of marked fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldsRequest {
    /// Fields that are not in this list are no longer marked.
    fields: Vec<WireFieldMark>,
    /// The version of the access model to replace; acts as `If-Match` does.
    #[schema(value_type = Option<u64>)]
    version: Option<Version>,
    /// The bound table, unchanged: `PUT /schema/binding` changes it.
    binding: Option<WireBinding>,
}

/// A field to mark.
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
    #[serde(default, rename = "ref")]
    #[schema(inline, required = false)]
    _reference: ReadOnly,
    #[serde(default, rename = "column_type")]
    #[schema(inline, required = false)]
    _column_type: ReadOnly,
    #[serde(default, rename = "source")]
    #[schema(inline, required = false)]
    _source: ReadOnly,
}

impl From<WireFieldMark> for FieldMark {
    fn from(mark: WireFieldMark) -> Self {
        Self {
            map: mark.map.filter(|map| !map.is_empty()),
            name: mark.name,
            logical: mark.logical.map(tracewarden_model::LogicalType::from),
            filterable: mark.filterable,
            policy: Some(mark.policy),
            column: mark.column,
        }
    }
}

/// Replaces the marked fields in one step. A change that would break a stored policy is rejected.
#[utoipa::path(put, path = "/schema/fields", tag = "trace source", request_body = FieldsRequest, params(
    ("If-Match" = Option<String>, Header, description = "The `ETag` of `GET /schema`; required, unless the body has `version`", example = "*")), responses(
    (status = 200, description = "Marked", body = WireAccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
    (status = 409, description = "`conflict`: a stored policy would break; `not_bound`: no table is bound"),
    (status = 412, description = "`precondition_failed`: changed in the meantime"),
    (status = 422, description = "`unknown_field`, or `invalid_value`: a field that cannot be used; `column_differs`: the values of a column to adopt differ from the map"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 502, description = "`clickhouse_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
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
        && app.service.source().access_model(&admin).await?.model.binding != Some(binding.into())
    {
        let detail = "the binding differs from the current one; change it with `PUT /schema/binding`";
        return Err(Problem::member(Code::InvalidValue, "/binding", detail));
    }
    let marks = fields.into_iter().map(FieldMark::from).collect();
    let current = app.service.source().put_fields(&admin, marks, if_match.and_model(version)).await?;
    Ok((etag(current.model.version), JsonResponse(WireAccessModel::from(current))))
}
