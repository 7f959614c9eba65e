//! `/traces/{id}/explain` and `/traces/{id}/viewers`.

use std::collections::BTreeSet;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::AccessModel;
use tracewarden_service::{
    DecidedBy, Decision, ExplainVerdict, ExplainedPolicy, ExplainedUser, Explanation, NearestSpan,
    PolicyExplanation, PolicyVerdict, Span, SpanMention, Viewers,
};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::json::Json;
use crate::policies::{WireDecision, WireDiagnostic, WireOutcome, diagnostics};
use crate::problem::Problem;
use crate::query::{Path, Query};
use crate::routes::Caller;
use crate::span_wire;
use crate::wire::{Attributes, to_wire};

/// Whose access to explain.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainQuery {
    /// A user, for administrators; the caller when absent.
    #[param(example = "ada")]
    user: Option<String>,
}

/// Whose access is explained, as it counts for policies.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedUser)]
pub(crate) struct WireUser {
    /// User name; while a preview is on, of whom is previewed.
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

/// Why a trace is visible to somebody, or is not.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AccessVerdict)]
pub(crate) enum WireAccessVerdict {
    /// It is: a span satisfies a policy.
    Opened,
    /// No role of theirs has a policy.
    NoPolicy,
    /// No span satisfies any policy.
    NotSatisfied,
    /// A span satisfies a policy, and none the policy of the API key.
    Restriction,
    /// The user is disabled.
    Disabled,
    /// The user has to change the password first: until then neither a session nor a key of theirs reads anything.
    PasswordChangeRequired,
    /// A stored policy cannot be applied, so that every read of theirs is refused.
    Broken,
}

impl From<ExplainVerdict> for WireAccessVerdict {
    fn from(verdict: ExplainVerdict) -> Self {
        match verdict {
            ExplainVerdict::Opened => Self::Opened,
            ExplainVerdict::NoPolicy => Self::NoPolicy,
            ExplainVerdict::NotSatisfied => Self::NotSatisfied,
            ExplainVerdict::Restriction => Self::Restriction,
            ExplainVerdict::Disabled => Self::Disabled,
            ExplainVerdict::PasswordChangeRequired => Self::PasswordChangeRequired,
            ExplainVerdict::Broken => Self::Broken,
        }
    }
}

/// What a policy is on a trace.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PolicyVerdict)]
pub(crate) enum WirePolicyVerdict {
    /// A span satisfies it.
    Satisfied,
    /// No span does.
    NotSatisfied,
    /// It cannot be applied.
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
    /// Span id. Emitters leave it empty or give one id to several spans: `start`, `name` and `service` tell these apart, and
    /// spans that have all of them in common are listed once.
    span_id: String,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    start: String,
    /// Operation name, at most 100 characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Service, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    service: Option<String>,
}

impl From<SpanMention> for WireMention {
    fn from(SpanMention { span_id, start, name, service }: SpanMention) -> Self {
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
    /// From 0 to 1: how much of what the policy asks the span meets.
    score: f64,
}

impl From<NearestSpan> for WireNearest {
    fn from(NearestSpan { span, score }: NearestSpan) -> Self {
        Self { span: span.into(), score }
    }
}

/// A part of an expression that decided, with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecidingPart {
    /// Place and outcome.
    #[serde(flatten)]
    decision: WireDecision,
    /// The part as it is written.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    text: String,
}

/// What decided on one span.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecidedBy)]
pub(crate) struct WireDecidedBy {
    /// The span: the first of `spans`, or else `nearest`. Of spans that cannot be told apart, one on which the policy is what
    /// `outcome` says.
    span_id: String,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    start: String,
    /// What the expression is on it.
    outcome: WireOutcome,
    /// The parts that made it so, in the order of the text.
    parts: Vec<DecidingPart>,
}

fn decided_by(DecidedBy { span, verdict }: DecidedBy, expression: &str) -> WireDecidedBy {
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

/// The text at a place, which counts lines and code points from 1.
fn part(expression: &str, decision: &Decision) -> Option<String> {
    let before = usize::try_from(decision.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(decision.column).ok()?.checked_sub(1)?;
    let lines: usize = expression.split_inclusive('\n').take(before).map(str::len).sum();
    let rest = expression.get(lines..)?;
    Some(rest.chars().skip(column).take(usize::try_from(decision.length).ok()?).collect())
}

/// A policy, or the restriction of a key, on one trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyExplanation)]
pub(crate) struct WireExplanation {
    /// CEL; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expression: Option<String>,
    /// What a span must satisfy, with the user's attributes in it; absent when it names fields that the caller may not know
    /// of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("SpanAttributes[\"team\"] is \"payments\""))]
    in_words: Option<String>,
    /// What it is on this trace.
    outcome: WirePolicyVerdict,
    /// Spans that satisfy it; absent when it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    satisfied_by: Option<u64>,
    /// The first of these by time, at most 20; empty without `details`.
    spans: Vec<WireMention>,
    /// What decided on the first of them, or else on the nearest span; for administrators, with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    decided_by: Option<WireDecidedBy>,
    /// When no span satisfies it, the one that comes nearest; only with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    nearest: Option<WireNearest>,
    /// Why it cannot be applied; for administrators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<WireDiagnostic>,
}

impl From<PolicyExplanation> for WireExplanation {
    fn from(told: PolicyExplanation) -> Self {
        let text = told.expression.clone().unwrap_or_default();
        Self {
            expression: told.expression,
            in_words: told.in_words,
            outcome: told.outcome.into(),
            satisfied_by: told.satisfied_by,
            spans: told.spans.into_iter().map(WireMention::from).collect(),
            decided_by: told.decided_by.map(|decided| decided_by(decided, &text)),
            nearest: told.nearest.map(WireNearest::from),
            errors: diagnostics(told.errors),
        }
    }
}

/// A policy of a role on one trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplainedPolicy)]
pub(crate) struct WireExplainedPolicy {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
    /// What it says of the trace.
    #[serde(flatten)]
    explained: WireExplanation,
}

impl From<ExplainedPolicy> for WireExplainedPolicy {
    fn from(policy: ExplainedPolicy) -> Self {
        let ExplainedPolicy { role, title, description, explained } = policy;
        Self { role, title, description, explained: explained.into() }
    }
}

/// Why somebody sees a trace, or does not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AccessExplanation {
    /// The trace.
    trace_id: String,
    /// Whose access it is.
    user: WireUser,
    /// Whether they see it.
    visible: bool,
    /// Why.
    verdict: WireAccessVerdict,
    /// The same in one sentence.
    #[schema(examples("`ada` sees this trace: the policy `Own team` of the role `payments` opens it"))]
    summary: String,
    /// Spans that the trace has.
    spans: u64,
    /// Whether the caller may read the trace; otherwise no span is told of, and all there is are counts.
    details: bool,
    /// Every policy that applies to them, by role.
    policies: Vec<WireExplainedPolicy>,
    /// The policy of the API key that the caller came with, which the trace must satisfy too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    restriction: Option<WireExplanation>,
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
            restriction: found.restriction.map(WireExplanation::from),
        }
    }
}

