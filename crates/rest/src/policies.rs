//! `/policies`.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::Caller as User;
use tracewarden_service::{Decision, Diagnostic, EVALUATED_SPANS_MAX, PolicyOutcome, Verdict};
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::code::Code;
use crate::json;
use crate::problem::Problem;
use crate::routes::Caller;
use crate::span_wire;
use crate::wire::{Attributes, to_values};

/// A remark on a policy's expression.
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
    /// Whether to try it on a sample of recent traces too, for a second at most. That is written down in the audit log,
    /// and so not what an editor asks for with each keystroke.
    #[serde(default)]
    #[schema(required = false, default = false)]
    recent_traces: bool,
}

/// What checking an expression found.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckResult {
    /// Whether a role may hold it.
    pub valid: bool,
    /// Why not.
    pub errors: Vec<WireDiagnostic>,
    /// Fields that it reads.
    pub fields: Vec<String>,
    /// What is allowed, yet perhaps not meant.
    pub warnings: Vec<WireDiagnostic>,
    /// Its form in ClickHouse; null when it is not valid.
    #[schema(required = true)]
    pub predicate: Option<String>,
    /// Recent traces that it was tried on; absent when that was not asked for or not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recent_traces: Option<u64>,
}

impl CheckResult {
    /// What a check without a service finds.
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

/// Checks an expression against the access model as it is now.
#[utoipa::path(post, path = "/policies/check", tag = "roles", request_body = CheckRequest, responses(
    (status = 200, description = "What was found", body = CheckResult),
))]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<CheckRequest>,
) -> Result<Answer<CheckResult>, Problem> {
    let CheckRequest { expression, recent_traces } = request;
    let check = app.service.check_policy(&caller.require_admin()?, &expression, recent_traces).await?;
    Ok(Answer(CheckResult {
        valid: check.errors.is_empty(),
        errors: diagnostics(check.errors),
        fields: check.fields,
        warnings: diagnostics(check.warnings),
        predicate: check.predicate,
        recent_traces: check.recent_traces,
    }))
}

/// A user whom a policy is evaluated for; they need not exist.
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

/// An expression to be evaluated on spans.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvaluateRequest {
    /// CEL.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    expression: String,
    /// For whom.
    user: EvaluatedUser,
    /// Spans as a query answers with them, at most 1,000. Columns that policies cannot use are ignored.
    #[schema(value_type = Vec<Object>, examples(json!([{"ServiceName": "checkout", "SpanAttributes": {"team": "payments"}}])))]
    spans: Vec<json::Json>,
}

/// Whether an expression, or a part of it, is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyOutcome)]
pub enum WireOutcome {
    /// It is: the span satisfies the policy.
    True,
    /// It is not.
    False,
    /// It cannot be told: the span does not satisfy the policy, nor its negation.
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

/// A part of the expression that decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
pub struct WireDecision {
    /// Line, from 1.
    line: u32,
    /// Column, from 1, in code points.
    column: u32,
    /// Length, in code points.
    length: u32,
    /// What the part is by itself.
    outcome: WireOutcome,
    /// Why it is an error, and the values that it looked at.
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

/// What the expression is on one span.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Evaluation)]
pub struct WireVerdict {
    /// Only `true` satisfies a policy.
    outcome: WireOutcome,
    /// Why it is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<String>,
    /// The parts that made it so, in the order of the text.
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

/// What an expression is on each span.
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

/// Evaluates an expression on spans that are sent, under the access model as it is now. Reads no trace and stores nothing.
#[utoipa::path(post, path = "/policies/evaluate", tag = "roles", request_body = EvaluateRequest, responses(
    (status = 200, description = "What it is on each span", body = EvaluateResult),
    (status = 422, description = "`policy_invalid`, with the place in the text; `value_type`: a value that no row can have; `invalid_value`: more than 1,000 spans, or an attribute that no user can have"),
))]
pub(crate) async fn evaluate(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<EvaluateRequest>,
) -> Result<Answer<EvaluateResult>, Problem> {
    let EvaluateRequest { expression, user, spans } = request;
    let admin = caller.require_admin()?;
    if spans.len() > EVALUATED_SPANS_MAX {
        let detail = format!("at most {EVALUATED_SPANS_MAX} spans at a time");
        return Err(Problem::member(Code::InvalidValue, "/spans", detail));
    }
    let read = move |model: &_| span_wire::spans(&spans, model, "/spans");
    let verdicts = app.service.evaluate_policy(&admin, expression, user.into(), read).await?;
    Ok(Answer(verdicts.into()))
}
