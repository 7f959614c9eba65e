//! `/schema`: the trace source.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tracewarden_service::{ColumnDetail, FieldMark, MemberDetail, SampledColumn, TableSummary};
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::code::Code;
use crate::preconditions::{IfMatch, Version, etag};
use crate::problem::Problem;
use crate::query::Path;
use crate::read_only::ReadOnly;
use crate::routes::Caller;
use crate::schema_wire::{BindingRequest, LogicalType, WireAccessModel, WireBinding};

/// The binding and the marked fields.
#[utoipa::path(get, path = "/schema", tag = "trace source", responses(
    (status = 200, description = "The access model", body = WireAccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
))]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    let current = app.service.access_model(&caller.require_admin()?).await?;
    Ok((etag(current.model.version), Answer(WireAccessModel::from(current))))
}

/// A table of the trace store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Table {
    /// Database.
    database: String,
    /// Name.
    name: String,
    /// Engine.
    engine: String,
    /// Rows, where the engine knows.
    #[schema(required = true)]
    rows: Option<u64>,
    /// Bytes on disk, where the engine knows.
    #[schema(required = true)]
    bytes: Option<u64>,
    /// The structural columns that we would propose; null when the table does not look like one of spans.
    #[schema(required = true)]
    proposal: Option<WireBinding>,
    /// Why there is no proposal, and what to bind instead, where that is for the kind of table that it is and not for its
    /// columns.
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
            unsuitable: table.unsuitable,
        }
    }
}

/// Tables of the trace store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableList {
    /// Without the trace store's own.
    tables: Vec<Table>,
}

/// Tables of the trace store that could be bound.
#[utoipa::path(get, path = "/schema/tables", tag = "trace source", responses(
    (status = 200, description = "Tables", body = TableList),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn tables(State(app): State<App>, caller: Caller) -> Result<Answer<TableList>, Problem> {
    let tables = app.service.tables(&caller.require_admin()?).await?;
    Ok(Answer(TableList { tables: tables.into_iter().map(Table::from).collect() }))
}

/// A column.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableColumn {
    /// Name.
    name: String,
    /// Type in the trace store.
    #[serde(rename = "type")]
    column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot.
    logical_types: Vec<LogicalType>,
    /// The types that keys of a map, or paths of a JSON column without a declared type, can be marked as.
    key_logical_types: Vec<LogicalType>,
    /// Members of a nested column and declared paths of a JSON column.
    members: Vec<ColumnMember>,
}

/// A part of a column that the column's type names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ColumnMember {
    /// What to mark it with as `map`: the JSON column; empty for a member of a nested column.
    map: String,
    /// What to mark it with as `name`: the path, or the column and the member with a dot between them.
    #[schema(examples("Events.Name"))]
    name: String,
    /// Type in the trace store; empty when no field can be made of it.
    #[serde(rename = "type")]
    column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot.
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

/// What was found in a map or JSON column.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SampledMap {
    /// The column.
    map: String,
    /// Rows that were looked at.
    sampled_rows: u64,
    /// Keys or paths, the most frequent first; at most 500.
    keys: Vec<SampledKey>,
    /// Whether there was too much to look at in a few seconds, so that the keys are not known.
    gave_up: bool,
}

/// A key of a map, or a path of a JSON column, that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SampledKey {
    /// The key or path.
    name: String,
    /// Rows that have it, of those that were looked at.
    rows: u64,
    /// Types of its values in the trace store: of the map's values, or those that were found at the path.
    types: Vec<String>,
    /// The types that it can be marked as, first what fits the values that were found; empty when it cannot.
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
            gave_up: sampled.gave_up,
        }
    }
}

/// What a table holds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TableDetail)]
pub(crate) struct WireTableDetail {
    /// Columns in order.
    columns: Vec<TableColumn>,
    /// Keys of map columns and paths of JSON columns, found in a bounded sample of the first 30 such columns.
    maps: Vec<SampledMap>,
    /// Whether rows were looked at; the setting `discovery_samples` can forbid it.
    sampled: bool,
    /// Why the table does not do as a trace source, and what to bind instead; null where nothing speaks against it.
    #[schema(required = true)]
    unsuitable: Option<String>,
}

