//! Explains why a user can or cannot see a trace: every policy that applies to the user, and the spans that satisfy it.
//!
//! The decision is the same as for a read: the caller's own access is determined by finding the trace as a read does, and
//! ClickHouse evaluates each policy compiled in the same way. Only a caller whose own policies grant access to the trace gets
//! span data and learns which spans exist; administrators without such access get counts, as in policy advice.

mod details;
mod policies;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracewarden_appdb::{Role, User};
use tracewarden_model::{AccessModel, AttributeValue, Caller, Timestamp};
use tracewarden_policy::{AppliedPolicy, Diagnostic, Span, Verdict};
use tracewarden_tracestore::Selection;

use crate::access::find_user;
use crate::core::{
    Access, Administrator, Authority, OpenAuditRecord, Outcome, PreparedRead, Principal, QueryContext,
    ServiceError, TRACES_EXPLAIN, access, audit_detail,
};
use crate::policies::Policies;
use crate::traces::{AuthorizedTrace, Traces, trace_not_found};

pub(crate) use policies::{PolicyInputs, PolicyMatches, UserPolicies, match_policies};

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

impl Traces {
    /// Explains why the caller can see a trace; or, for administrators, why `user` can or cannot. With `read`, the
    /// explanation for administrators contains the deciding parts of each expression.
    ///
    /// # Errors
    /// Those of [`Service::trace`]: a caller who may not read a trace does not learn whether it exists. With `user`,
    /// [`ServiceError::Forbidden`] and [`ServiceError::NotFound`] for the user, and [`ServiceError::TraceNotFound`] if the
    /// trace is absent, or if the caller may not read it and the operator has disabled counts of such traces.
    pub async fn explain(
        &self,
        principal: &Principal,
        trace_id: &str,
        user: Option<&str>,
        read: Option<SpanReader>,
    ) -> Result<Explanation, ServiceError> {
        let Some(user) = user else {
            let found = self.find_trace(principal, TRACES_EXPLAIN, trace_id, None).await?;
            let AuthorizedTrace { access, selection, open_audit_record, query_context } = found;
            let inputs = PolicyInputs::caller(&access.authority);
            // As read in the transaction of the audit record.
            let admin = access.authority.principal.is_admin();
            let request = ExplainRequest { trace_id, inputs, own: true, admin, read };
            return self
                .finish_explanation(access, Some(selection), open_audit_record, query_context, request)
                .await;
        };
        let admin = principal.require_admin();
        let admin = self.core.audit_denial(principal, TRACES_EXPLAIN, Some(trace_id), admin).await?;
        self.explain_user(&admin, trace_id, user, read).await
    }

    async fn explain_user(
        &self,
        admin: &Administrator<'_>,
        trace_id: &str,
        user: &str,
        read: Option<SpanReader>,
    ) -> Result<Explanation, ServiceError> {
        let prepare = || {
            let prepared = async move {
                // One snapshot: the user's roles and the model under which they are evaluated must belong together.
                let mut tx = self.core.db.begin_read().await?;
                let authority = self.core.admin_authority(&mut tx, admin).await?;
                let user = find_user(&mut tx, user).await?;
                let roles = tx.roles_of_user(&user.id).await?;
                drop(tx);
                let access = self.core.access_even_if_broken(authority).await?;
                let mut detail = access.decision_inputs.clone();
                if let Value::Object(members) = &mut detail {
                    members.insert("explained".to_owned(), user_decision_inputs(&user, &roles));
                }
                let inputs = PolicyInputs::user(&user, roles, access.authority.model.clone());
                Ok(PreparedRead { access, plan: inputs, detail })
            };
            prepared.boxed()
        };
        let started = Instant::now();
        let (access, inputs, open_audit_record) =
            self.core.begin_read(admin, TRACES_EXPLAIN, Some(trace_id), prepare).await?;
        let query_context = self.core.query_context(&access, None, &[]);
        let selection = match access.find(trace_id).await {
            Ok(Some(selection)) => Some(selection),
            Ok(None) if Policies::new(&self.core).may_sample_traces() => None,
            Ok(None) => return Err(trace_not_found(open_audit_record, started).await),
            Err(error) => return Err(open_audit_record.fail(query_context.error(error)).await),
        };
        let request = ExplainRequest { trace_id, inputs, own: false, admin: true, read };
        self.finish_explanation(access, selection, open_audit_record, query_context, request).await
    }

    /// Computes the explanation; completes the audit record before the answer is returned.
    async fn finish_explanation(
        &self,
        access: Access,
        selection: Option<Selection>,
        mut open_audit_record: OpenAuditRecord,
        query_context: QueryContext,
        request: ExplainRequest<'_>,
    ) -> Result<Explanation, ServiceError> {
        let started = Instant::now();
        match self.build_explanation(&access, selection.as_ref(), &query_context, request).await {
            Ok(Some(explanation)) => {
                open_audit_record.set_found_trace(&explanation.trace_id);
                let spans = explanation.policies.iter().map(|policy| policy.explained.spans.len() as u64);
                open_audit_record.spans = spans.max().unwrap_or_default();
                open_audit_record.complete(Outcome::Success, None).await?;
                Ok(explanation)
            }
            Ok(None) => Err(trace_not_found(open_audit_record, started).await),
            Err(error) => Err(open_audit_record.fail(error).await),
        }
    }

