//! `/traces/{id}/explain` and `/traces/{id}/viewers`.

use std::collections::BTreeSet;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::AccessModel;
use tracewarden_service::{
    Decision, ExplainVerdict, ExplainedPolicy, ExplainedUser, Explanation, NearestSpan, PolicyExplanation,
    PolicyVerdict, Span, SpanReference, SpanVerdict, Viewers,
};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extractors::Caller;
use crate::json::Json;
use crate::policies::{WireDecision, WireDiagnostic, WireOutcome, diagnostics};
use crate::problem::Problem;
use crate::query::{Path, Query};
use crate::span_wire;
use crate::wire::{Attributes, to_wire};

/// Selects the user whose access to explain.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainQuery {
    /// Name of a user, for administrators; the caller when absent.
    #[param(example = "ada")]
    user: Option<String>,
}

/// The user whose access is explained, with the properties that policies depend on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedUser)]
pub(crate) struct WireUser {
    /// User name; during a preview, the name of the previewed user.
    username: String,
    /// Roles.
    roles: BTreeSet<String>,
    /// Attributes that policies may read.
    attributes: Attributes,
    /// Whether the user can neither sign in nor use keys.
    disabled: bool,
}

impl From<ExplainedUser> for WireUser {
    fn from(user: ExplainedUser) -> Self {
        let ExplainedUser { username, roles, attributes, disabled } = user;
        Self { username, roles, attributes: to_wire(attributes), disabled }
    }
}

/// Why a trace is visible to a user or is not.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AccessVerdict)]
pub(crate) enum WireAccessVerdict {
    /// Visible: a span satisfies a policy.
    Opened,
    /// Not visible: no role of the user has a policy.
    NoPolicy,
    /// Not visible: no span satisfies a policy.
    NotSatisfied,
    /// Not visible: a span satisfies a policy, but no span satisfies the policy of the API key.
    KeyConstraint,
    /// Not visible: the user is disabled.
    Disabled,
    /// Not visible: the user must change the password first. Until then, no session or API key of the user can read traces.
    PasswordChangeRequired,
    /// Not visible: a stored policy cannot be applied, so every read of the user is rejected.
    Broken,
}

impl From<ExplainVerdict> for WireAccessVerdict {
    fn from(verdict: ExplainVerdict) -> Self {
        match verdict {
            ExplainVerdict::Granted => Self::Opened,
            ExplainVerdict::NoPolicy => Self::NoPolicy,
            ExplainVerdict::NotSatisfied => Self::NotSatisfied,
            ExplainVerdict::KeyConstraint => Self::KeyConstraint,
            ExplainVerdict::Disabled => Self::Disabled,
            ExplainVerdict::PasswordChangeRequired => Self::PasswordChangeRequired,
            ExplainVerdict::Broken => Self::Broken,
        }
    }
}

/// Result of a policy on a trace.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyVerdict)]
pub(crate) enum WirePolicyVerdict {
    /// A span satisfies the policy.
    Satisfied,
    /// No span satisfies the policy.
    NotSatisfied,
    /// The policy cannot be applied.
    Broken,
}

impl From<PolicyVerdict> for WirePolicyVerdict {
    fn from(verdict: PolicyVerdict) -> Self {
        match verdict {
            PolicyVerdict::Satisfied => Self::Satisfied,
            PolicyVerdict::NotSatisfied => Self::NotSatisfied,
            PolicyVerdict::Broken => Self::Broken,
        }
    }
}

/// A span of the trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SpanMention)]
pub(crate) struct WireMention {
    /// Span id. Some emitters leave it empty or give one id to several spans: `start`, `name` and `service` distinguish these.
    /// Spans that are equal in all of them are listed once.
    span_id: String,
    /// When the span began.
    #[schema(value_type = String, format = DateTime)]
    start: String,
    /// Operation name, truncated to 100 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Service name, truncated to 100 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    service: Option<String>,
}

impl From<SpanReference> for WireMention {
    fn from(SpanReference { span_id, start, name, service }: SpanReference) -> Self {
        Self { span_id, start: start.to_string(), name, service }
    }
}

/// The span that comes nearest to satisfying a policy.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NearestSpan)]
pub(crate) struct WireNearest {
    /// The span.
    #[serde(flatten)]
    span: WireMention,
    /// From 0 to 1: how much of the policy the span satisfies.
    score: f64,
}

impl From<NearestSpan> for WireNearest {
    fn from(NearestSpan { span, score }: NearestSpan) -> Self {
        Self { span: span.into(), score }
    }
}

/// A deciding part of an expression, with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecidingPart {
    /// Position and outcome.
    #[serde(flatten)]
    decision: WireDecision,
    /// Text of the part in the expression.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    text: String,
}

