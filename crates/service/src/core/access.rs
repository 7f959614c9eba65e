//! The caller's access to traces, determined from rows that were read in the same request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_appdb::{Role, User};
use tracewarden_clickhouse::ClickHouse;
use tracewarden_model::{Binding, Caller};
use tracewarden_policy::{self as policy, AccessScope, CompiledPolicies, KeyConstraint, RolePolicy};

use crate::core::authority::Authority;
use crate::core::error::ServiceError;
use crate::core::policy_errors::broken_policy_error;
use crate::core::principal::{Identity, Principal};
use crate::core::{Core, audit_detail};

/// The caller's access to traces, decided on the rows of one snapshot.
pub(crate) struct Access {
    /// Inputs of the decision.
    pub(crate) authority: Arc<Authority>,
    pub(crate) binding: Binding,
    pub(crate) scope: AccessScope,
    /// ClickHouse session of this read: all its statements go to one replica.
    pub(crate) store: ClickHouse,
    /// Inputs of the decision for the audit record: version of the access model, revisions of roles, preview and key policy.
    pub(crate) decision_inputs: Value,
}

impl Core {
    /// Compiles the caller's policies.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], [`ServiceError::PolicyBroken`], [`ServiceError::Unauthenticated`] if the caller was
    /// revoked since the request began, or a failure of the application database. With each of them the caller gets no spans.
    pub(crate) async fn access(&self, principal: &Principal) -> Result<Access, ServiceError> {
        // One snapshot: roles of one moment with the attributes or the model of another could grant access that neither
        // grants.
        let mut tx = self.db.begin_read().await?;
        let authority = self.authority(&mut tx, principal).await?;
        drop(tx);
        self.access_for(authority).await
    }

    /// Compiles the policies of an authority that was read before.
    pub(crate) async fn access_for(&self, authority: Authority) -> Result<Access, ServiceError> {
        let authority = Arc::new(authority);
        let shared = Arc::clone(&authority);
        self.compile_access(authority, move |compiled| authorise(&shared, &shared.roles, compiled)).await
    }

    /// Compiles the policies of an administrator who inspects other users' access. A broken policy of their own hides all
    /// traces from them, but must not prevent them from finding the fault.
    pub(crate) async fn access_even_if_broken(&self, authority: Authority) -> Result<Access, ServiceError> {
        let authority = Arc::new(authority);
        let shared = Arc::clone(&authority);
        let scope = move |compiled: &CompiledPolicies| match authorise(&shared, &shared.roles, compiled) {
            Err(ServiceError::PolicyBroken { .. }) => authorise(&shared, &[], compiled),
            decided => decided,
        };
        self.compile_access(authority, scope).await
    }

    async fn compile_access(
        &self,
        authority: Arc<Authority>,
        decide: impl FnOnce(&CompiledPolicies) -> Result<AccessScope, ServiceError> + Send + 'static,
    ) -> Result<Access, ServiceError> {
        let binding = authority.model.binding.clone().ok_or(ServiceError::NotBound)?;
        let decision_inputs = decision_inputs(&authority);
        let compiled = Arc::clone(&self.compiled);
        let scope = self.permits.compilation.run(move || decide(&compiled)).await??;
        let store = self.clickhouse.session();
        Ok(Access { authority, binding, scope, store, decision_inputs })
    }
}

fn authorise(
    authority: &Authority,
    roles: &[Role],
    compiled: &CompiledPolicies,
) -> Result<AccessScope, ServiceError> {
    let Authority { principal, model, .. } = authority;
    let key_constraint = principal.key_policy().map(|expression| key_constraint(principal, expression));
    policy::authorise(role_policies(roles), key_constraint, &caller(principal), model, compiled)
        .map_err(|broken| broken_policy_error(broken, principal.is_admin()))
}

/// Returns the user for whom policies are evaluated when this principal reads traces.
pub(crate) fn caller(principal: &Principal) -> Caller {
    let user = &principal.user;
    match principal.preview() {
        None => stored_caller(user),
        Some(preview) => Caller {
            username: preview.username.clone().unwrap_or_else(|| user.username.clone()),
            roles: preview.roles.clone(),
            attributes: preview.attributes.clone(),
        },
    }
}

/// Returns the user for whom policies are evaluated when a stored user reads traces.
pub(crate) fn stored_caller(user: &User) -> Caller {
    Caller { username: user.username.clone(), roles: user.roles.clone(), attributes: user.attributes.clone() }
}

/// Returns all policies of these roles, in order.
pub(crate) fn role_policies(roles: &[Role]) -> impl Iterator<Item = RolePolicy<'_>> {
    roles.iter().flat_map(|role| {
        role.policies.iter().map(|policy| RolePolicy {
            role: &role.name,
            title: &policy.title,
            expression: &policy.expression,
        })
    })
}

/// Returns the policy of a key with its owner's current knowledge of fields: it must not reveal fields whose existence is
/// hidden from the owner.
pub(crate) fn key_constraint<'a>(owner: &Identity, expression: &'a str) -> KeyConstraint<'a> {
    KeyConstraint { expression, knows_policy_fields: owner.has_admin_role() }
}

fn decision_inputs(Authority { principal, roles, version, .. }: &Authority) -> Value {
    let revisions: BTreeMap<&str, u64> =
        roles.iter().map(|role| (role.name.as_str(), role.revision)).collect();
    let mut decision_inputs = json!({ "version": version, "roles": revisions });
    if let (Some(preview), Value::Object(members)) = (principal.preview(), &mut decision_inputs) {
        let attributes = audit_detail::attributes(&preview.attributes);
        let preview = json!({
            "roles": preview.roles,
            "attributes": attributes,
            "username": preview.username,
            "user_id": preview.user_id,
        });
        members.insert("preview".to_owned(), preview);
    }
    if let (Some(expression), Value::Object(members)) = (principal.key_policy(), &mut decision_inputs) {
        // Recorded in full: the key may be revoked before the record is read.
        members.insert("key_policy".to_owned(), expression.into());
    }
    decision_inputs
}
