//! `/policies`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::Caller as User;
use tracewarden_service::{Decision, Diagnostic, EVALUATED_SPANS_MAX, PolicyOutcome, Verdict};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::code::Code;
use crate::extractors::Caller;
use crate::json;
use crate::problem::Problem;
use crate::span_wire;
use crate::wire::{Attributes, to_values};

/// A diagnostic about a policy's expression.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub struct WireDiagnostic {
    /// Line, from 1.
    line: u32,
    /// Column, from 1, in code points.
    column: u32,
    /// Length, in code points.
    length: u32,
    /// Machine-readable kind.
    code: &'static str,
    /// Description of the problem, as readable text.
    message: String,
    /// Suggested correction.
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

/// Converts diagnostics to their wire format.
pub(crate) fn diagnostics(list: Vec<Diagnostic>) -> Vec<WireDiagnostic> {
    list.into_iter().map(WireDiagnostic::from).collect()
}

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

/// Result of checking an expression.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckResult {
    /// Whether the expression is valid in a role.
    pub valid: bool,
    /// The errors, if it is not valid.
    pub errors: Vec<WireDiagnostic>,
    /// Fields that the expression reads.
    pub fields: Vec<String>,
    /// Warnings about possible mistakes in a valid expression.
    pub warnings: Vec<WireDiagnostic>,
    /// The compiled SQL; null when the expression is not valid.
    #[schema(required = true)]
    pub predicate: Option<String>,
    /// Number of recent traces that the expression was tested on; absent when this was not requested or not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recent_traces: Option<u64>,
}

impl CheckResult {
    /// Returns the result of a check without a service.
    pub fn offline(
        errors: Vec<Diagnostic>,
        fields: Vec<String>,
        warnings: Vec<Diagnostic>,
        predicate: Option<String>,
    ) -> Self {
        Self {
            valid: errors.is_empty(),
            errors: diagnostics(errors),
            fields,
            warnings: diagnostics(warnings),
            predicate,
            recent_traces: None,
        }
    }
}

/// Checks an expression against the current access model.
#[utoipa::path(post, path = "/policies/check", tag = "roles", request_body = CheckRequest, responses(
    (status = 200, description = "The diagnostics", body = CheckResult),
))]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<CheckRequest>,
) -> Result<JsonResponse<CheckResult>, Problem> {
    let CheckRequest { expression, recent_traces } = request;
    let check =
        app.service.roles().check_policy(&caller.require_admin()?, &expression, recent_traces).await?;
    Ok(JsonResponse(CheckResult {
        valid: check.errors.is_empty(),
        errors: diagnostics(check.errors),
        fields: check.fields,
        warnings: diagnostics(check.warnings),
        predicate: check.predicate,
        recent_traces: check.recent_traces,
    }))
}

/// A user for whom a policy is evaluated; the user need not exist.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluatedUser {
    /// `user.username`.
    #[schema(examples("ada"))]
    username: String,
    /// `user.roles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, examples(json!(["payments"])))]
    roles: Vec<String>,
    /// `user.attributes`.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    #[schema(required = false, examples(json!({"team": "payments"})))]
    attributes: Attributes,
}

impl From<EvaluatedUser> for User {
    fn from(user: EvaluatedUser) -> Self {
        let EvaluatedUser { username, roles, attributes } = user;
        Self { username, roles: roles.into_iter().collect(), attributes: to_values(attributes) }
    }
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
    spans: Vec<json::Json>,
}

/// Value of an expression or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyOutcome)]
pub enum WireOutcome {
    /// True: the span satisfies the policy.
    True,
    /// False.
    False,
    /// Evaluation failed: the span satisfies neither the policy nor its negation.
    Error,
}

impl From<&PolicyOutcome> for WireOutcome {
    fn from(outcome: &PolicyOutcome) -> Self {
        match outcome {
            PolicyOutcome::True => Self::True,
            PolicyOutcome::False => Self::False,
            PolicyOutcome::Error(_) => Self::Error,
        }
    }
}

/// A deciding part of the expression.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
pub struct WireDecision {
    /// Line, from 1.
    line: u32,
    /// Column, from 1, in code points.
    column: u32,
    /// Length, in code points.
    length: u32,
    /// Outcome of this part by itself.
    outcome: WireOutcome,
    /// Reason for an error, and the values that the part read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("`SpanAttributes[\"team\"]` is absent on this span"))]
    detail: Option<String>,
}

impl From<Decision> for WireDecision {
    fn from(decision: Decision) -> Self {
        let detail = decision.detail();
        let Decision { line, column, length, outcome, .. } = decision;
        Self { line, column, length, outcome: (&outcome).into(), detail }
    }
}

/// Outcome of the expression on one span.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Evaluation)]
pub struct WireVerdict {
    /// Only `true` satisfies a policy.
    outcome: WireOutcome,
    /// Reason for an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// The parts that determine the outcome, in text order.
    decided_by: Vec<WireDecision>,
}

impl From<Verdict> for WireVerdict {
    fn from(verdict: Verdict) -> Self {
        let outcome = WireOutcome::from(&verdict.outcome);
        let reason = verdict.decided_by.iter().find_map(|decision| match &decision.outcome {
            PolicyOutcome::Error(reason) => Some(reason.clone()),
            _ => None,
        });
        let detail = reason.filter(|_| outcome == WireOutcome::Error);
        Self { outcome, detail, decided_by: verdict.decided_by.into_iter().map(Into::into).collect() }
    }
}

/// Outcome of an expression on each span.
#[derive(Debug, Serialize, ToSchema)]
pub struct EvaluateResult {
    /// In the order of the spans.
    results: Vec<WireVerdict>,
}

impl From<Vec<Verdict>> for EvaluateResult {
    fn from(verdicts: Vec<Verdict>) -> Self {
        Self { results: verdicts.into_iter().map(Into::into).collect() }
    }
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
    let EvaluateRequest { expression, user, spans } = request;
    let admin = caller.require_admin()?;
    if spans.len() > EVALUATED_SPANS_MAX {
        let detail = format!("at most {EVALUATED_SPANS_MAX} spans at a time");
        return Err(Problem::member(Code::InvalidValue, "/spans", detail));
    }
    let read = move |model: &_| span_wire::spans(&spans, model, "/spans");
    let verdicts = app.service.policies().evaluate_policy(&admin, expression, user.into(), read).await?;
    Ok(JsonResponse(verdicts.into()))
}
