//! A change of a user by administrators.

use std::collections::{BTreeMap, BTreeSet};

use tracewarden_appdb::{User, fold_username};
use tracewarden_model::AttributeValue;

use crate::access::service_accounts::ServiceOwner;
use crate::core::{FieldError, validate};

/// Change of a user; absent members stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct UserChange {
    /// Expected name of the user, if the caller gives it: another one is rejected.
    pub username: Option<String>,
    /// Expected id of the user, likewise.
    pub id: Option<String>,
    /// All roles, in place of the current ones.
    pub roles: Option<BTreeSet<String>>,
    /// All attributes, in place of the current ones.
    pub attributes: Option<BTreeMap<String, AttributeValue>>,
    /// Whether the user is disabled.
    pub disabled: Option<bool>,
    /// Who answers for the service account.
    pub service: Option<ServiceOwner>,
}

impl UserChange {
    /// Leaves out what the mapping of the identity provider gives the user: a client may send back what it has read.
    pub(super) fn leave_mapped(&mut self, user: &User, errors: &mut Vec<FieldError>) {
        let Some(identity) = &user.identity else { return };
        if let Some(roles) = &mut self.roles {
            roles.retain(|role| identity.assigned_roles.contains(role) || !user.roles.contains(role));
        }
        let Some(attributes) = &mut self.attributes else { return };
        attributes.retain(|name, value| {
            let is_mapped = identity.mapped_attributes.contains(name);
            let known = [user.attributes.get(name), identity.assigned_attributes.get(name)];
            if is_mapped && !known.contains(&Some(value)) {
                let detail = format!(
                    "`{name}` is set by the mapping of the identity provider `{}`",
                    identity.provider
                );
                errors.push(FieldError::invalid(
                    format!("/attributes/{}", validate::pointer_token(name)),
                    detail,
                ));
            }
            !is_mapped
        });
        // What was assigned under a mapped name has no effect, and comes back when the mapping no longer sets it.
        let hidden = identity.assigned_attributes.iter();
        let hidden = hidden.filter(|(name, _)| identity.mapped_attributes.contains(*name));
        attributes.extend(hidden.map(|(name, value)| (name.clone(), value.clone())));
    }

    /// Checks that the change is for this user: a body that was read for one user must not change another one because of a
    /// wrong path.
    pub(super) fn require_same_user(&self, user: &User, errors: &mut Vec<FieldError>) {
        let same_name = |name: &String| fold_username(name) == fold_username(&user.username);
        if !self.username.as_ref().is_none_or(same_name) {
            let detail =
                format!("a user's name cannot be changed: it is `{}`; leave `username` out", user.username);
            errors.push(FieldError::invalid("/username", detail));
        }
        if self.id.as_ref().is_some_and(|id| *id != user.id) {
            let detail =
                format!("`{}` has another id; read the user again, or leave `id` out", user.username);
            errors.push(FieldError::invalid("/id", detail));
        }
    }
}
