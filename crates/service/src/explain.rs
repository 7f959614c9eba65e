//! Why somebody sees a trace, or does not: every policy that applies to them, and the spans that satisfied it.
//!
//! The decision is the one that reading makes: the caller's own access is found out by finding the trace as a read does,
//! and a policy is asked of the store in the same lowering. What a span holds, and which spans there are, leaves only to a
//! caller whose own policies open the trace; administrators get counts besides, like the advice on policies.

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

use crate::access::{self, Access};
use crate::audit::Outcome;
use crate::audit_detail;
use crate::authority::Authority;
use crate::error::ServiceError;
use crate::pending::{Pending, Prepared};
use crate::principal::{Administrator, Principal};
use crate::query_limit::Asked;
use crate::service::Service;
use crate::tools::TRACES_EXPLAIN;
use crate::traces::{Found, trace_not_found};
use crate::users::user_named;

pub(crate) use policies::{Applied, AppliedTo, FoundSatisfied, satisfied};

/// Reads a span as a query answers with it, for policies under an access model; `None` when it is none. The transport
/// knows the form.
pub type SpanReader = fn(&str, &AccessModel) -> Option<Span>;

/// Whose access is explained, as it counts for policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedUser {
    /// Name.
    pub username: String,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Whether the user is kept out.
    pub disabled: bool,
}

/// Why a trace is visible to somebody, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainVerdict {
    /// It is: a policy is satisfied.
    Opened,
    /// No role of theirs has a policy.
    NoPolicy,
    /// No span satisfies any policy.
    NotSatisfied,
    /// A span satisfies a policy, and none the restriction of the key.
    Restriction,
    /// The user is kept out.
    Disabled,
    /// The user has to change the password first: until then nothing of theirs opens anything, keys neither.
    PasswordChangeRequired,
    /// A stored policy cannot be applied, and so every read is refused.
    Broken,
}

impl ExplainVerdict {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::NoPolicy => "no_policy",
            Self::NotSatisfied => "not_satisfied",
            Self::Restriction => "restriction",
            Self::Disabled => "disabled",
            Self::PasswordChangeRequired => "password_change_required",
            Self::Broken => "broken",
        }
    }
}

/// What a policy is on a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// A span satisfies it.
    Satisfied,
    /// No span does.
    NotSatisfied,
    /// It cannot be applied.
    Broken,
}

impl PolicyVerdict {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Satisfied => "satisfied",
            Self::NotSatisfied => "not_satisfied",
            Self::Broken => "broken",
        }
    }
}

/// A span, as it is told of. Data of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanMention {
    /// Span id; can be empty or shared by several spans of the trace.
    pub span_id: String,
    /// When it began.
    pub start: Timestamp,
    /// Operation name, cut to 100 characters; `None` without a column for it.
    pub name: Option<String>,
    /// Service, cut likewise.
    pub service: Option<String>,
}

/// What decided on one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedBy {
    /// The span.
    pub span: SpanMention,
    /// By the reference evaluator, which agrees with the trace store.
    pub verdict: Verdict,
}

/// The span that comes nearest to satisfying a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestSpan {
    /// The span.
    pub span: SpanMention,
    /// From 0 to 1: how much of what the policy asks the span meets.
    pub score: f64,
}

/// A policy, or the restriction of a key, on one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyExplanation {
    /// Its text; for administrators.
    pub expression: Option<String>,
    /// What a span must satisfy; `None` when the asker may not know of a field that it names.
    pub in_words: Option<String>,
    /// What it is on this trace.
    pub outcome: PolicyVerdict,
    /// Spans that satisfy it; `None` when it is broken.
    pub satisfied_by: Option<u64>,
    /// The first of these; only for who may read the trace.
    pub spans: Vec<SpanMention>,
    /// What decided on the first of them, or on the nearest span; for administrators who may read the trace.
    pub decided_by: Option<DecidedBy>,
    /// Where none satisfies it, the nearest; only for who may read the trace, and may know of the fields.
    pub nearest: Option<NearestSpan>,
    /// Why it is broken; for administrators.
    pub errors: Vec<Diagnostic>,
}

/// A policy of a role on one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedPolicy {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// Its description.
    pub description: Option<String>,
    /// What it says.
    pub explained: PolicyExplanation,
}

/// Why somebody sees a trace, or does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The trace.
    pub trace_id: String,
    /// Whose access it is.
    pub user: ExplainedUser,
    /// Whether they see it.
    pub visible: bool,
    /// Why.
    pub verdict: ExplainVerdict,
    /// The same in one sentence.
    pub summary: String,
    /// Spans that the trace has.
    pub spans: u64,
    /// Whether the asker may read the trace, so that spans are told of.
    pub details: bool,
    /// Every policy that applies to them, by role and in its order.
    pub policies: Vec<ExplainedPolicy>,
    /// The restriction of the key that they came with.
    pub restriction: Option<PolicyExplanation>,
}

