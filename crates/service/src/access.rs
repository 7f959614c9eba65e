//! What a caller may read, from the rows of this very request.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracewarden_appdb::Role;
use tracewarden_model::{AccessModel, Binding, Caller};
use tracewarden_policy::{self as policy, AccessScope, RolePolicy};

use crate::authentication::enabled_user;
use crate::error::ServiceError;
use crate::principal::Principal;
use crate::service::{Service, blocking};

/// One snapshot of everything that a decision about traces rests on.
pub(crate) struct Access {
    pub(crate) model: AccessModel,
    pub(crate) binding: Binding,
    pub(crate) scope: AccessScope,
    /// What the audit record says about the decision: versions, not contents.
    pub(crate) basis: Value,
}

impl Service {
    /// Compiles the caller's policies. The only call of `policy::authorise`.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], [`ServiceError::PolicyBroken`], [`ServiceError::Unauthenticated`] when the user was
    /// disabled since the request began, or a failure of the own database. Every one of them means no spans.
    pub(crate) async fn access(&self, principal: &Principal) -> Result<Access, ServiceError> {
        // One snapshot: roles of one moment with the attributes or the model of another could open what neither opens.
        let mut tx = self.db().begin_read().await?;
        let user = enabled_user(&mut tx, principal.user_id()).await?;
        let mut roles = Vec::new();
        let caller = match principal.preview() {
            None => {
                roles = tx.roles_of_user(&user.id).await?;
                Caller { username: user.username, roles: user.roles, attributes: user.attributes }
            }
            Some(preview) => {
                for name in &preview.roles {
                    // A role that was deleted meanwhile grants nothing.
                    roles.extend(tx.role(name).await?);
                }
                Caller {
                    username: preview.username.clone().unwrap_or(user.username),
                    roles: preview.roles.clone(),
                    attributes: preview.attributes.clone(),
                }
            }
        };
        let model = tx.access_model().await?;
        drop(tx);
        let binding = model.binding.clone().ok_or(ServiceError::NotBound)?;
        let basis = basis(&roles, &model, principal);
        let (model, scope) = blocking(move || {
            let scope = authorise(&roles, &caller, &model);
            (model, scope)
        })
        .await?;
        Ok(Access { model, binding, scope: scope?, basis })
    }
}

fn authorise(roles: &[Role], caller: &Caller, model: &AccessModel) -> Result<AccessScope, ServiceError> {
    let policies = roles.iter().flat_map(|role| {
        role.policies.iter().map(|policy| RolePolicy {
            role: &role.name,
            title: &policy.title,
            expression: &policy.expression,
        })
    });
    Ok(policy::authorise(policies, caller, model)?)
}

fn basis(roles: &[Role], model: &AccessModel, principal: &Principal) -> Value {
    let revisions: BTreeMap<&str, u64> =
        roles.iter().map(|role| (role.name.as_str(), role.revision)).collect();
    let mut basis = json!({ "model_version": model.version, "roles": revisions });
    if let (Some(preview), Value::Object(members)) = (principal.preview(), &mut basis) {
        let preview = json!({ "roles": preview.roles, "username": preview.username });
        members.insert("preview".to_owned(), preview);
    }
    basis
}
