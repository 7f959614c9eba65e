//! Somebody's policies, compiled, and asked of one trace.

use std::sync::Arc;

use tracewarden_appdb::{Policy, Role};
use tracewarden_model::{AccessModel, Caller, MarkedField};
use tracewarden_policy::{
    AppliedPolicies, AppliedPolicy, BrokenPolicy, CompiledPolicies, Diagnostic, PolicySource, Predicate,
    Restriction, apply, in_words,
};
use tracewarden_tracestore::{ChangedField, Satisfied, Selection, StoreError};

use super::{ExplainVerdict, ExplainedUser, PolicyExplanation, PolicyVerdict, summary};
use crate::access::{Access, role_policies};
use crate::broken_policy::why;

/// Why a policy cannot be applied that compiles.
const COLUMN_CHANGED: &str =
    "names a field whose column in ClickHouse has changed; the field has to be marked again";

/// Whose policies, and under which model.
#[derive(Debug, Clone)]
pub(crate) struct AppliedTo {
    /// Whom policies see.
    pub(crate) caller: Caller,
    pub(crate) disabled: bool,
    /// Whether they cannot do anything before they change the password.
    pub(crate) must_change_password: bool,
    pub(crate) roles: Vec<Role>,
    /// Text of the key's policy, and whether its author knows of fields that are policy inputs only.
    pub(crate) restriction: Option<(String, bool)>,
    pub(crate) model: AccessModel,
}

impl AppliedTo {
    pub(crate) fn explained_user(&self) -> ExplainedUser {
        ExplainedUser::new(&self.caller, self.disabled)
    }

    /// Every policy with its role, in the order in which they are applied.
    pub(crate) fn stored_policies(&self) -> impl Iterator<Item = (&Role, &Policy)> {
        self.roles.iter().flat_map(|role| role.policies.iter().map(move |policy| (role, policy)))
    }
}

/// Somebody's policies as they apply to them.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) to: AppliedTo,
    pub(crate) policies: AppliedPolicies,
}

/// What the policies of somebody come to on a trace.
pub(crate) struct Decision {
    pub(crate) verdict: ExplainVerdict,
    /// The policy to name: the first that opens the trace, or the one that is broken.
    pub(crate) source: Option<PolicySource>,
    /// Why one is broken.
    pub(crate) why: Option<&'static str>,
}

/// What was found of each policy that was asked about.
pub(crate) struct FoundSatisfied {
    /// The trace.
    pub(crate) trace_id: String,
    /// Spans of the trace.
    pub(crate) spans: u64,
    /// In order; `None` for one that is broken.
    pub(crate) each: Vec<Option<Satisfied>>,
    /// Fields that are of another kind in the table than when they were marked.
    pub(crate) changed: Vec<ChangedField>,
}

impl FoundSatisfied {
    fn changes(&self, fields: &[Arc<MarkedField>]) -> bool {
        changes(&self.changed, fields)
    }
}

fn changes(changed: &[ChangedField], fields: &[Arc<MarkedField>]) -> bool {
    fields.iter().any(|field| changed.iter().any(|changed| changed.field == **field))
}

impl Applied {
    /// Compiles them. Keeps a thread busy.
    pub(crate) fn new(to: AppliedTo, compiled: &CompiledPolicies) -> Self {
        let restriction = to
            .restriction
            .as_ref()
            .map(|(expression, knows)| Restriction { expression, knows_policy_fields: *knows });
        let policies = apply(role_policies(&to.roles), restriction, &to.caller, &to.model, compiled);
        Self { to, policies }
    }