/// Columns of a table, and keys of its maps and paths of its JSON columns with example values. Looking at them is audited.
#[utoipa::path(get, path = "/schema/tables/{database}/{table}", tag = "trace source", params(
    ("database" = String, Path, description = "Database"), ("table" = String, Path, description = "Table")), responses(
    (status = 200, description = "What the table holds", body = WireTableDetail),
    (status = 404, description = "`not_found`: no such table"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn table(
    State(app): State<App>,
    caller: Caller,
    Path((database, table)): Path<(String, String)>,
) -> Result<Answer<WireTableDetail>, Problem> {
    let detail = app.service.table(&caller.require_admin()?, &database, &table).await?;
    Ok(Answer(WireTableDetail {
        columns: detail.columns.into_iter().map(TableColumn::from).collect(),
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
    /// What works, yet perhaps not as expected.
    warnings: Vec<String>,
}

/// Binds a table as trace source, after checking its columns and their types.
#[utoipa::path(put, path = "/schema/binding", tag = "trace source", request_body = BindingRequest, params(
    ("If-Match" = Option<String>, Header, description = "The `ETag` of `GET /schema`; required when a table is bound, unless the body has `version`", example = "*")), responses(
    (status = 200, description = "Bound", body = BoundSchema, headers(("ETag" = String, description = "Of binding and fields"))),
    (status = 409, description = "`conflict`: a marked field or a stored policy would break"),
    (status = 412, description = "`precondition_failed`: changed since"),
    (status = 422, description = "`unknown_field`, or `invalid_value`: a table or column that will not do"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn put_binding(
    State(app): State<App>,
    caller: Caller,
    if_match: IfMatch,
    Json(request): Json<BindingRequest>,
) -> Result<impl IntoResponse, Problem> {
    let (version, binding) = request.into_parts();
    let if_match = if_match.and_model(version);
    let bound = app.service.put_binding(&caller.require_admin()?, binding, if_match).await?;
    let tag = etag(bound.current.model.version);
    Ok((tag, Answer(BoundSchema { model: bound.current.into(), warnings: bound.warnings })))
}

/// The marked fields, all of them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldsRequest {
    /// What is not here is no longer marked.
    fields: Vec<WireFieldMark>,
    /// The version of the access model that is to be replaced; acts as `If-Match` does.
    #[schema(value_type = Option<u64>)]
    version: Option<Version>,
    /// The bound table, as it is: `PUT /schema/binding` changes it.
    binding: Option<WireBinding>,
}

/// A field to be marked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FieldMark)]
pub(crate) struct WireFieldMark {
    /// The map column or the JSON column; absent or empty for a column of its own.
    map: Option<String>,
    /// The key within the map, the path within the JSON column (`a.b`), the column's name, or that of a nested column's
    /// member (`Events.Name`).
    name: String,
    /// Its type; absent for the natural one of the column, which for a JSON path without a declared type is `string`.
    #[serde(rename = "type")]
    logical: Option<LogicalType>,
    /// Whether filters may use it.
    filterable: bool,
    /// Whether policies may use it; never for numbers.
    policy: bool,
    /// For a key of a map: the materialized column of it that policies are to read in place of the map, which is the same
    /// and faster. It is compared with the map over the whole table before it is adopted. Absent for none.
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

/// Replaces the marked fields in one step. A change that would break a stored policy is refused.
#[utoipa::path(put, path = "/schema/fields", tag = "trace source", request_body = FieldsRequest, params(
    ("If-Match" = Option<String>, Header, description = "The `ETag` of `GET /schema`; required, unless the body has `version`", example = "*")), responses(
    (status = 200, description = "Marked", body = WireAccessModel, headers(("ETag" = String, description = "Of binding and fields"))),
    (status = 409, description = "`conflict`: a stored policy would break; `not_bound`: no table is bound"),
    (status = 412, description = "`precondition_failed`: changed since"),
    (status = 422, description = "`unknown_field`, or `invalid_value`: a field that will not do; `column_differs`: a column \
        to adopt has other values than the map"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
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
        && app.service.access_model(&admin).await?.model.binding != Some(binding.into())
    {
        let detail = "another binding than the one in force; `PUT /schema/binding` changes it";
        return Err(Problem::member(Code::InvalidValue, "/binding", detail));
    }
    let marks = fields.into_iter().map(FieldMark::from).collect();
    let current = app.service.put_fields(&admin, marks, if_match.and_model(version)).await?;
    Ok((etag(current.model.version), Answer(WireAccessModel::from(current))))
}
