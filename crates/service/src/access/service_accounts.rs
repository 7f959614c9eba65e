//! Service accounts: users who are programs, and who answers for them. They have no password and no sessions.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{ServiceAccount, WriteTx, fold_username};
use utoipa::ToSchema;

use crate::core::{FieldError, Result, validate};

/// Who answers for a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOwner {
    /// Name of a user who is not a service account; `None` only where it stays without one.
    pub owner: Option<String>,
    /// The role that this user must have for the account to have access; `None` for none.
    pub owner_role: Option<String>,
}

/// What administrators see of a service account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ServiceInfo {
    /// Name of the user who answers for the account; null after that user was deleted.
    #[schema(required = true, examples("ada"))]
    pub owner: Option<String>,
    /// The role that the owner must have for the account to have access; null for none.
    #[schema(required = true, examples("payments"))]
    pub owner_role: Option<String>,
}

impl From<ServiceAccount> for ServiceInfo {
    fn from(account: ServiceAccount) -> Self {
        Self { owner: account.owner, owner_role: account.owner_role }
    }
}

/// Checks who shall answer for a service account.
pub(super) async fn resolve_owner(
    tx: &mut WriteTx,
    owner: &ServiceOwner,
    errors: &mut Vec<FieldError>,
) -> Result<Option<ServiceAccount>> {
    let name = owner.owner.as_deref().unwrap_or_default();
    let found = match validate::is_storable(name) {
        true => tx.user_by_name(name).await?,
        false => None,
    };
    let found = found.filter(|user| user.service.is_none());
    if found.is_none() {
        let detail = format!("no user `{name}` who can own a service account");
        errors.push(FieldError::invalid("/service/owner", detail));
    }
    let mut owner_role = None;
    if let Some(role) = &owner.owner_role {
        let mut found = Vec::new();
        owner_role = validate::roles(tx, BTreeSet::from([role.clone()]), &mut found).await?.pop_first();
        errors.extend(
            found.into_iter().map(|error| FieldError { pointer: "/service/owner_role".to_owned(), ..error }),
        );
    }
    Ok(found.map(|user| ServiceAccount {
        owner_id: Some(user.id),
        owner: Some(user.username),
        owner_role,
        owner_is_assigned: false,
        owner_confirmed_at: None,
    }))
}

impl ServiceOwner {
    /// Whether this is what is stored: a client may send back what it has read, also of a role that was deleted since.
    pub(super) fn is_stored(&self, account: &ServiceAccount) -> bool {
        let fold = |name: &Option<String>| name.as_deref().map(fold_username);
        fold(&self.owner) == fold(&account.owner) && self.owner_role == account.owner_role
    }
}

/// Detail for an audit record.
pub(super) fn owner_detail(account: &ServiceAccount) -> Value {
    json!({ "owner": account.owner, "owner_role": account.owner_role })
}
