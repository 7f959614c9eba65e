//! Service accounts: users who are programs. They have no password and no sessions; administrators make their keys.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{ADMIN_ROLE, ApiKey, ServiceAccount, User, WriteTx};
use utoipa::ToSchema;

use crate::access::api_keys::{CreatedApiKey, KeyOwner, NewApiKey, insert_key, prepare_key};
use crate::access::users::Users;
use crate::core::{
    Administrator, FieldError, Result, ServiceError, SessionOnly, find_user, tokens, validate, with_members,
};

/// Who answers for a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOwner {
    /// Name of a user who is not a service account.
    pub owner: String,
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

/// An API key with the name of its user.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ApiKeyOfUser {
    /// Name of the user.
    pub username: String,
    /// The key.
    #[serde(flatten)]
    pub key: ApiKey,
}

/// Maximum number of keys with the same first characters that are returned, more than chance makes.
const MAX_KEYS_FOUND: u32 = 100;

/// Checks who shall answer for a service account.
pub(super) async fn resolve_owner(
    tx: &mut WriteTx,
    owner: &ServiceOwner,
    errors: &mut Vec<FieldError>,
) -> Result<Option<ServiceAccount>> {
    let found = match validate::is_storable(&owner.owner) {
        true => tx.user_by_name(&owner.owner).await?,
        false => None,
    };
    let found = found.filter(|user| user.service.is_none());
    if found.is_none() {
        let detail = format!("no user `{}` who can own a service account", owner.owner);
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

/// Detail for an audit record.
pub(super) fn owner_detail(account: &ServiceAccount) -> Value {
    json!({ "owner": account.owner, "owner_role": account.owner_role })
}

fn not_a_service_account() -> ServiceError {
    ServiceError::conflict("this user is a person, who makes their own keys")
}

impl Users {
    /// Creates a key for a service account.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Conflict`] for a person or if the account has too many keys,
    /// [`ServiceError::SessionRequired`] if the caller uses an API key, [`ServiceError::Refused`] without an expiry and as for
    /// one's own keys.
    pub async fn create_service_key(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        new: NewApiKey,
    ) -> Result<CreatedApiKey> {
        const ACTION: &str = SessionOnly::CreateServiceKey.action();
        let result = async {
            admin.require_session()?;
            let user = find_user(&mut self.core.db.begin_read().await?, username).await?;
            if user.service.is_none() {
                return Err(not_a_service_account());
            }
            let mut errors = Vec::new();
            if new.expires_at.is_none() {
                let detail = "a key of a service account expires: name a time";
                errors.push(FieldError::invalid("/expires_at", detail));
            }
            let owner = KeyOwner { user: &user, knows_policy_fields: user.roles.contains(ADMIN_ROLE) };
            let created = prepare_key(&self.core, admin, owner, new, errors).await?;
            let mut tx = self.core.begin_change(admin).await?;
            let current: User = find_user(&mut tx, username).await?;
            if current.id != user.id {
                return Err(ServiceError::NotFound { what: "user" });
            }
            let detail = insert_key(&mut tx, &created).await?;
            let detail = with_members(detail, [("key", Some(json!(created.key.id)))]);
            self.core.commit_change(tx, admin, ACTION, Some(&current.username), detail).await?;
            Ok(created)
        };
        self.core.audit_denial(admin, ACTION, Some(username), result.await).await
    }

    /// Returns the keys with these first characters: of a key that was found in public, for example, and need not be known in full.
    ///
    /// # Errors
    /// [`ServiceError::InvalidRequest`] for a text of another length, so that no whole key is sent.
    pub async fn find_api_keys(&self, _admin: &Administrator<'_>, prefix: &str) -> Result<Vec<ApiKeyOfUser>> {
        if !tokens::is_hint(prefix) {
            let detail = "the prefix must be the first 8 characters of a key, such as `twk_4fG8`";
            let error = FieldError::new("/prefix", "invalid_request", detail);
            return Err(ServiceError::InvalidRequest(vec![error]));
        }
        let found = self.core.db.begin_read().await?.api_keys_by_hint(prefix, MAX_KEYS_FOUND).await?;
        Ok(found.into_iter().map(|(key, username)| ApiKeyOfUser { username, key }).collect())
    }
}