/// The deciding parts of an expression for one span.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecidedBy)]
pub(crate) struct WireDecidedBy {
    /// The span: the first one in `spans`, otherwise `nearest`. If several spans cannot be told apart, one for which the policy
    /// has this `outcome`.
    span_id: String,
    /// When the span began.
    #[schema(value_type = String, format = DateTime)]
    start: String,
    /// Outcome of the expression for the span.
    outcome: WireOutcome,
    /// The parts that determine the outcome, in text order.
    parts: Vec<DecidingPart>,
}

fn decided_by(SpanVerdict { span, verdict }: SpanVerdict, expression: &str) -> WireDecidedBy {
    let part = |decision: Decision| DecidingPart {
        text: part(expression, &decision).unwrap_or_default(),
        decision: decision.into(),
    };
    WireDecidedBy {
        span_id: span.span_id,
        start: span.start.to_string(),
        outcome: (&verdict.outcome).into(),
        parts: verdict.decided_by.into_iter().map(part).collect(),
    }
}

/// Returns the text at a position. Lines and code points are counted from 1.
fn part(expression: &str, decision: &Decision) -> Option<String> {
    let before = usize::try_from(decision.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(decision.column).ok()?.checked_sub(1)?;
    let lines: usize = expression.split_inclusive('\n').take(before).map(str::len).sum();
    let rest = expression.get(lines..)?;
    Some(rest.chars().skip(column).take(usize::try_from(decision.length).ok()?).collect())
}

/// The result of a policy, or of a scoped API key's policy, on one trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyExplanation)]
pub(crate) struct WireExplanation {
    /// The CEL expression; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expression: Option<String>,
    /// The condition that a span must satisfy, with the user's attributes filled in; absent when it names fields that the caller
    /// may not know of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("SpanAttributes[\"team\"] is \"payments\""))]
    in_words: Option<String>,
    /// Result on this trace.
    outcome: WirePolicyVerdict,
    /// Number of spans that satisfy the policy; absent when it cannot be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    satisfied_by: Option<u64>,
    /// The earliest of these spans, at most 20; empty without `details`.
    spans: Vec<WireMention>,
    /// The deciding parts for the first of these spans, otherwise for the nearest span; for administrators, with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    decided_by: Option<WireDecidedBy>,
    /// When no span satisfies the policy, the span that comes nearest; only with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    nearest: Option<WireNearest>,
    /// Why the policy cannot be applied; for administrators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<WireDiagnostic>,
}

impl From<PolicyExplanation> for WireExplanation {
    fn from(explanation: PolicyExplanation) -> Self {
        let text = explanation.expression.clone().unwrap_or_default();
        Self {
            expression: explanation.expression,
            in_words: explanation.in_words,
            outcome: explanation.outcome.into(),
            satisfied_by: explanation.satisfied_by,
            spans: explanation.spans.into_iter().map(WireMention::from).collect(),
            decided_by: explanation.decided_by.map(|decided| decided_by(decided, &text)),
            nearest: explanation.nearest.map(WireNearest::from),
            errors: diagnostics(explanation.errors),
        }
    }
}

/// The result of a policy of a role on one trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedPolicy)]
pub(crate) struct WireExplainedPolicy {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// The policy's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
    /// Result on the trace.
    #[serde(flatten)]
    explained: WireExplanation,
}

impl From<ExplainedPolicy> for WireExplainedPolicy {
    fn from(policy: ExplainedPolicy) -> Self {
        let ExplainedPolicy { role, title, description, explained } = policy;
        Self { role, title, description, explained: explained.into() }
    }
}

/// Why a user can read a trace or cannot.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AccessExplanation {
    /// The trace.
    trace_id: String,
    /// The user whose access is explained.
    user: WireUser,
    /// Whether the user can read the trace.
    visible: bool,
    /// The reason.
    verdict: WireAccessVerdict,
    /// The reason in one sentence.
    #[schema(examples("`ada` sees this trace: the policy `Own team` of the role `payments` grants access"))]
    summary: String,
    /// Number of spans in the trace.
    spans: u64,
    /// Whether the caller may read the trace; otherwise the response contains counts only and no spans.
    details: bool,
    /// Every policy that applies to the user, by role.
    policies: Vec<WireExplainedPolicy>,
    /// The policy of the API key in the request, which the trace must satisfy too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key_constraint: Option<WireExplanation>,
}

impl From<Explanation> for AccessExplanation {
    fn from(found: Explanation) -> Self {
        Self {
            trace_id: found.trace_id,
            user: found.user.into(),
            visible: found.visible,
            verdict: found.verdict.into(),
            summary: found.summary,
            spans: found.spans,
            details: found.details,
            policies: found.policies.into_iter().map(WireExplainedPolicy::from).collect(),
            key_constraint: found.key_constraint.map(WireExplanation::from),
        }
    }
}

/// Parses a span in the format of query results.
fn read_span(line: &str, model: &AccessModel) -> Option<Span> {
    let json: Json = serde_json::from_str(line).ok()?;
    span_wire::spans(&[json], model, "").ok()?.pop()
}

