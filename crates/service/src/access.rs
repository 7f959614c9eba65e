//! What a caller may read, from the rows of this very request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_model::{Binding, Caller};
use tracewarden_policy::{self as policy, AccessScope, CompiledPolicies, Restriction, RolePolicy};
use tracewarden_tracestore::TraceStore;

use crate::audit_detail;
use crate::authority::Authority;
use crate::error::ServiceError;
use crate::principal::{Identity, Principal};
use crate::service::{Service, blocking};

/// What a caller may read, decided on the rows of one moment.
pub(crate) struct Access {
    /// What the decision rests on.
    pub(crate) authority: Arc<Authority>,
    pub(crate) binding: Binding,
    pub(crate) scope: AccessScope,
    /// The trace store for this read alone: its statements stay with one replica.
    pub(crate) store: TraceStore,
    /// What the audit record says about the decision: versions of roles and model, and what else it rests on.
    pub(crate) basis: Value,
}

impl Service {
    /// Compiles the caller's policies. The only call of `policy::authorise`.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], [`ServiceError::PolicyBroken`], [`ServiceError::Unauthenticated`] when the caller was
    /// revoked since the request began, or a failure of the own database. Every one of them means no spans.
    pub(crate) async fn access(&self, principal: &Principal) -> Result<Access, ServiceError> {
        // One snapshot: roles of one moment with the attributes or the model of another could open what neither opens.
        let mut tx = self.db().begin_read().await?;
        let authority = Arc::new(self.authority(&mut tx, principal).await?);
        drop(tx);
        let binding = authority.model.binding.clone().ok_or(ServiceError::NotBound)?;
        let basis = basis(&authority);
        let shared = Arc::clone(&authority);
        let compiled = self.compiled();
        let scope = blocking(move || authorise(&shared, &compiled)).await??;
        let store = self.store().session();
        Ok(Access { authority, binding, scope, store, basis })
    }
}

fn authorise(authority: &Authority, compiled: &CompiledPolicies) -> Result<AccessScope, ServiceError> {
    let Authority { principal, roles, model } = authority;
    let user = &principal.user;
    let caller = match principal.preview() {
        None => Caller {
            username: user.username.clone(),
            roles: user.roles.clone(),
            attributes: user.attributes.clone(),
        },
        Some(preview) => Caller {
            username: preview.username.clone().unwrap_or_else(|| user.username.clone()),
            roles: preview.roles.clone(),
            attributes: preview.attributes.clone(),
        },
    };
    let policies = roles.iter().flat_map(|role| {
        role.policies.iter().map(|policy| RolePolicy {
            role: &role.name,
            title: &policy.title,
            expression: &policy.expression,
        })
    });
    let restriction = principal.key_policy().map(|expression| restriction(principal, expression));
    Ok(policy::authorise(policies, restriction, &caller, model, compiled)?)
}

/// The policy of a key, read as its owner may read it now: it cannot tell of fields whose existence is kept from them.
pub(crate) fn restriction<'a>(owner: &Identity, expression: &'a str) -> Restriction<'a> {
    Restriction { expression, knows_policy_fields: owner.holds_admin_role() }
}

fn basis(Authority { principal, roles, model }: &Authority) -> Value {
    let revisions: BTreeMap<&str, u64> =
        roles.iter().map(|role| (role.name.as_str(), role.revision)).collect();
    let mut basis = json!({ "model_version": model.version, "roles": revisions });
    if let (Some(preview), Value::Object(members)) = (principal.preview(), &mut basis) {
        let attributes = audit_detail::attributes(&preview.attributes);
        let preview = json!({
            "roles": preview.roles,
            "attributes": attributes,
            "username": preview.username,
            "user_id": preview.user_id,
        });
        members.insert("preview".to_owned(), preview);
    }
    if let (Some(expression), Value::Object(members)) = (principal.key_policy(), &mut basis) {
        // In full: the key may be revoked and gone when somebody reads this.
        members.insert("key_policy".to_owned(), expression.into());
    }
    basis
}