    /// Returns `None` if there is no such trace.
    async fn build_explanation(
        &self,
        access: &Access,
        selection: Option<&Selection>,
        query_context: &QueryContext,
        request: ExplainRequest<'_>,
    ) -> Result<Option<Explanation>, ServiceError> {
        let ExplainRequest { trace_id, inputs, own, admin, read } = request;
        let applied = self.compile_user_policies(inputs).await?;
        let all: Vec<_> = applied.all().collect();
        let found = policies::match_policies(access, selection, trace_id, &all).await;
        let Some(found) = found.map_err(|error| query_context.error(error))? else { return Ok(None) };
        let decision = applied.decide(&found);
        let summary = summary::decision_summary(&applied, &decision, found.spans, own);
        let mut explanations: Vec<PolicyExplanation> = applied
            .expressions()
            .zip(&all)
            .zip(&found.results)
            .map(|((text, policy), satisfied)| policies::policy_explanation(text, policy, satisfied, admin))
            .collect();
        if let Some(selection) = selection {
            let trace = details::Trace { access, selection, caller: &applied.inputs.caller, admin, read };
            let knows = |policy: &AppliedPolicy| admin || policy.has_only_filterable_fields();
            let nearest = all.iter().map(|policy| policy.as_ref().is_ok_and(knows)).collect();
            trace
                .add_span_data(&mut explanations, &found, nearest)
                .await
                .map_err(|error| query_context.error(error))?;
        }
        let key_constraint = if applied.inputs.key_constraint.is_some() { explanations.pop() } else { None };
        let policies =
            applied.inputs.stored_policies().zip(explanations).map(|((role, policy), explained)| {
                ExplainedPolicy {
                    role: role.name.clone(),
                    title: policy.title.clone(),
                    description: policy.description.clone(),
                    explained,
                }
            });
        Ok(Some(Explanation {
            trace_id: found.trace_id,
            visible: decision.verdict == ExplainVerdict::Granted,
            verdict: decision.verdict,
            summary,
            spans: found.spans,
            details: selection.is_some(),
            policies: policies.collect(),
            key_constraint,
            user: applied.inputs.explained_user(),
        }))
    }

    /// Describes the caller's access to traces. Reads no trace.
    ///
    /// # Errors
    /// As for authentication, [`ServiceError::TooManyQueries`], or a failure of the application database.
    pub async fn own_access(&self, principal: &Principal) -> Result<OwnAccess, ServiceError> {
        // Policies are compiled as for a query, so the call counts towards the user's limit on concurrent queries.
        let permit =
            self.core.permits.queries.try_acquire(principal.user_id()).ok_or(ServiceError::TooManyQueries);
        let permit = self.core.audit_denial(principal, TRACES_EXPLAIN, None, permit).await?;
        let mut tx = self.core.db.begin_read().await?;
        let authority = Arc::new(self.core.authority(&mut tx, principal).await?);
        drop(tx);
        let admin = authority.principal.is_admin();
        let (inputs, compiled) = (PolicyInputs::caller(&authority), Arc::clone(&self.core.compiled));
        let work = move || {
            // Held until the work ends, also if the client disconnects.
            let _permit = permit;
            UserPolicies::new(inputs, &compiled)
        };
        let applied = self.core.permits.compilation.run(work).await?;
        let mut words =
            applied.all().map(|policy| policies::requirement_in_words(policy.as_ref().ok(), admin));
        let roles = applied.inputs.roles.iter().map(|role| {
            let policies = role.policies.iter().map(|policy| OwnPolicy {
                title: policy.title.clone(),
                description: policy.description.clone(),
                in_words: words.next().flatten(),
            });
            OwnRole { name: role.name.clone(), policies: policies.collect() }
        });
        let roles = roles.collect();
        Ok(OwnAccess {
            user: applied.inputs.explained_user(),
            preview: authority.principal.preview().is_some(),
            roles,
            key_constraint: words.next(),
            tools: authority.principal.key_tools(),
        })
    }

    /// Compiles a user's policies, off the threads that serve requests.
    pub(crate) async fn compile_user_policies(
        &self,
        inputs: PolicyInputs,
    ) -> Result<UserPolicies, ServiceError> {
        let compiled = Arc::clone(&self.core.compiled);
        self.core.permits.compilation.run(move || UserPolicies::new(inputs, &compiled)).await
    }
}

struct ExplainRequest<'a> {
    trace_id: &'a str,
    inputs: PolicyInputs,
    /// Whether the caller requests an explanation of their own access.
    own: bool,
    /// Whether the caller is an administrator, and may know of all fields.
    admin: bool,
    read: Option<SpanReader>,
}

/// Detail of the audit record about the user whose access is explained.
fn user_decision_inputs(user: &User, roles: &[Role]) -> Value {
    let revisions: BTreeMap<&str, u64> =
        roles.iter().map(|role| (role.name.as_str(), role.revision)).collect();
    json!({
        "username": user.username,
        "user_id": user.id,
        "roles": revisions,
        "attributes": audit_detail::attributes(&user.attributes),
    })
}

impl ExplainedUser {
    fn new(caller: &Caller, disabled: bool) -> Self {
        let Caller { username, roles, attributes } = caller.clone();
        Self { username, roles, attributes, disabled }
    }
}

impl PolicyInputs {
    /// Returns the caller as their reads are decided: with the roles and attributes of their preview, and the policy of their
    /// API key.
    fn caller(authority: &Authority) -> Self {
        let principal = &authority.principal;
        let key_constraint = principal.key_policy().map(|expression| {
            (expression.to_owned(), access::key_constraint(principal, expression).knows_policy_fields)
        });
        Self {
            caller: access::caller(principal),
            disabled: false,
            must_change_password: false,
            roles: authority.roles.clone(),
            key_constraint,
            model: authority.model.clone(),
        }
    }

    /// Returns a user as stored.
    pub(crate) fn user(user: &User, roles: Vec<Role>, model: AccessModel) -> Self {
        let caller = access::stored_caller(user);
        let User { disabled, must_change_password, .. } = *user;
        Self { caller, disabled, must_change_password, roles, key_constraint: None, model }
    }
}