    /// The policies in order, and the restriction after them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Result<AppliedPolicy, BrokenPolicy>> {
        self.policies.policies.iter().chain(&self.policies.restriction)
    }

    /// Their texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let policies = self.to.stored_policies().map(|(_, policy)| policy.expression.as_str());
        policies.chain(self.to.restriction.iter().map(|(expression, _)| expression.as_str()))
    }

    /// For each role and each of its policies what it asks, for administrators; `None` for one that is broken.
    pub(crate) fn in_words(&self) -> Vec<Vec<Option<String>>> {
        let mut words = self.policies.policies.iter().map(|policy| words(policy.as_ref().ok(), true));
        let of_role = |role: &Role| words.by_ref().take(role.policies.len()).collect();
        self.to.roles.iter().map(of_role).collect()
    }

    /// What a user may read, in one sentence.
    pub(crate) fn summary(&self) -> String {
        summary::of_access(self)
    }

    /// The decision that reading makes: whatever keeps a read from being decided means no.
    pub(crate) fn decide(&self, found: &FoundSatisfied) -> Decision {
        let refused = |verdict| Decision { verdict, source: None, why: None };
        if self.to.disabled {
            return refused(ExplainVerdict::Disabled);
        }
        // Sessions and keys alike are refused where a caller is authenticated, before anything is read.
        if self.to.must_change_password {
            return refused(ExplainVerdict::PasswordChangeRequired);
        }
        self.decide_by_policies(found)
    }

    /// The decision for a user who may call.
    pub(crate) fn decide_by_policies(&self, found: &FoundSatisfied) -> Decision {
        let refused = |verdict| Decision { verdict, source: None, why: None };
        if let Some(broken) = &self.policies.refused {
            let (source, why) = (Some(broken.source.clone()), Some(why(broken.reason)));
            return Decision { verdict: ExplainVerdict::Broken, source, why };
        }
        let sources = || {
            self.to.stored_policies().map(|(role, policy)| PolicySource::Role {
                role: role.name.clone(),
                title: policy.title.clone(),
            })
        };
        if found.changes(&self.policies.rests_on) {
            let mut broken = self.policies.policies.iter().zip(sources());
            let broken =
                broken.find(|(policy, _)| policy.as_ref().is_ok_and(|policy| found.changes(&policy.fields)));
            let (source, why) = (broken.map(|(_, source)| source), Some(COLUMN_CHANGED));
            return Decision { verdict: ExplainVerdict::Broken, source, why };
        }
        if self.policies.policies.is_empty() {
            return refused(ExplainVerdict::NoPolicy);
        }
        let satisfied =
            |satisfied: &Option<Satisfied>| satisfied.as_ref().is_some_and(|found| found.spans > 0);
        let opening = found.each.iter().zip(sources()).find(|(found, _)| satisfied(found));
        let Some((_, source)) = opening else { return refused(ExplainVerdict::NotSatisfied) };
        // It stands after the policies, of which there are as many as sources.
        let within = self.policies.restriction.is_none() || found.each.last().is_some_and(satisfied);
        let verdict = if within { ExplainVerdict::Opened } else { ExplainVerdict::Restriction };
        Decision { verdict, source: Some(source), why: None }
    }
}

/// Asks the trace store which spans of a trace satisfy each of these; with no proof that the asker may read it, how many
/// do. Policies over fields that changed are left out, as broken; `None` when there is no such trace. The selection is of
/// the trace that `trace_id` names, in any of its notations.
pub(crate) async fn satisfied(
    access: &Access,
    selection: Option<&Selection>,
    trace_id: &str,
    policies: &[&Result<AppliedPolicy, BrokenPolicy>],
) -> Result<Option<FoundSatisfied>, StoreError> {
    let mut changed: Vec<ChangedField> = Vec::new();
    loop {
        let usable = |policy: &&Result<AppliedPolicy, BrokenPolicy>| {
            policy.as_ref().ok().filter(|policy| !changes(&changed, &policy.fields)).cloned()
        };
        let asked: Vec<Option<AppliedPolicy>> = policies.iter().map(usable).collect();
        let predicates: Vec<Predicate> =
            asked.iter().flatten().map(|policy| policy.predicate.clone()).collect();
        let fields: Vec<Arc<MarkedField>> =
            asked.iter().flatten().flat_map(|policy| policy.fields.iter().cloned()).collect();
        let found = ask(access, selection, trace_id, &predicates, &fields).await;
        let (trace_id, spans, found) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            // Each round leaves out at least one of them, or ends.
            Err(StoreError::FieldsChanged(more)) if more.iter().any(|field| !changed.contains(field)) => {
                changed.extend(more);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut found = found.into_iter();
        let each = asked.iter().map(|policy| policy.as_ref().and_then(|_| found.next())).collect();
        return Ok(Some(FoundSatisfied { trace_id, spans, each, changed }));
    }
}

async fn ask(
    access: &Access,
    selection: Option<&Selection>,
    trace_id: &str,
    predicates: &[Predicate],
    fields: &[Arc<MarkedField>],
) -> Result<Option<(String, u64, Vec<Satisfied>)>, StoreError> {
    let Access { store, binding, .. } = access;
    if let Some((selection, trace_id)) = selection.zip(selection.and_then(|found| found.trace_ids().next())) {
        let found = store.satisfied(binding, selection, predicates, fields).await?;
        return Ok(Some((trace_id.to_owned(), selection.span_count(), found)));
    }
    let counts = store.satisfied_counts(binding, trace_id, predicates, fields).await?;
    Ok(counts.map(|counts| {
        let counted = |spans| Satisfied { spans, first: Vec::new(), nearest: None };
        (counts.trace_id, counts.spans, counts.satisfied.into_iter().map(counted).collect())
    }))
}

/// What a policy asks, for who may know of its fields.
pub(crate) fn words(policy: Option<&AppliedPolicy>, knows_policy_fields: bool) -> Option<String> {
    let policy = policy.filter(|policy| knows_policy_fields || policy.is_of_filterable_fields())?;
    Some(in_words(&policy.predicate))
}

/// What can be told of a policy without telling of spans.
pub(super) fn told(
    expression: &str,
    policy: &Result<AppliedPolicy, BrokenPolicy>,
    satisfied: &Option<Satisfied>,
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
        in_words: words(policy.as_ref().ok(), admin),
        outcome,
        satisfied_by: satisfied.as_ref().map(|found| found.spans),
        spans: Vec::new(),
        decided_by: None,
        nearest: None,
        errors,
    }
}
