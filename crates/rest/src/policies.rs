//! `/policies`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Deserialize;
use tracewarden_documents::{EvaluatedUser, spans};
use tracewarden_service::{EVALUATED_SPANS_MAX, EvaluateResult, PolicyCheck};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::code::Code;
use crate::extractors::Caller;
use crate::problem::Problem;

/// An expression to check.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    /// The CEL expression.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    expression: String,
    /// Whether to test it also on a sample of recent traces, for a second at most. Such tests are recorded in the audit log, so
    /// an editor should not request them with each keystroke.
    #[serde(default)]
    #[schema(required = false, default = false)]
    recent_traces: bool,
}

/// Checks an expression against the current access model.
#[utoipa::path(post, path = "/policies/check", tag = "roles", request_body = CheckRequest, responses(
    (status = 200, description = "The diagnostics", body = PolicyCheck),
))]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<CheckRequest>,
) -> Result<JsonResponse<PolicyCheck>, Problem> {
    let CheckRequest { expression, recent_traces } = request;
    let admin = caller.require_admin()?;
    Ok(JsonResponse(app.service.roles().check_policy(&admin, &expression, recent_traces).await?))
}

/// An expression to evaluate on spans.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvaluateRequest {
    /// The CEL expression.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    expression: String,
    /// The user for whom to evaluate.
    user: EvaluatedUser,
    /// Spans in the format of query results, at most 1,000. Columns that policies cannot use are ignored.
    #[schema(value_type = Vec<Object>, examples(json!([{"ServiceName": "checkout", "SpanAttributes": {"team": "payments"}}])))]
    spans: Vec<tracewarden_documents::Json>,
}

/// Evaluates an expression on the spans in the request, with the current access model. Reads no trace and stores nothing.
#[utoipa::path(post, path = "/policies/evaluate", tag = "roles", request_body = EvaluateRequest, responses(
    (status = 200, description = "The result on each span", body = EvaluateResult),
    (status = 422, description = "`policy_invalid`, with the place in the text; `value_type`: a value that no row can have; `invalid_value`: more than 1,000 spans, or an attribute that no user can have"),
))]
pub(crate) async fn evaluate(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<EvaluateRequest>,
) -> Result<JsonResponse<EvaluateResult>, Problem> {
    let EvaluateRequest { expression, user, spans: sent } = request;
    let admin = caller.require_admin()?;
    if sent.len() > EVALUATED_SPANS_MAX {
        let detail = format!("at most {EVALUATED_SPANS_MAX} spans at a time");
        return Err(Problem::member(Code::InvalidValue, "/spans", detail));
    }
    let read = move |model: &_| spans(&sent, model, "/spans");
    let verdicts = app.service.policies().evaluate_policy(&admin, expression, user.into(), read).await?;
    Ok(JsonResponse(verdicts.into()))
}
