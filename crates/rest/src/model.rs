//! `/schema/export`, `/schema/plan`, `/schema/import` and `/schema/history`: the whole access model as one file.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use tracewarden_documents::{
    Document, Fault, Json, MAX_VALUES, MemberFault, PolicyFile, json_of, run_tests, yaml,
};
use tracewarden_service::{
    HistoryEntry, HistoryPage, ImportedModel, Limit, ModelAt, ModelChange, ModelFile, ModelPlan, ModelState,
    ServiceError, limit_in_query,
};
use utoipa::{IntoParams, ToSchema};

use crate::accept::Representation;
use crate::app::App;
use crate::body::{MAX_DOCUMENT_BYTES, ModelDocument, unreadable, with_document_permit};
use crate::code::Code;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, etag};
use crate::problem::{InvalidMember, Problem};
use crate::query::{Path, Query};

/// Members that an imported file must have, so that a partial file, such as one for tests, does not remove the other parts.
const REQUIRED: [&str; 3] = ["binding", "fields", "roles"];

/// Exports the whole current access model: binding, marked fields, roles with their policies, tests. The same model always gives
/// the same text.
#[utoipa::path(get, path = "/schema/export", tag = "access model", responses(
    (status = 200, description = "The file", content((PolicyFile = "application/json"), (String = "application/yaml")),
        headers(("ETag" = String, description = "The version of the access model"))),
))]
pub(crate) async fn export(
    State(app): State<App>,
    caller: Caller,
    Extension(representation): Extension<Representation>,
) -> Result<Response, Problem> {
    let exported = app.service.model_files().export_model(&caller.require_admin()?).await?;
    Ok((etag(exported.version), file(exported.state, representation).await?).into_response())
}

/// Time limit of a plan.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PlanRequest {
    /// How long ClickHouse may spend on determining the traces that users would gain and lose, in seconds, at most 60; 1 when
    /// absent. 0 skips this step.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 60, default = 1)]
    #[serde(default, deserialize_with = "limit_in_query")]
    seconds: Option<i64>,
}

/// Plans an import: returns the effect of a file without changing anything.
#[utoipa::path(post, path = "/schema/plan", tag = "access model", params(PlanRequest),
    request_body(content((PolicyFile = "application/json"), (String = "application/yaml"))), responses(
    (status = 200, description = "The plan", body = ModelPlan),
    (status = 409, description = "`conflict`: names of two roles differ only by case"),
    (status = 422, description = "As for an import, except for failed tests, which the plan reports; `invalid_value`: `seconds` is out of range"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<PlanRequest>,
    document: ModelDocument,
) -> Result<Response, Problem> {
    let admin = caller.require_admin()?;
    let file = document.read(|document| validate(read(document)?, document)).await?;
    let plan = app.service.model_files().plan_model(&admin, file, run_tests, request.seconds).await?;
    json_response(|| Ok(plan)).await
}

/// Imports a file, all of it or nothing. Fields, roles with their assignments, policies and tests that the file does not contain
/// are removed. Unchanged roles are not touched.
#[utoipa::path(put, path = "/schema/import", tag = "access model",
    request_body(content((PolicyFile = "application/json"), (String = "application/yaml"))), params(
    ("If-Match" = String, Header, description = "The version of the access model, as returned by an export or a plan", example = "*")), responses(
    (status = 200, description = "In force", body = ImportedModel, headers(("ETag" = String, description = "The version of the access model"))),
    (status = 409, description = "`conflict`: the bound table no longer exists, or names of two roles differ only by case"),
    (status = 412, description = "`precondition_failed`: changed in the meantime"),
    (status = 422, description = "`invalid_value`, `unknown_field`, `policy_invalid` or `column_differs`, as for the requests that change one part; `tests_failed`: tests of the file fail"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    IfMatch(if_match): IfMatch,
    document: ModelDocument,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let is_conditional = if_match.is_some();
    let make = move |document: &Document| {
        let file = read(document)?;
        // Checked before the content: a client without `If-Match` has not read the current model.
        if !is_conditional {
            return Err(ServiceError::PreconditionRequired.into());
        }
        validate(file, document)
    };
    let file = document.read(make).await?;
    let imported = app.service.model_files().import_model(&admin, file, if_match, run_tests).await?;
    Ok((etag(imported.version), json_response(|| Ok(imported)).await?))
}

/// Selects a page of changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryRequest {
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of changes in a page: 20 when absent, at most 100.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit_in_query")]
    limit: Option<i64>,
}

/// Lists the changes of the access model and their authors.
#[utoipa::path(get, path = "/schema/history", tag = "access model", params(HistoryRequest), responses(
    (status = 200, description = "Changes", body = HistoryPage),
    (status = 400, description = "`invalid_cursor`: not a cursor of the history"),
))]
pub(crate) async fn history(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<HistoryRequest>,
) -> Result<JsonResponse<HistoryPage>, Problem> {
    let admin = caller.require_admin()?;
    let page =
        app.service.model_files().model_history(&admin, request.cursor.as_deref(), request.limit).await?;
    Ok(JsonResponse(page))
}

/// The access model after a change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelAtChange)]
pub(crate) struct WireModelAt {
    /// The change.
    #[serde(flatten)]
    entry: HistoryEntry,
    /// The parts that the change affected.
    changes: Vec<ModelChange>,
    /// The whole model after the change.
    file: PolicyFile,
}

