//! `/schema/export`, `/schema/plan`, `/schema/import` and `/schema/history`: the whole access model as one file.

use std::sync::atomic::AtomicBool;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde::Deserialize;
use tracewarden_service::suite::{Failure, Stuck};
use tracewarden_service::{AccessFile, FailedTest, FieldError, ModelAt, ModelState, ServiceError, TestRun};
use utoipa::IntoParams;

use crate::accept::Representation;
use crate::body::{MAX_DOCUMENT_BYTES, ModelDocument, unreadable};
use crate::code::Code;
use crate::model_wire::{WireHistoryPage, WireImportedModel, WireModelAt, WireModelPlan, changes};
use crate::policy_file::{FilePolicy, FileRole, MemberFault, PolicyFile, TestsDocument};
use crate::policy_suite::{SuiteFault, resolve};
use crate::preconditions::{IfMatch, etag};
use crate::problem::{InvalidMember, Problem};
use crate::query::{Path, Query};
use crate::routes::Caller;
use crate::text::{Document, Fault, yaml};
use crate::{App, limit};

/// What a file that is imported has to say, so that a file of a part, such as one for tests, takes nothing away.
const REQUIRED: [&str; 3] = ["binding", "fields", "roles"];

/// Of a test that fails, so many reasons are told.
const REASONS_TOLD: usize = 3;

/// The whole access model in force: binding, marked fields, roles with their policies, tests. The same model is always the
/// same text.
#[utoipa::path(get, path = "/schema/export", tag = "access model", responses(
    (status = 200, description = "The file", content((PolicyFile = "application/json"), (String = "application/yaml")),
        headers(("ETag" = String, description = "The last change"))),
))]
pub(crate) async fn export(
    State(app): State<App>,
    caller: Caller,
    representation: Representation,
) -> Result<Response, Problem> {
    let exported = app.service.export_model(&caller.require_admin()?).await?;
    Ok((etag(exported.change), file(exported.state, representation)?).into_response())
}

/// How far to look.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PlanRequest {
    /// How long the trace store may look at what users would gain and lose, in seconds, at most 60; 1 when absent. With 0 it
    /// does not look.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 60, default = 1)]
    #[serde(default, deserialize_with = "limit::in_query")]
    seconds: Option<i64>,
}

/// What putting a file in force would do. Changes nothing.
#[utoipa::path(post, path = "/schema/plan", tag = "access model", params(PlanRequest),
    request_body(content((PolicyFile = "application/json"), (String = "application/yaml"))), responses(
    (status = 200, description = "The plan", body = WireModelPlan),
    (status = 422, description = "As for an import, but for tests: of these the plan tells; `invalid_value`: of `seconds`"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<PlanRequest>,
    ModelDocument(document): ModelDocument,
) -> Result<Answer<WireModelPlan>, Problem> {
    let admin = caller.require_admin()?;
    let file = access_file(&document)?;
    Ok(Answer(app.service.plan_model(&admin, file, run_tests, request.seconds).await?.into()))
}

/// Puts a file in force, all of it or nothing. What it does not name is gone: fields, roles with who held them, policies,
/// tests. Roles that are the same before and after are not touched.
#[utoipa::path(put, path = "/schema/import", tag = "access model",
    request_body(content((PolicyFile = "application/json"), (String = "application/yaml"))), params(
    ("If-Match" = String, Header, description = "The last change, as an export or a plan tells it", example = "*")), responses(
    (status = 200, description = "In force", body = WireImportedModel, headers(("ETag" = String, description = "The change"))),
    (status = 409, description = "`conflict`: the bound table is gone"),
    (status = 412, description = "`precondition_failed`: changed since"),
    (status = 422, description = "`invalid_value`, `unknown_field`, `policy_invalid` or `column_differs`, as the requests that \
        change a part are refused; `tests_failed`: tests of the file do not pass"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    IfMatch(if_match): IfMatch,
    ModelDocument(document): ModelDocument,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let file = read(&document)?;
    // Before what is not allowed: whoever does not say what it is for has not looked at what is in force.
    if if_match.is_none() {
        return Err(ServiceError::PreconditionRequired.into());
    }
    let file = allowed(file, &document)?;
    let imported: WireImportedModel =
        app.service.import_model(&admin, file, if_match, run_tests).await?.into();
    Ok((etag(imported.change), Answer(imported)))
}

/// Which changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryRequest {
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Most changes in a page; 20 when absent, and never more than 100.
    #[param(value_type = Option<limit::Limit>, inline)]
    #[serde(default, deserialize_with = "limit::in_query")]
    limit: Option<i64>,
}

/// Who changed the access model, and what.
#[utoipa::path(get, path = "/schema/history", tag = "access model", params(HistoryRequest), responses(
    (status = 200, description = "Changes", body = WireHistoryPage),
    (status = 400, description = "`invalid_cursor`: not a cursor of the history"),
))]
pub(crate) async fn history(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<HistoryRequest>,
) -> Result<Answer<WireHistoryPage>, Problem> {
    let admin = caller.require_admin()?;
    let page = app.service.model_history(&admin, request.cursor.as_deref(), request.limit).await?;
    Ok(Answer(page.into()))
}

