//! A user's policies, compiled and evaluated on one trace.

use std::sync::Arc;

use tracewarden_appdb::{Policy, Role, User};
use tracewarden_clickhouse::{ChangedField, ClickHouseError, MatchingSpans, Selection};
use tracewarden_model::{AccessModel, Caller, MarkedField};
use tracewarden_policy::{
    AppliedPolicies, AppliedPolicy, BrokenPolicy, CompiledPolicies, Diagnostic, KeyConstraint, PolicySource,
    Predicate, apply, describe,
};

use crate::core::{Access, Authority, Core, Permit, Result, access, reason_text, role_policies};
use crate::policies::explanation::{ExplainVerdict, ExplainedUser, PolicyExplanation, PolicyVerdict};

/// Reason why a policy that compiles cannot be applied.
const COLUMN_CHANGED: &str =
    "names a field whose column in ClickHouse has changed; the field has to be marked again";

/// Why authentication rejects the sessions and API keys of a user, whatever the policies say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    Disabled,
    /// Access tokens count: their own claims decide.
    Suspended,
    PasswordChangeRequired,
}

impl Block {
    /// Returns what blocks a user now.
    pub(crate) fn of(user: &User, core: &Core) -> Option<Self> {
        if user.disabled {
            Some(Self::Disabled)
        } else if core.settings.is_unconfirmed(user, core.now()) {
            Some(Self::Suspended)
        } else {
            user.must_change_password.then_some(Self::PasswordChangeRequired)
        }
    }
}

/// The user to whom policies apply, and the access model.
#[derive(Debug, Clone)]
pub(crate) struct PolicyInputs {
    pub(crate) caller: Caller,
    pub(crate) block: Option<Block>,
    pub(crate) roles: Vec<Role>,
    /// Text of the key's policy, and whether its owner may know of fields that are policy inputs only.
    pub(crate) key_constraint: Option<(String, bool)>,
    pub(crate) model: AccessModel,
}

impl PolicyInputs {
    pub(crate) fn explained_user(&self) -> ExplainedUser {
        let Caller { username, roles, attributes } = self.caller.clone();
        ExplainedUser { username, roles, attributes, disabled: self.block == Some(Block::Disabled) }
    }

    /// Returns every policy with its role, in the order in which they are applied.
    pub(crate) fn stored_policies(&self) -> impl Iterator<Item = (&Role, &Policy)> {
        self.roles.iter().flat_map(|role| role.policies.iter().map(move |policy| (role, policy)))
    }

    /// Returns the caller as their reads are decided: with the roles and attributes of their preview, and the policy of their
    /// API key.
    pub(crate) fn caller(authority: &Authority) -> Self {
        let principal = &authority.principal;
        let key_constraint = principal.key_policy().map(|expression| {
            (expression.to_owned(), access::key_constraint(principal, expression).knows_policy_fields)
        });
        Self {
            caller: access::caller(principal),
            block: None,
            roles: authority.roles.clone(),
            key_constraint,
            model: authority.model.clone(),
        }
    }

    pub(crate) fn user(user: &User, block: Option<Block>, roles: Vec<Role>, model: AccessModel) -> Self {
        Self { caller: access::stored_caller(user), block, roles, key_constraint: None, model }
    }
}

/// A user's policies, compiled for that user.
#[derive(Debug)]
pub(crate) struct UserPolicies {
    pub(crate) inputs: PolicyInputs,
    pub(crate) policies: AppliedPolicies,
}

pub(crate) struct Decision {
    pub(crate) verdict: ExplainVerdict,
    /// Policy to name: the first that grants access to the trace, or the broken one.
    pub(crate) source: Option<PolicySource>,
    /// Reason why the policy is broken.
    pub(crate) reason: Option<&'static str>,
}

pub(crate) struct PolicyMatches {
    pub(crate) trace_id: String,
    pub(crate) spans: u64,
    /// Result of each policy, in order; `None` for a broken one.
    pub(crate) results: Vec<Option<MatchingSpans>>,
    /// Fields whose definition in the table has changed since they were marked.
    pub(crate) changed: Vec<ChangedField>,
}