/// Explains why the caller sees a trace: the policies that grant access and the matching spans. A trace that is absent and one
/// that the caller may not read give the same response as `GET /traces/{id}`.
///
/// With `user`, administrators learn why that user sees the trace or does not. The response contains spans only if the
/// administrator's own policies grant access to the trace too. Otherwise it contains counts, unless the setting
/// `discovery_samples` is off.
#[utoipa::path(get, path = "/traces/{id}/explain", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`"), ExplainQuery), responses(
    (status = 200, description = "Why", body = AccessExplanation),
    (status = 403, description = "`forbidden`: only administrators ask about other users"),
    (status = 404, description = "`trace_not_found`: no such trace that the caller may read, or, with `user`, no such trace; `not_found`: no such user"),
    (status = 409, description = "`not_bound`: no table is bound as trace source; `schema_changed`: the type of a field that the decision uses has changed"),
    (status = 429, description = "`too_many_queries`: the user has reached the limit of concurrent queries"),
    (status = 500, description = "`policy_broken`: a stored policy of the caller cannot be applied; `detail` says why"),
    (status = 502, description = "`trace_store_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn explain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<JsonResponse<AccessExplanation>, Problem> {
    let found = app.service.traces().explain(&caller, &id, query.user.as_deref(), Some(read_span)).await?;
    Ok(JsonResponse(found.into()))
}

/// A policy that grants a user access to a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpeningPolicy {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
}

/// A user who can read the trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Viewer {
    /// User name.
    username: String,
    /// Every policy that grants the user access.
    policies: Vec<OpeningPolicy>,
}

/// A user who can read no trace because a policy cannot be applied.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BrokenAccess {
    /// User name.
    username: String,
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// Why the policy cannot be applied.
    #[schema(examples("references a field that is no longer usable in policies"))]
    reason: &'static str,
}

/// The users who can read a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceViewers {
    /// The trace.
    trace_id: String,
    /// Number of spans in the trace.
    spans: u64,
    /// Whether the caller may read the trace.
    details: bool,
    /// The users who can read the trace, by name.
    viewers: Vec<Viewer>,
    /// Number of users who were evaluated.
    users: u64,
    /// Number of users who are not disabled; larger than `users` if there are more than 10,000, or if time ran out.
    total_users: u64,
    /// Users who can read no trace because of a policy, by name.
    broken: Vec<BrokenAccess>,
    /// Users who have a policy that grants access, but can read nothing until they change the password, by name.
    must_change_password: Vec<String>,
    /// Whether users, roles or the access model changed during the evaluation: parts of the response may be from before a change
    /// and others from after it.
    changed_meanwhile: bool,
}

impl From<Viewers> for TraceViewers {
    fn from(found: Viewers) -> Self {
        let viewers = found.viewers.into_iter().map(|viewer| Viewer {
            username: viewer.username,
            policies: viewer
                .policies
                .into_iter()
                .map(|policy| OpeningPolicy { role: policy.role, title: policy.title })
                .collect(),
        });
        let broken = found.broken.into_iter().map(|broken| BrokenAccess {
            username: broken.username,
            role: broken.role,
            title: broken.title,
            reason: broken.reason,
        });
        Self {
            viewers: viewers.collect(),
            broken: broken.collect(),
            trace_id: found.trace_id,
            spans: found.spans,
            details: found.details,
            users: found.users,
            total_users: found.total_users,
            must_change_password: found.must_change_password,
            changed_meanwhile: found.changed_meanwhile,
        }
    }
}

/// Lists all users who can see a trace and are not disabled, with the policies that grant access.
#[utoipa::path(get, path = "/traces/{id}/viewers", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`")), responses(
    (status = 200, description = "Who", body = TraceViewers),
    (status = 404, description = "`trace_not_found`: no such trace; with the setting `discovery_samples` off, also one that the caller may not read"),
    (status = 409, description = "`not_bound`: no table is bound as trace source; `schema_changed`: the type of a field that the decision uses has changed"),
    (status = 429, description = "`too_many_queries`: the user has reached the limit of concurrent queries"),
    (status = 502, description = "`trace_store_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn viewers(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<JsonResponse<TraceViewers>, Problem> {
    Ok(JsonResponse(app.service.analysis().viewers(&caller.require_admin()?, &id).await?.into()))
}

#[cfg(test)]
mod tests {
    use tracewarden_service::PolicyOutcome;

    use super::*;

    #[test]
    fn parts_contain_the_text_at_their_position() {
        let at = |line, column, length| Decision {
            line,
            column,
            length,
            outcome: PolicyOutcome::True,
            read: Vec::new(),
        };
        let text = "a == 'ö' &&\n  b == 'x'";
        assert_eq!(part(text, &at(1, 1, 8)).unwrap(), "a == 'ö'");
        assert_eq!(part(text, &at(2, 3, 8)).unwrap(), "b == 'x'");
        assert_eq!(part(text, &at(1, 1, 22)).unwrap(), text);
        assert_eq!(part(text, &at(0, 1, 1)), None);
    }
}
