//! Explains why a user can or cannot see a trace: every policy that applies to the user, and the spans that satisfy it.
//!
//! The decision is the same as for a read: the caller's own access is determined by finding the trace as a read does, and
//! ClickHouse evaluates each policy compiled in the same way. Only a caller whose own policies grant access to the trace gets
//! span data and learns which spans exist; administrators without such access get counts, as in policy advice.

mod details;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracewarden_appdb::{Role, User};
use tracewarden_clickhouse::Selection;
use tracewarden_model::TraceIdNotations;
use tracewarden_policy::AppliedPolicy;

use crate::core::{
    Access, Administrator, OpenAuditRecord, Outcome, PreparedRead, Principal, Result, ServiceError,
    TRACES_EXPLAIN, access, audit_detail, find_user,
};
use crate::policies::{
    Block, PolicyInputs, decision_summary, match_policies, policy_explanation, policy_requirement,
};
use crate::traces::{AuthorizedTrace, Traces, trace_not_found};
use crate::{
    ExplainVerdict, ExplainedPolicy, Explanation, OwnAccess, OwnPolicy, OwnRole, PolicyExplanation,
    SpanReader,
};

impl Traces {
    /// Explains why the caller can see a trace; or, for administrators, why `user` can or cannot. With `read`, the
    /// explanation for administrators contains the deciding parts of each expression.
    ///
    /// # Errors
    /// Those of [`Self::trace`]: a caller who may not read a trace does not learn whether it exists. With `user`,
    /// [`ServiceError::Forbidden`] and [`ServiceError::NotFound`] for the user, and [`ServiceError::TraceNotFound`] if the
    /// trace is absent, or if the caller may not read it and the operator has disabled counts of such traces.
    pub async fn explain(
        &self,
        principal: &Principal,
        trace_id: &str,
        user: Option<&str>,
        read: Option<SpanReader>,
    ) -> Result<Explanation> {
        let Some(user) = user else {
            let found = self.find_trace(principal, TRACES_EXPLAIN, trace_id, None).await?;
            let AuthorizedTrace { access, selection, record } = found;
            let inputs = PolicyInputs::caller(&access.authority);
            // As read in the transaction of the audit record.
            let admin = access.authority.principal.is_admin();
            let request = ExplainRequest { trace_id, inputs, own: true, admin, read };
            return self.finish_explanation(access, Some(selection), record, request).await;
        };
        let admin = principal.require_admin();
        let admin = self
            .core
            .audit_denial(principal, TRACES_EXPLAIN, Some(&TraceIdNotations::recorded(trace_id)), admin)
            .await?;
        self.explain_user(&admin, trace_id, user, read).await
    }

    async fn explain_user(
        &self,
        admin: &Administrator<'_>,
        trace_id: &str,
        user: &str,
        read: Option<SpanReader>,
    ) -> Result<Explanation> {
        let prepare = || async {
            // One snapshot: the user's roles and the model under which they are evaluated must belong together.
            let mut tx = self.core.db.begin_read().await?;
            let authority = self.core.admin_authority(&mut tx, admin).await?;
            let user = find_user(&mut tx, user).await?;
            let roles = tx.roles_named(&user.roles).await?;
            drop(tx);
            let access = self.core.access_even_if_broken(authority).await?;
            let detail = access.detail([("explained", user_decision_inputs(&user, &roles))]);
            let (block, model) = (Block::of(&user, &self.core), access.authority.model.clone());
            let inputs = PolicyInputs::user(&user, block, roles, model);
            Ok(PreparedRead { access, plan: inputs, detail })
        };
        let (started, target) = (Instant::now(), TraceIdNotations::recorded(trace_id));
        let (access, inputs, mut record) =
            self.core.begin_read(admin, TRACES_EXPLAIN, Some(&target), prepare).await?;
        let selection = record.check(access.find(trace_id).await).await?;
        if selection.is_none() && !self.core.settings.discovery_samples {
            return Err(trace_not_found(record, started).await);
        }
        let request = ExplainRequest { trace_id, inputs, own: false, admin: true, read };
        self.finish_explanation(access, selection, record, request).await
    }

    /// Computes the explanation; completes the audit record before the answer is returned.
    async fn finish_explanation(
        &self,
        access: Access,
        selection: Option<Selection>,
        mut record: OpenAuditRecord,
        request: ExplainRequest<'_>,
    ) -> Result<Explanation> {
        let started = Instant::now();
        let explanation = self.build_explanation(&access, selection.as_ref(), request).await;
        let Some(explanation) = record.check(explanation).await? else {
            return Err(trace_not_found(record, started).await);
        };
        record.set_found_trace(&explanation.trace_id);
        let spans = explanation.policies.iter().map(|policy| policy.explained.spans.len() as u64);
        record.returned.spans = spans.max().unwrap_or_default();
        record.complete(Outcome::Success, None).await?;
        Ok(explanation)
    }

    /// Returns `None` if there is no such trace.
    async fn build_explanation(
        &self,
        access: &Access,
        selection: Option<&Selection>,
        request: ExplainRequest<'_>,
    ) -> Result<Option<Explanation>> {
        let ExplainRequest { trace_id, inputs, own, admin, read } = request;
        let applied = self.core.compile_user_policies(inputs, None).await?;
        let all: Vec<_> = applied.all().collect();
        let Some(found) = match_policies(access, selection, trace_id, &all).await? else { return Ok(None) };
        let decision = applied.decide(&found);
        let summary = decision_summary(&applied, &decision, found.spans, own);
        let mut explanations: Vec<PolicyExplanation> = applied
            .expressions()
            .zip(&all)
            .zip(&found.results)
            .map(|((text, policy), satisfied)| policy_explanation(text, policy, satisfied, admin))
            .collect();
        if let Some(selection) = selection {
            let trace = details::Trace { access, selection, caller: &applied.inputs.caller, admin, read };
            let knows = |policy: &AppliedPolicy| admin || policy.has_only_filterable_fields();
            let nearest = all.iter().map(|policy| policy.as_ref().is_ok_and(knows)).collect();
            trace.add_span_data(&mut explanations, &found, nearest).await?;
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
    pub async fn own_access(&self, principal: &Principal) -> Result<OwnAccess> {
        // Policies are compiled as for a query, so the call counts towards the user's limit on concurrent queries.
        let permit =
            self.core.permits.queries.try_acquire(principal.user_id()).ok_or(ServiceError::TooManyQueries);
        let permit = self.core.audit_denial(principal, TRACES_EXPLAIN, None, permit).await?;
        let mut tx = self.core.db.begin_read().await?;
        let authority = self.core.authority(&mut tx, principal).await?;
        drop(tx);
        let admin = authority.principal.is_admin();
        let applied = self.core.compile_user_policies(PolicyInputs::caller(&authority), Some(permit)).await?;
        let mut requirements = applied.all().map(|policy| policy_requirement(policy.as_ref().ok(), admin));
        let roles = applied.inputs.roles.iter().map(|role| {
            let policies = role.policies.iter().map(|policy| OwnPolicy {
                title: policy.title.clone(),
                description: policy.description.clone(),
                requirement: requirements.next().flatten(),
            });
            OwnRole { name: role.name.clone(), policies: policies.collect() }
        });
        let roles = roles.collect();
        Ok(OwnAccess {
            user: applied.inputs.explained_user(),
            roles,
            key_constraint: requirements.next(),
            tools: authority.principal.credential_tools(),
        })
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
    json!({
        "username": user.username,
        "user_id": user.id,
        "roles": access::revisions(roles),
        "attributes": audit_detail::attributes(&user.attributes),
    })
}
