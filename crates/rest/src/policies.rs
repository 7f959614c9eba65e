//! `/policies`.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::Diagnostic;
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::problem::Problem;
use crate::routes::Caller;

/// A remark on a policy's expression.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(crate) struct WireDiagnostic {
    /// Line, from 1.
    line: u32,
    /// Column, from 1, in code points.
    column: u32,
    /// Length, in code points.
    length: u32,
    /// Machine-readable kind.
    code: &'static str,
    /// What is wrong, for people.
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
}

impl From<Diagnostic> for WireDiagnostic {
    fn from(diagnostic: Diagnostic) -> Self {
        let Diagnostic { line, column, length, code, message, hint } = diagnostic;
        Self { line, column, length, code, message, hint }
    }
}

/// Remarks for the wire.
pub(crate) fn diagnostics(list: Vec<Diagnostic>) -> Vec<WireDiagnostic> {
    list.into_iter().map(WireDiagnostic::from).collect()
}

/// An expression to be checked.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// CEL.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    expression: String,
}

/// What checking an expression found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckResult {
    /// Whether a role may hold it.
    valid: bool,
    /// Why not.
    errors: Vec<WireDiagnostic>,
    /// Fields that it reads.
    fields: Vec<String>,
    /// What is allowed, yet perhaps not meant.
    warnings: Vec<WireDiagnostic>,
    /// Its form in ClickHouse; null when it is not valid.
    #[schema(required = true)]
    predicate: Option<String>,
}

/// Checks an expression against the access model as it is now.
#[utoipa::path(post, path = "/policies/check", tag = "roles", request_body = CheckRequest, responses(
    (status = 200, description = "What was found", body = CheckResult),
))]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<CheckRequest>,
) -> Result<Answer<CheckResult>, Problem> {
    let check = app.service.check_policy(&caller.require_admin()?, &request.expression).await?;
    Ok(Answer(CheckResult {
        valid: check.errors.is_empty(),
        errors: diagnostics(check.errors),
        fields: check.fields,
        warnings: diagnostics(check.warnings),
        predicate: check.predicate,
    }))
}