fn changes(changed: &[ChangedField], fields: &[Arc<MarkedField>]) -> bool {
    fields.iter().any(|field| changed.iter().any(|changed| changed.field == **field))
}

impl UserPolicies {
    /// Compiles the policies. Blocks its thread.
    pub(crate) fn new(inputs: PolicyInputs, compiled: &CompiledPolicies) -> Self {
        let key_constraint = inputs
            .key_constraint
            .as_ref()
            .map(|(expression, knows)| KeyConstraint { expression, knows_policy_fields: *knows });
        let policies = inputs.roles.iter().flat_map(|role| role_policies(&role.name, &role.policies));
        let policies = apply(policies, key_constraint, &inputs.caller, &inputs.model, compiled);
        Self { inputs, policies }
    }

    /// Returns the policies in order, followed by the policy of the API key.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Result<AppliedPolicy, BrokenPolicy>> {
        self.policies.policies.iter().chain(&self.policies.key_constraint)
    }

    pub(crate) fn expressions(&self) -> impl Iterator<Item = &str> {
        let policies = self.inputs.stored_policies().map(|(_, policy)| policy.expression.as_str());
        policies.chain(self.inputs.key_constraint.iter().map(|(expression, _)| expression.as_str()))
    }

    /// Returns the decision that a read makes: if a read could not be decided, the trace is not visible.
    pub(crate) fn decide(&self, found: &PolicyMatches) -> Decision {
        let verdict = match self.inputs.block {
            None => return self.decide_by_policies(found),
            Some(Block::Disabled) => ExplainVerdict::Disabled,
            Some(Block::Suspended) => ExplainVerdict::Suspended,
            Some(Block::PasswordChangeRequired) => ExplainVerdict::PasswordChangeRequired,
        };
        Decision { verdict, source: None, reason: None }
    }

    /// Returns the decision for a user who passes authentication.
    pub(crate) fn decide_by_policies(&self, found: &PolicyMatches) -> Decision {
        let refused = |verdict| Decision { verdict, source: None, reason: None };
        if let Some(broken) = &self.policies.refused {
            let (source, reason) = (Some(broken.source.clone()), Some(reason_text(broken.reason)));
            return Decision { verdict: ExplainVerdict::Broken, source, reason };
        }
        let sources = || {
            self.inputs.stored_policies().map(|(role, policy)| PolicySource::Role {
                role: role.name.clone(),
                title: policy.title.clone(),
            })
        };
        if changes(&found.changed, &self.policies.referenced_fields) {
            let mut broken = self.policies.policies.iter().zip(sources());
            let broken = broken.find(|(policy, _)| {
                policy.as_ref().is_ok_and(|policy| changes(&found.changed, &policy.fields))
            });
            let (source, reason) = (broken.map(|(_, source)| source), Some(COLUMN_CHANGED));
            return Decision { verdict: ExplainVerdict::Broken, source, reason };
        }
        if self.policies.policies.is_empty() {
            return refused(ExplainVerdict::NoPolicy);
        }
        let satisfied =
            |satisfied: &Option<MatchingSpans>| satisfied.as_ref().is_some_and(|found| found.spans > 0);
        let granting = found.results.iter().zip(sources()).find(|(found, _)| satisfied(found));
        let Some((_, source)) = granting else { return refused(ExplainVerdict::NotSatisfied) };
        // The policy of the key is the last element, after the policies, whose number equals that of the sources.
        let within = self.policies.key_constraint.is_none() || found.results.last().is_some_and(satisfied);
        let verdict = if within { ExplainVerdict::Granted } else { ExplainVerdict::KeyConstraint };
        Decision { verdict, source: Some(source), reason: None }
    }
}