/// A span as a query answers with it.
fn read_span(line: &str, model: &AccessModel) -> Option<Span> {
    let json: Json = serde_json::from_str(line).ok()?;
    span_wire::spans(&[json], model, "").ok()?.pop()
}

/// Why the caller sees a trace: which policies opened it, and by which spans. Absent and not authorised are the same answer
/// as of `GET /traces/{id}`.
///
/// With `user`, an administrator learns why that user sees the trace or does not. Spans are told of only if the
/// administrator's own policies open the trace, too; otherwise there are counts, unless the setting `discovery_samples` is
/// off.
#[utoipa::path(get, path = "/traces/{id}/explain", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`"), ExplainQuery), responses(
    (status = 200, description = "Why", body = AccessExplanation),
    (status = 403, description = "`forbidden`: only administrators ask about other users"),
    (status = 404, description = "`trace_not_found`: no such trace that the caller may read, or, with `user`, no such trace; `not_found`: no such user"),
    (status = 409, description = "`not_bound`: no table is bound as trace source; `schema_changed`: a field that decides is of another type now"),
    (status = 429, description = "`too_many_queries`: as many queries of the user run as may run at a time"),
    (status = 500, description = "`policy_broken`: a stored policy of the caller cannot be applied; `detail` says why"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query ran into a limit of the trace store; `detail` says what to do"),
))]
pub(crate) async fn explain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<Answer<AccessExplanation>, Problem> {
    let found = app.service.explain(&caller, &id, query.user.as_deref(), Some(read_span)).await?;
    Ok(Answer(found.into()))
}

/// A policy that opens a trace to somebody.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpeningPolicy {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
}

/// A user who can see the trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Viewer {
    /// User name.
    username: String,
    /// Every policy that opens it to them.
    policies: Vec<OpeningPolicy>,
}

/// A user who can read no trace, because of a policy that cannot be applied.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BrokenAccess {
    /// User name.
    username: String,
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// Why the policy cannot be applied, in words.
    #[schema(examples("names something that is not marked for policies any more"))]
    reason: &'static str,
}

/// Who can see a trace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceViewers {
    /// The trace.
    trace_id: String,
    /// Spans that it has.
    spans: u64,
    /// Whether the caller may read it.
    details: bool,
    /// By name.
    viewers: Vec<Viewer>,
    /// Users who were looked at.
    users: u64,
    /// Users who are not disabled; more than `users` where there are more than 10,000, or there was no time for all.
    total_users: u64,
    /// Users who can read nothing, by name.
    broken: Vec<BrokenAccess>,
    /// Users to whom a policy opens the trace, and who can read nothing before they change the password, by name.
    must_change_password: Vec<String>,
    /// Whether users, roles or the access model were changed while the answer was made: then what it says of some users may be
    /// from before a change, and of others from after it.
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

/// Who can see a trace, of all users who are not disabled, and by which policies.
#[utoipa::path(get, path = "/traces/{id}/viewers", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`")), responses(
    (status = 200, description = "Who", body = TraceViewers),
    (status = 404, description = "`trace_not_found`: no such trace; with the setting `discovery_samples` off, also one that the caller may not read"),
    (status = 409, description = "`not_bound`: no table is bound as trace source; `schema_changed`: a field that decides is of another type now"),
    (status = 429, description = "`too_many_queries`: as many queries of the user run as may run at a time"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query ran into a limit of the trace store; `detail` says what to do"),
))]
pub(crate) async fn viewers(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Answer<TraceViewers>, Problem> {
    Ok(Answer(app.service.viewers(&caller.require_admin()?, &id).await?.into()))
}

#[cfg(test)]
mod tests {
    use tracewarden_service::PolicyOutcome;

    use super::*;

    #[test]
    fn a_part_is_the_text_at_its_place() {
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
