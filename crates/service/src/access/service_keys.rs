//! API keys that administrators make for service accounts, and find among those of all users.

use serde::Serialize;
use serde_json::json;
use tracewarden_appdb::{ADMIN_ROLE, ApiKey, User};
use utoipa::ToSchema;

use crate::access::api_keys::{CreatedApiKey, KeyOwner, NewApiKey, insert_key, prepare_key};
use crate::access::users::Users;
use crate::core::{
    Administrator, FieldError, Result, ServiceError, SessionOnly, find_user, tokens, with_members,
};

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