/// Asks ClickHouse which spans of a trace satisfy each policy. Without a selection, which proves that the caller may read the
/// trace, asks only for counts. Leaves out policies with changed fields, as broken. Returns `None` if there is no such trace.
/// The selection is of the trace that `trace_id` names, in any of its notations.
pub(crate) async fn match_policies(
    access: &Access,
    selection: Option<&Selection>,
    trace_id: &str,
    policies: &[&Result<AppliedPolicy, BrokenPolicy>],
) -> Result<Option<PolicyMatches>, ClickHouseError> {
    let mut changed: Vec<ChangedField> = Vec::new();
    loop {
        let usable = |policy: &&Result<AppliedPolicy, BrokenPolicy>| {
            policy.as_ref().ok().filter(|policy| !changes(&changed, &policy.fields)).cloned()
        };
        let usable_policies: Vec<Option<AppliedPolicy>> = policies.iter().map(usable).collect();
        let predicates: Vec<Predicate> =
            usable_policies.iter().flatten().map(|policy| policy.predicate.clone()).collect();
        let fields: Vec<Arc<MarkedField>> =
            usable_policies.iter().flatten().flat_map(|policy| policy.fields.iter().cloned()).collect();
        let found = query_matches(access, selection, trace_id, &predicates, &fields).await;
        let (trace_id, spans, found) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            // Each round leaves out at least one more policy, or ends.
            Err(ClickHouseError::FieldsChanged(more))
                if more.iter().any(|field| !changed.contains(field)) =>
            {
                changed.extend(more);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut found = found.into_iter();
        let results =
            usable_policies.iter().map(|policy| policy.as_ref().and_then(|_| found.next())).collect();
        return Ok(Some(PolicyMatches { trace_id, spans, results, changed }));
    }
}

async fn query_matches(
    access: &Access,
    selection: Option<&Selection>,
    trace_id: &str,
    predicates: &[Predicate],
    fields: &[Arc<MarkedField>],
) -> Result<Option<(String, u64, Vec<MatchingSpans>)>, ClickHouseError> {
    let Access { store, binding, .. } = access;
    if let Some((selection, trace_id)) = selection.zip(selection.and_then(|found| found.trace_ids().next())) {
        let found = store.matching_spans(binding, selection, predicates, fields).await?;
        return Ok(Some((trace_id.to_owned(), selection.span_count(), found)));
    }
    let counts = store.matching_span_counts(binding, trace_id, predicates, fields).await?;
    Ok(counts.map(|counts| {
        let counted = |spans| MatchingSpans { spans, first: Vec::new(), nearest: None };
        (counts.trace_id, counts.spans, counts.matching_spans.into_iter().map(counted).collect())
    }))
}

/// Returns the requirement of a policy in words, if the reader may know of its fields.
pub(crate) fn policy_requirement(
    policy: Option<&AppliedPolicy>,
    knows_policy_fields: bool,
) -> Option<String> {
    let policy = policy.filter(|policy| knows_policy_fields || policy.has_only_filterable_fields())?;
    Some(describe(&policy.predicate))
}

/// Returns the part of the explanation that contains no span data.
pub(crate) fn policy_explanation(
    expression: &str,
    policy: &Result<AppliedPolicy, BrokenPolicy>,
    satisfied: &Option<MatchingSpans>,
    admin: bool,
) -> PolicyExplanation {
    let errors: Vec<Diagnostic> = match policy {
        Err(broken) if admin => broken.diagnostics.clone(),
        _ => Vec::new(),
    };
    let outcome = match satisfied {
        None => PolicyVerdict::Broken,
        Some(found) if found.spans > 0 => PolicyVerdict::Satisfied,
        Some(_) => PolicyVerdict::NotSatisfied,
    };
    PolicyExplanation {
        expression: admin.then(|| expression.to_owned()),
        requirement: policy_requirement(policy.as_ref().ok(), admin),
        outcome,
        satisfied_by: satisfied.as_ref().map(|found| found.spans),
        spans: Vec::new(),
        decided_by: None,
        nearest: None,
        errors,
    }
}

impl Core {
    /// Compiles a user's policies, off the threads that serve requests. Holds the permit until the work ends, also if the client
    /// disconnects.
    pub(crate) async fn compile_user_policies(
        &self,
        inputs: PolicyInputs,
        permit: Option<Permit>,
    ) -> Result<UserPolicies> {
        let compiled = Arc::clone(&self.compiled);
        let work = move || {
            let _permit = permit;
            UserPolicies::new(inputs, &compiled)
        };
        self.permits.compilation.run(work).await
    }
}