/// Returns the access model after a change, with the parts that the change affected; as YAML, the model file only.
#[utoipa::path(get, path = "/schema/history/{version}", tag = "access model",
    params(("version" = u64, Path, description = "The version of the access model")), responses(
    (status = 200, description = "The model", content((WireModelAt = "application/json"), (String = "application/yaml"))),
    (status = 404, description = "`not_found`: no such version"),
))]
pub(crate) async fn get_version(
    State(app): State<App>,
    caller: Caller,
    Extension(representation): Extension<Representation>,
    Path(number): Path<u64>,
) -> Result<Response, Problem> {
    let ModelAt { entry, changes, state } =
        app.service.model_files().model_at(&caller.require_admin()?, number).await?;
    if representation == Representation::Yaml {
        return file(state, representation).await;
    }
    json_response(|| {
        let file = PolicyFile::from_state(state).map_err(unreadable_tests)?;
        Ok(WireModelAt { entry, changes, file })
    })
    .await
}

/// Restores the access model of a change. Roles that were removed since are restored without their assignments to users.
#[utoipa::path(post, path = "/schema/history/{version}/restore", tag = "access model", params(
    ("version" = u64, Path, description = "The version of the access model"),
    ("If-Match" = String, Header, description = "The version of the access model, as returned by an export or a plan", example = "*")), responses(
    (status = 200, description = "In force", body = ImportedModel, headers(("ETag" = String, description = "The version of the access model"))),
    (status = 404, description = "`not_found`: no such version"),
    (status = 409, description = "`conflict`: the bound table no longer exists, or names of two roles differ only by case"),
    (status = 412, description = "`precondition_failed`: changed in the meantime"),
    (status = 422, description = "`invalid_value`, `unknown_field`, `policy_invalid` or `column_differs`: the table or the language has changed since, so this model is no longer valid"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path(number): Path<u64>,
    IfMatch(if_match): IfMatch,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let restored = app.service.model_files().restore_model(&admin, number, if_match, run_tests).await?;
    Ok((etag(restored.version), json_response(|| Ok(restored)).await?))
}

/// Serialises a response that can be as large as a model file.
async fn json_response<T: Serialize>(
    make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    with_document_permit(|| Ok(JsonResponse(make()?).into_response())).await?
}

/// Returns a model as a response.
async fn file(state: ModelState, representation: Representation) -> Result<Response, Problem> {
    let make = move || {
        let file = value(&PolicyFile::from_state(state).map_err(unreadable_tests)?);
        let kind = HeaderValue::from_static(representation.media_type());
        Ok(([(header::CONTENT_TYPE, kind)], render(&file, representation)).into_response())
    };
    with_document_permit(make).await?
}

/// Converts a file to JSON.
fn value(file: &PolicyFile) -> Json {
    // The file consists of strings, numbers, lists and objects with string keys, so serialising cannot fail.
    json_of(file).unwrap_or(Json::Null)
}

/// Serialises a file.
fn render(file: &Json, representation: Representation) -> String {
    match representation {
        Representation::Yaml => yaml(file),
        _ => serde_json::to_string_pretty(file).map(|text| text + "\n").unwrap_or_default(),
    }
}

fn unreadable_tests(fault: Fault) -> Problem {
    tracing::error!(
        position = %fault.position,
        fault = fault.message,
        "the stored tests of the access model cannot be read"
    );
    Problem::new(Code::Internal, "internal error")
}

/// Reads a file that contains the whole model.
fn read(document: &Document) -> Result<PolicyFile, Problem> {
    let file: PolicyFile = document.parse().map_err(|fault| unreadable(&fault))?;
    if let Some(missing) = REQUIRED.into_iter().find(|member| !document.has(member)) {
        let detail = format!(
            "`{missing}` is missing: the file must contain the whole access model: `binding` (null for \
             none), `fields` and `roles`"
        );
        return Err(Problem::invalid("", detail));
    }
    Ok(file)
}

/// Returns the model of a file if it can be imported unchanged.
fn validate(file: PolicyFile, document: &Document) -> Result<ModelFile, Problem> {
    let ambiguities = file.ambiguities(document);
    if !ambiguities.is_empty() {
        return Err(invalid_model(ambiguities));
    }
    // An imported model must also be exportable, and the export importable.
    let exported = value(&file);
    let too_many = |most: usize, what: &str| {
        let detail = format!("exported, the file would have more than {most} {what}");
        Err(Problem::new(Code::PayloadTooLarge, detail))
    };
    if exported.values() > MAX_VALUES {
        return too_many(MAX_VALUES, "values");
    }
    let forms = [Representation::Json, Representation::Yaml];
    if forms.into_iter().any(|form| render(&exported, form).len() > MAX_DOCUMENT_BYTES) {
        return too_many(MAX_DOCUMENT_BYTES, "bytes");
    }
    file.into_model_file().map_err(invalid_model)
}

fn invalid_model(faults: Vec<MemberFault>) -> Problem {
    let code = Code::InvalidValue;
    let detail = match faults.as_slice() {
        [one] => one.message.clone(),
        _ => "the request is well-formed, but not allowed".to_owned(),
    };
    faults.into_iter().fold(Problem::new(code, detail), |problem, MemberFault { pointer, message }| {
        problem.with(InvalidMember::new(pointer, code.as_str(), message))
    })
}
