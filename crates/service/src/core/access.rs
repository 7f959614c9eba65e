//! The caller's access to traces, determined from rows that were read in the same request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_appdb::{Policy, Role, User};
use tracewarden_clickhouse::{ClickHouse, ClickHouseError};
use tracewarden_model::{Binding, Caller};
use tracewarden_policy::{self as policy, AccessScope, CompiledPolicies, KeyConstraint, RolePolicy};

use crate::core::authority::Authority;
use crate::core::error::{Result, ServiceError};
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

impl Access {
    /// Detail of an audit record: the inputs of the decision, and these members about the request.
    pub(crate) fn detail<'a>(&self, request: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
        audit_detail::with_members(self.decision_inputs.clone(), request)
    }

    /// Checks that the table has the requested columns; an error points to the unknown one.
    pub(crate) async fn check_columns(&self, columns: Option<&[String]>) -> Result<()> {
        let Some(columns) = columns else { return Ok(()) };
        let checked = self.store.check_columns(&self.binding, columns).await;
        checked.map_err(|error| {
            let position = match &error {
                ClickHouseError::UnknownColumn { name, .. } => {
                    columns.iter().position(|column| column == name)
                }
                _ => None,
            };
            let position = position.map(|position| format!("/{position}")).unwrap_or_default();
            ServiceError::from(error).map_pointers(|pointer| pointer.push_str(&position))
        })
    }
}

impl Core {
    /// Compiles the caller's policies.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], [`ServiceError::PolicyBroken`], [`ServiceError::Unauthenticated`] if the caller was
    /// revoked since the request began, or a failure of the application database. With each of them the caller gets no spans.
    pub(crate) async fn access(&self, principal: &Principal) -> Result<Access> {
        // One snapshot: roles of one moment with the attributes or the model of another could grant access that neither
        // grants.
        let mut tx = self.db.begin_read().await?;
        let authority = self.authority(&mut tx, principal).await?;
        drop(tx);
        self.compile_access(authority, false).await
    }

    /// Compiles the policies of an administrator who inspects other users' access. A broken policy of their own hides all
    /// traces from them, but must not prevent them from finding the fault.
    pub(crate) async fn access_even_if_broken(&self, authority: Authority) -> Result<Access> {
        self.compile_access(authority, true).await
    }

    async fn compile_access(&self, authority: Authority, even_if_broken: bool) -> Result<Access> {
        let binding = authority.model.binding.clone().ok_or(ServiceError::NotBound)?;
        let decision_inputs = decision_inputs(&authority);
        let authority = Arc::new(authority);
        let (shared, compiled) = (Arc::clone(&authority), Arc::clone(&self.compiled));
        let decide = move || match authorise(&shared, &shared.roles, &compiled) {
            Err(ServiceError::PolicyBroken { .. }) if even_if_broken => authorise(&shared, &[], &compiled),
            decided => decided,
        };
        let scope = self.permits.compilation.run(decide).await??;
        let store = self.clickhouse.session();
        Ok(Access { authority, binding, scope, store, decision_inputs })
    }
}

fn authorise(authority: &Authority, roles: &[Role], compiled: &CompiledPolicies) -> Result<AccessScope> {
    let Authority { principal, model, .. } = authority;
    let key_constraint = principal.key_policy().map(|expression| key_constraint(principal, expression));
    let policies = roles.iter().flat_map(|role| role_policies(&role.name, &role.policies));
    policy::authorise(policies, key_constraint, &caller(principal), model, compiled)
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

/// Returns the policies of a role, in order.
pub(crate) fn role_policies<'a>(
    role: &'a str,
    policies: &'a [Policy],
) -> impl Iterator<Item = RolePolicy<'a>> {
    let policy = move |Policy { title, expression, .. }: &'a Policy| RolePolicy { role, title, expression };
    policies.iter().map(policy)
}

/// Returns the revisions of roles by name, for audit records.
pub(crate) fn revisions(roles: &[Role]) -> BTreeMap<&str, u64> {
    roles.iter().map(|role| (role.name.as_str(), role.revision)).collect()
}

/// Returns the policy of a key with its owner's current knowledge of fields: it must not reveal fields whose existence is
/// hidden from the owner.
pub(crate) fn key_constraint<'a>(owner: &Identity, expression: &'a str) -> KeyConstraint<'a> {
    KeyConstraint { expression, knows_policy_fields: owner.has_admin_role() }
}

fn decision_inputs(Authority { principal, roles, version, .. }: &Authority) -> Value {
    let preview = principal.preview().map(|preview| {
        json!({
            "roles": preview.roles,
            "attributes": audit_detail::attributes(&preview.attributes),
            "username": preview.username,
            "user_id": preview.user_id,
        })
    });
    // Recorded in full: the key may be revoked before the record is read.
    let key_policy = principal.key_policy().map(Value::from);
    let optional = [("preview", preview), ("key_policy", key_policy)];
    audit_detail::with_members(json!({ "version": version, "roles": revisions(roles) }), optional)
}