/// The access model as of a change, and what the change did; as YAML the file alone.
#[utoipa::path(get, path = "/schema/history/{change}", tag = "access model",
    params(("change" = u64, Path, description = "The change's number")), responses(
    (status = 200, description = "The model", content((WireModelAt = "application/json"), (String = "application/yaml"))),
    (status = 404, description = "`not_found`: no such change"),
))]
pub(crate) async fn at(
    State(app): State<App>,
    caller: Caller,
    representation: Representation,
    Path(number): Path<u64>,
) -> Result<Response, Problem> {
    let ModelAt { entry, changes: parts, state } =
        app.service.model_at(&caller.require_admin()?, number).await?;
    if representation == Representation::Yaml {
        return file(state, representation);
    }
    let file = PolicyFile::of(state).map_err(unknown_tests)?;
    Ok(Answer(WireModelAt { entry: entry.into(), changes: changes(parts), file }).into_response())
}

/// Puts the access model of a change in force again. Who held a role that was removed since does not hold it again.
#[utoipa::path(post, path = "/schema/history/{change}/restore", tag = "access model", params(
    ("change" = u64, Path, description = "The change's number"),
    ("If-Match" = String, Header, description = "The last change, as an export or a plan tells it", example = "*")), responses(
    (status = 200, description = "In force", body = WireImportedModel, headers(("ETag" = String, description = "The change"))),
    (status = 404, description = "`not_found`: no such change"),
    (status = 409, description = "`conflict`: the bound table is gone"),
    (status = 412, description = "`precondition_failed`: changed since"),
    (status = 422, description = "`invalid_value`, `unknown_field`, `policy_invalid` or `column_differs`: the table or the \
        language has changed since, so that this model cannot be in force any more"),
    (status = 428, description = "`precondition_required`: `If-Match` is missing"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path(number): Path<u64>,
    IfMatch(if_match): IfMatch,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let restored: WireImportedModel =
        app.service.restore_model(&admin, number, if_match, run_tests).await?.into();
    Ok((etag(restored.change), Answer(restored)))
}

/// A model as an answer.
fn file(state: ModelState, representation: Representation) -> Result<Response, Problem> {
    let file = PolicyFile::of(state).map_err(unknown_tests)?;
    let text = written(&file, representation);
    let kind = HeaderValue::from_static(representation.media_type());
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// The text of a file.
fn written(file: &PolicyFile, representation: Representation) -> String {
    // Strings, numbers, lists and objects with texts as names: serialising cannot fail.
    match representation {
        Representation::Yaml => yaml(&serde_json::to_value(file).unwrap_or_default()),
        _ => serde_json::to_string_pretty(file).unwrap_or_default() + "\n",
    }
}

fn unknown_tests(fault: Fault) -> Problem {
    tracing::error!(place = %fault.place, fault = fault.message, "the tests that are kept with the access model cannot be read");
    Problem::new(Code::Internal, ServiceError::Internal { inside: String::new() }.detail())
}

/// Reads a file that says all of the model.
fn access_file(document: &Document) -> Result<AccessFile, Problem> {
    allowed(read(document)?, document)
}

fn read(document: &Document) -> Result<PolicyFile, Problem> {
    let file: PolicyFile = document.parse().map_err(|fault| unreadable(&fault))?;
    if let Some(missing) = REQUIRED.into_iter().find(|member| !document.has(member)) {
        let detail = format!(
            "`{missing}` is missing: the file says all of the access model, `binding` (null for none), `fields` and `roles`"
        );
        return Err(Problem::invalid("", detail));
    }
    Ok(file)
}

fn allowed(file: PolicyFile, document: &Document) -> Result<AccessFile, Problem> {
    let unclear = file.unclear(document);
    if !unclear.is_empty() {
        return Err(refused(unclear));
    }
    // What is put in force must be possible to export, and to import again.
    let largest = [Representation::Json, Representation::Yaml].map(|form| written(&file, form).len());
    if largest.into_iter().any(|bytes| bytes > MAX_DOCUMENT_BYTES) {
        let detail = format!("exported, the file would have more than {MAX_DOCUMENT_BYTES} bytes");
        return Err(Problem::new(Code::PayloadTooLarge, detail));
    }
    file.into_access_file().map_err(refused)
}

fn refused(faults: Vec<MemberFault>) -> Problem {
    let code = Code::InvalidValue;
    let detail = match faults.as_slice() {
        [one] => one.message.clone(),
        _ => "the request is well-formed, but not allowed".to_owned(),
    };
    faults.into_iter().fold(Problem::new(code, detail), |problem, MemberFault { pointer, message }| {
        problem.with(InvalidMember::new(pointer, code.as_str(), message))
    })
}

/// Runs the tests that are kept with a model.
fn run_tests(state: &ModelState, stopped: &AtomicBool) -> Result<TestRun, Vec<FieldError>> {
    let error = |pointer: &str, detail: String| FieldError {
        pointer: pointer.to_owned(),
        code: Code::InvalidValue.as_str(),
        detail,
        diagnostic: None,
    };
    let document = TestsDocument::read(&state.tests)
        .map_err(|fault| vec![error("/tests", format!("the tests cannot be read: {}", fault.message))])?;
    let TestsDocument { users, traces, tests } = document;
    let roles = state.roles.iter().map(|(name, policies)| FileRole {
        name: name.clone(),
        policies: policies.iter().cloned().map(FilePolicy::from).collect(),
    });
    let file = PolicyFile { roles: roles.collect(), users, traces, tests, ..PolicyFile::default() };
    let suite = resolve(&file, &state.model).map_err(|faults| -> Vec<FieldError> {
        let told = faults.into_iter().map(|fault| match fault {
            SuiteFault::Member(MemberFault { pointer, message }) => error(&pointer, message),
            SuiteFault::Policy { label, diagnostics, .. } => {
                let reason = diagnostics.into_iter().next().map(|found| found.message).unwrap_or_default();
                error("/roles", format!("policy `{label}`: {reason}"))
            }
        });
        told.collect()
    })?;
    let mut run = TestRun::default();
    for (at, test) in suite.tests.iter().enumerate() {
        let pointer = format!("/tests/{at}");
        match suite.run(test, stopped) {
            Ok(failures) if failures.is_empty() => run.passed += 1,
            Ok(failures) => {
                let message = message(&failures);
                run.failed.push(FailedTest { pointer, name: test.name.clone(), message });
            }
            Err(Stuck { policy, diagnostics }) => {
                let reason = diagnostics.into_iter().next().map(|found| found.message).unwrap_or_default();
                let message = format!("policy `{}`: {reason}", policy.label);
                return Err(vec![error(&pointer, message)]);
            }
        }
    }
    Ok(run)
}

fn message(failures: &[Failure]) -> String {
    let told = failures.iter().take(REASONS_TOLD).map(|failure| {
        let Failure { about, expected, got, .. } = failure;
        format!("{about}: expected {expected}, got {got}")
    });
    let mut reasons: Vec<String> = told.collect();
    if failures.len() > REASONS_TOLD {
        reasons.push(format!("and {} more", failures.len() - REASONS_TOLD));
    }
    reasons.join("; ")
}
