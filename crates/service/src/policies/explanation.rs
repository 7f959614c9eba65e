//! An explanation of access to a trace: verdicts, and the spans that decide.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tracewarden_clickhouse::{NearestSpan, SpanIdentity};
use tracewarden_model::{AccessModel, AttributeValue};
use tracewarden_policy::{Decision, Diagnostic, Outcome, Span, Verdict};
use utoipa::ToSchema;

use crate::core::Attributes;

/// Parses a span in the JSON form that a query returns, for policies under an access model; `None` if the text is not a span.
/// The transport defines the form.
pub type SpanReader = fn(&str, &AccessModel) -> Option<Span>;

/// The user whose access is explained, with the properties that policies depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ExplainedUser {
    /// User name; during a preview, the name of the previewed user.
    pub username: String,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes that policies may read.
    #[schema(value_type = Attributes)]
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Whether the user can neither sign in nor use keys.
    pub disabled: bool,
}

/// Why a trace is visible to a user or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AccessVerdict)]
pub enum ExplainVerdict {
    /// Visible: a span satisfies a policy.
    Granted,
    /// Not visible: no role of the user has a policy.
    NoPolicy,
    /// Not visible: no span satisfies a policy.
    NotSatisfied,
    /// Not visible: a span satisfies a policy, but no span satisfies the policy of the API key.
    KeyConstraint,
    /// Not visible: the user is disabled.
    Disabled,
    /// Not visible with a session or an API key: the access of the user is suspended. The identity provider has not confirmed the
    /// user for `identity_max_age`, or the owner of the service account does not have the role that the account requires. Access
    /// tokens of the provider count.
    Suspended,
    /// Not visible: the user must change the password first. Until then, no session or API key of the user can read traces.
    PasswordChangeRequired,
    /// Not visible: a stored policy cannot be applied, so every read of the user is rejected.
    Broken,
}

/// Result of a policy on a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyVerdict {
    /// A span satisfies the policy.
    Satisfied,
    /// No span satisfies the policy.
    NotSatisfied,
    /// The policy cannot be applied.
    Broken,
}

/// A deciding part of an expression, with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DecidingPart {
    /// Position and outcome.
    #[serde(flatten)]
    decision: Decision,
    /// Text of the part in the expression.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    text: String,
}

/// The deciding parts of an expression for one span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DecidedBy {
    /// The span: the first one in `spans`, otherwise `nearest`. If several spans cannot be told apart, one for which the policy
    /// has this `outcome`.
    span_id: String,
    /// When the span began.
    #[schema(value_type = String, format = DateTime)]
    start: String,
    /// Outcome of the expression for the span.
    outcome: Outcome,
    /// The parts that determine the outcome, in text order.
    parts: Vec<DecidingPart>,
}

impl DecidedBy {
    /// Explains the verdict of the reference evaluator, which agrees with ClickHouse.
    pub(crate) fn new(span: SpanIdentity, verdict: Verdict, expression: &str) -> Self {
        let part = |decision: Decision| DecidingPart { text: decision.text(expression).to_owned(), decision };
        Self {
            span_id: span.span_id,
            start: span.start.to_string(),
            outcome: verdict.outcome,
            parts: verdict.decided_by.into_iter().map(part).collect(),
        }
    }
}

/// The result of a policy, or of a scoped API key's policy, on one trace.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PolicyExplanation {
    /// The CEL expression; for administrators.
    #[schema(nullable = false)]
    pub expression: Option<String>,
    /// The condition that a span must satisfy, with the user's attributes filled in; absent when it names fields that the caller
    /// may not know of.
    #[schema(nullable = false, examples("SpanAttributes[\"team\"] is \"payments\""))]
    pub requirement: Option<String>,
    /// Result on this trace.
    pub outcome: PolicyVerdict,
    /// Number of spans that satisfy the policy; absent when it cannot be applied.
    #[schema(nullable = false)]
    pub satisfied_by: Option<u64>,
    /// The earliest of these spans, at most 20; empty without `details`.
    pub spans: Vec<SpanIdentity>,
    /// The deciding parts for the first of these spans, otherwise for the nearest span; for administrators, with `details`.
    #[schema(nullable = false)]
    pub decided_by: Option<DecidedBy>,
    /// When no span satisfies the policy, the span that comes nearest; only with `details`.
    // Only for callers who may know of the fields.
    #[schema(nullable = false)]
    pub nearest: Option<NearestSpan>,
    /// Why the policy cannot be applied; for administrators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<Diagnostic>,
}

/// The result of a policy of a role on one trace.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ExplainedPolicy {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// The policy's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Result on the trace.
    #[serde(flatten)]
    pub explained: PolicyExplanation,
}

/// Why a user can read a trace or cannot.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = AccessExplanation)]
pub struct Explanation {
    /// The trace.
    pub trace_id: String,
    /// The user whose access is explained.
    pub user: ExplainedUser,
    /// Whether the user can read the trace.
    pub visible: bool,
    /// The reason.
    pub verdict: ExplainVerdict,
    /// The reason in one sentence.
    #[schema(examples("`ada` sees this trace: the policy `Own team` of the role `payments` grants access"))]
    pub summary: String,
    /// Number of spans in the trace.
    pub spans: u64,
    /// Whether the caller may read the trace; otherwise the response contains counts only and no spans.
    pub details: bool,
    /// Every policy that applies to the user, by role.
    pub policies: Vec<ExplainedPolicy>,
    /// The policy of the API key in the request, which the trace must satisfy too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_constraint: Option<PolicyExplanation>,
}

/// A policy of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPolicy {
    /// Title of the policy.
    pub title: String,
    /// Description of the policy.
    pub description: Option<String>,
    /// Requirement on a span in words; `None` if the policy names a field that the caller may not know of, or is broken.
    pub requirement: Option<String>,
}

/// A role of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRole {
    /// Name of the role.
    pub name: String,
    /// Policies of the role, each of which grants access to traces independently.
    pub policies: Vec<OwnPolicy>,
}

/// The caller's access to traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAccess {
    /// The caller, or the user whom they preview.
    pub user: ExplainedUser,
    /// Roles that apply.
    pub roles: Vec<OwnRole>,
    /// Policy of the caller's API key: `None` if there is none; otherwise its requirement in words, if the caller may know of
    /// its fields.
    pub key_constraint: Option<Option<String>>,
    /// Tools to which the caller's API key is limited.
    pub tools: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_contain_the_text_at_their_position() {
        let at = |line, column, length| Decision {
            line,
            column,
            length,
            outcome: Outcome::True,
            detail: None,
            reason: None,
            read: Vec::new(),
        };
        let text = "a == 'ö' &&\n  b == 'x'";
        assert_eq!(at(1, 1, 8).text(text), "a == 'ö'");
        assert_eq!(at(2, 3, 8).text(text), "b == 'x'");
        assert_eq!(at(1, 1, 22).text(text), text);
        assert_eq!(at(3, 1, 1).text(text), "");
    }
}