/// A policy of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPolicy {
    /// Its title.
    pub title: String,
    /// Its description.
    pub description: Option<String>,
    /// What a span must satisfy; `None` when it names a field that the caller may not know of, or is broken.
    pub in_words: Option<String>,
}

/// A role of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRole {
    /// Name.
    pub name: String,
    /// Its policies, each of which opens traces of its own.
    pub policies: Vec<OwnPolicy>,
}

/// What the caller's access to traces is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnAccess {
    /// The caller, or whom they preview.
    pub user: ExplainedUser,
    /// Whether a preview is on.
    pub preview: bool,
    /// The roles that apply.
    pub roles: Vec<OwnRole>,
    /// What the caller's key restricts it to: `None` when it has no such policy, else that in words, where the caller may
    /// know of its fields.
    pub restriction: Option<Option<String>>,
    /// The tools that the caller's key is limited to.
    pub tools: Option<Vec<String>>,
}

impl Service {
    /// Why the caller sees a trace; or, for administrators, why `user` does or does not. With `read`, administrators are
    /// told what decided within each expression.
    ///
    /// # Errors
    /// Those of [`Service::trace`]: whoever may not read a trace is not told whether there is one. With `user`,
    /// [`ServiceError::Forbidden`] and [`ServiceError::NotFound`] for the user, and [`ServiceError::TraceNotFound`] when
    /// the trace is absent, or its caller may not read it and the operator lets nobody count.
    pub async fn explain(
        &self,
        principal: &Principal,
        trace_id: &str,
        user: Option<&str>,
        read: Option<SpanReader>,
    ) -> Result<Explanation, ServiceError> {
        let Some(user) = user else {
            let found = self.find_trace(principal, TRACES_EXPLAIN, trace_id, None).await?;
            let Found { access, selection, pending, asked } = found;
            let whose = AppliedTo::caller(&access.authority);
            // As the record's own transaction found them.
            let admin = access.authority.principal.is_admin();
            let question = Question { trace_id, whose, own: true, admin, read };
            return self.answered(access, Some(selection), pending, asked, question).await;
        };
        let admin = principal.require_admin();
        let admin = self.note_refusal(principal, TRACES_EXPLAIN, Some(trace_id), admin).await?;
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
                // One snapshot: the user's roles belong to the model that they are read under.
                let mut tx = self.db().begin_read().await?;
                let authority = self.admin_authority(&mut tx, admin).await?;
                let user = user_named(&mut tx, user).await?;
                let roles = tx.roles_of_user(&user.id).await?;
                drop(tx);
                let access = self.access_even_if_broken(authority).await?;
                let mut detail = access.basis.clone();
                if let Value::Object(members) = &mut detail {
                    members.insert("explained".to_owned(), basis_of(&user, &roles));
                }
                let whose = AppliedTo::user(&user, roles, access.authority.model.clone());
                Ok(Prepared { access, plan: whose, detail })
            };
            prepared.boxed()
        };
        let begun = Instant::now();
        let (access, whose, pending) =
            self.begin_read(admin, TRACES_EXPLAIN, Some(trace_id), prepare).await?;
        let asked = self.asked(&access, None, &[]);
        let selection = match access.find(trace_id).await {
            Ok(Some(selection)) => Some(selection),
            Ok(None) if self.may_look_at_traces() => None,
            Ok(None) => return Err(trace_not_found(pending, begun).await),
            Err(error) => return Err(pending.fail(asked.error(error)).await),
        };
        let question = Question { trace_id, whose, own: false, admin: true, read };
        self.answered(access, selection, pending, asked, question).await
    }

    /// Explains, and ends the record before anything leaves.
    async fn answered(
        &self,
        access: Access,
        selection: Option<Selection>,
        mut pending: Pending,
        asked: Asked,
        question: Question<'_>,
    ) -> Result<Explanation, ServiceError> {
        let begun = Instant::now();
        match self.explained(&access, selection.as_ref(), &asked, question).await {
            Ok(Some(explanation)) => {
                pending.found(&explanation.trace_id);
                let spans = explanation.policies.iter().map(|policy| policy.explained.spans.len() as u64);
                pending.spans = spans.max().unwrap_or_default();
                pending.complete(Outcome::Success, None).await?;
                Ok(explanation)
            }
            Ok(None) => Err(trace_not_found(pending, begun).await),
            Err(error) => Err(pending.fail(error).await),
        }
    }

    /// `None` when there is no such trace.
    async fn explained(
        &self,
        access: &Access,
        selection: Option<&Selection>,
        asked: &Asked,
        question: Question<'_>,
    ) -> Result<Option<Explanation>, ServiceError> {
        let Question { trace_id, whose, own, admin, read } = question;
        let applied = self.applied(whose).await?;
        let all: Vec<_> = applied.all().collect();
        let found = policies::satisfied(access, selection, trace_id, &all).await;
        let Some(found) = found.map_err(|error| asked.error(error))? else { return Ok(None) };
        let decision = applied.decide(&found);
        let summary = summary::of(&applied, &decision, found.spans, own);
        let mut told: Vec<PolicyExplanation> = applied
            .texts()
            .zip(&all)
            .zip(&found.each)
            .map(|((text, policy), satisfied)| policies::told(text, policy, satisfied, admin))
            .collect();
        if let Some(selection) = selection {
            let trace = details::Trace { access, selection, caller: &applied.to.caller, admin, read };
            let knows = |policy: &AppliedPolicy| admin || policy.is_of_filterable_fields();
            let nearest = all.iter().map(|policy| policy.as_ref().is_ok_and(knows)).collect();
            trace.tell(&mut told, &found, nearest).await.map_err(|error| asked.error(error))?;
        }
        let restriction = if applied.to.restriction.is_some() { told.pop() } else { None };
        let policies =
            applied.to.stored_policies().zip(told).map(|((role, policy), explained)| ExplainedPolicy {
                role: role.name.clone(),
                title: policy.title.clone(),
                description: policy.description.clone(),
                explained,
            });
        Ok(Some(Explanation {
            trace_id: found.trace_id,
            visible: decision.verdict == ExplainVerdict::Opened,
            verdict: decision.verdict,
            summary,
            spans: found.spans,
            details: selection.is_some(),
            policies: policies.collect(),
            restriction,
            user: applied.to.explained_user(),
        }))
    }

    /// What the caller's access to traces is made of. No trace is looked at.
    ///
    /// # Errors
    /// As authentication, [`ServiceError::TooManyQueries`], or a failure of the own database.
    pub async fn own_access(&self, principal: &Principal) -> Result<OwnAccess, ServiceError> {
        // Policies are compiled as for a query, of which nobody has more at a time.
        let permit = self.queries().admit(principal.user_id()).ok_or(ServiceError::TooManyQueries);
        let permit = self.note_refusal(principal, TRACES_EXPLAIN, None, permit).await?;
        let mut tx = self.db().begin_read().await?;
        let authority = Arc::new(self.authority(&mut tx, principal).await?);
        drop(tx);
        let admin = authority.principal.is_admin();
        let (to, compiled) = (AppliedTo::caller(&authority), self.compiled());
        let work = move || {
            // It ends with the work, and not with a client who leaves.
            let _permit = permit;
            Applied::new(to, &compiled)
        };
        let applied = self.deciding().run(work).await?;
        let mut words = applied.all().map(|policy| policies::words(policy.as_ref().ok(), admin));
        let roles = applied.to.roles.iter().map(|role| {
            let policies = role.policies.iter().map(|policy| OwnPolicy {
                title: policy.title.clone(),
                description: policy.description.clone(),
                in_words: words.next().flatten(),
            });
            OwnRole { name: role.name.clone(), policies: policies.collect() }
        });
        let roles = roles.collect();
        Ok(OwnAccess {
            user: applied.to.explained_user(),
            preview: authority.principal.preview().is_some(),
            roles,
            restriction: words.next(),
            tools: authority.principal.key_tools(),
        })
    }

    /// Compiles somebody's policies, off the threads that serve requests.
    pub(crate) async fn applied(&self, to: AppliedTo) -> Result<Applied, ServiceError> {
        let compiled = self.compiled();
        self.deciding().run(move || Applied::new(to, &compiled)).await
    }
}

struct Question<'a> {
    trace_id: &'a str,
    whose: AppliedTo,
    /// Whether the asker asks about their own access.
    own: bool,
    /// Whether the asker administers, and may know of all fields.
    admin: bool,
    read: Option<SpanReader>,
}

/// What the record says of the user whose access is explained.
fn basis_of(user: &User, roles: &[Role]) -> Value {
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

impl AppliedTo {
    /// The caller as their reads count: with the roles and attributes of their preview, within their key's restriction.
    fn caller(authority: &Authority) -> Self {
        let principal = &authority.principal;
        let restriction = principal.key_policy().map(|expression| {
            (expression.to_owned(), access::restriction(principal, expression).knows_policy_fields)
        });
        Self {
            caller: access::caller(principal),
            disabled: false,
            must_change_password: false,
            roles: authority.roles.clone(),
            restriction,
            model: authority.model.clone(),
        }
    }

    /// A user as stored.
    pub(crate) fn user(user: &User, roles: Vec<Role>, model: AccessModel) -> Self {
        let caller = access::stored_caller(user);
        let User { disabled, must_change_password, .. } = *user;
        Self { caller, disabled, must_change_password, roles, restriction: None, model }
    }
}
