//! An explanation of access to a trace: verdicts, and the spans that decide.

use std::collections::{BTreeMap, BTreeSet};

use tracewarden_model::{AccessModel, AttributeValue, Caller, Timestamp};
use tracewarden_policy::{Diagnostic, Span, Verdict};

/// Parses a span in the JSON form that a query returns, for policies under an access model; `None` if the text is not a span.
/// The transport defines the form.
pub type SpanReader = fn(&str, &AccessModel) -> Option<Span>;

/// User whose access is explained, as policies see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedUser {
    /// User name.
    pub username: String,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Whether the user is disabled.
    pub disabled: bool,
}

/// Reason why a trace is visible to a user, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainVerdict {
    /// Visible: a policy is satisfied.
    Granted,
    /// No role of the user has a policy.
    NoPolicy,
    /// No span satisfies any policy.
    NotSatisfied,
    /// A span satisfies a policy, but no span satisfies the policy of the API key.
    KeyConstraint,
    /// The user is disabled.
    Disabled,
    /// The user must change the password first; until then, neither sessions nor API keys grant access.
    PasswordChangeRequired,
    /// A stored policy cannot be applied, so every read is rejected.
    Broken,
}

impl ExplainVerdict {
    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "opened",
            Self::NoPolicy => "no_policy",
            Self::NotSatisfied => "not_satisfied",
            Self::KeyConstraint => "key_constraint",
            Self::Disabled => "disabled",
            Self::PasswordChangeRequired => "password_change_required",
            Self::Broken => "broken",
        }
    }
}

/// Result of a policy on a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// A span satisfies it.
    Satisfied,
    /// No span does.
    NotSatisfied,
    /// The policy cannot be applied.
    Broken,
}

impl PolicyVerdict {
    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Satisfied => "satisfied",
            Self::NotSatisfied => "not_satisfied",
            Self::Broken => "broken",
        }
    }
}

/// Identification of a span. Contains data of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanReference {
    /// Span id; can be empty or shared by several spans of the trace.
    pub span_id: String,
    /// Start time.
    pub start: Timestamp,
    /// Operation name, truncated to 100 characters; `None` without a column for it.
    pub name: Option<String>,
    /// Service name, truncated likewise.
    pub service: Option<String>,
}

/// Explanation of a policy's verdict on one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanVerdict {
    /// The span.
    pub span: SpanReference,
    /// Verdict of the reference evaluator, which agrees with ClickHouse.
    pub verdict: Verdict,
}

/// Span that comes nearest to satisfying a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestSpan {
    /// The span.
    pub span: SpanReference,
    /// Share of the policy's requirements that the span meets, from 0 to 1.
    pub score: f64,
}

/// Result of a policy, or of the policy of an API key, on one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyExplanation {
    /// Text of the policy; for administrators.
    pub expression: Option<String>,
    /// Requirement on a span in words; `None` if the caller may not know of a field that the policy names.
    pub in_words: Option<String>,
    /// Result on this trace.
    pub outcome: PolicyVerdict,
    /// Number of spans that satisfy the policy; `None` if it is broken.
    pub satisfied_by: Option<u64>,
    /// First of the satisfying spans; only for callers who may read the trace.
    pub spans: Vec<SpanReference>,
    /// Verdict on the first satisfying span, or on the nearest span; for administrators who may read the trace.
    pub decided_by: Option<SpanVerdict>,
    /// Nearest span if none satisfies the policy; only for callers who may read the trace and may know of the fields.
    pub nearest: Option<NearestSpan>,
    /// Errors of a broken policy; for administrators.
    pub errors: Vec<Diagnostic>,
}

/// Result of a role's policy on one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPolicy {
    /// Name of the role.
    pub role: String,
    /// Title of the policy.
    pub title: String,
    /// Description of the policy.
    pub description: Option<String>,
    /// Result of the policy.
    pub explained: PolicyExplanation,
}

/// Explanation why a user can or cannot see a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Id of the trace.
    pub trace_id: String,
    /// User whose access is explained.
    pub user: ExplainedUser,
    /// Whether the user can see the trace.
    pub visible: bool,
    /// Reason.
    pub verdict: ExplainVerdict,
    /// Explanation in one sentence.
    pub summary: String,
    /// Number of spans in the trace.
    pub spans: u64,
    /// Whether the caller may read the trace, so that the explanation contains span data.
    pub details: bool,
    /// Every policy that applies to the user, by role and in the role's order.
    pub policies: Vec<ExplainedPolicy>,
    /// Result of the policy of the API key that the caller uses.
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
    pub in_words: Option<String>,
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
    /// Whether a preview is active.
    pub preview: bool,
    /// Roles that apply.
    pub roles: Vec<OwnRole>,
    /// Policy of the caller's API key: `None` if there is none; otherwise its requirement in words, if the caller may know of
    /// its fields.
    pub key_constraint: Option<Option<String>>,
    /// Tools to which the caller's API key is limited.
    pub tools: Option<Vec<String>>,
}

impl ExplainedUser {
    pub(crate) fn new(caller: &Caller, disabled: bool) -> Self {
        let Caller { username, roles, attributes } = caller.clone();
        Self { username, roles, attributes, disabled }
    }
}
