//! The caller's API keys.

use secrecy::ExposeSecret as _;
use serde_json::json;
use tracewarden_appdb::ApiKey;
use tracewarden_model::Timestamp;

use crate::Secret;
use crate::error::{FieldError, ServiceError};
use crate::principal::Principal;
use crate::refused_calls::SessionOnly;
use crate::service::Service;
use crate::tokens;
use crate::validate;

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Name, 1 to 100 characters.
    pub name: String,
    /// From when it is dead; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A key as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyInfo {
    /// Opaque id.
    pub id: String,
    /// Name.
    pub name: String,
    /// First characters of the token.
    pub token_hint: String,
    /// Creation.
    pub created_at: Timestamp,
    /// From when it is dead.
    pub expires_at: Option<Timestamp>,
    /// Last use, to about a minute.
    pub last_used_at: Option<Timestamp>,
}

impl From<ApiKey> for ApiKeyInfo {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            token_hint: key.hint,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// A new key with its token, which is never shown again.
#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    /// The key.
    pub key: ApiKeyInfo,
    /// Its token.
    pub token: Secret,
}

const KEYS_PER_USER_MAX: usize = 100;

impl Service {
    /// Creates a key for the caller.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] for a key, [`ServiceError::Refused`] for a bad name or an expiry that is past,
    /// [`ServiceError::Conflict`] with too many keys.
    pub async fn create_api_key(
        &self,
        principal: &Principal,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, ServiceError> {
        let result = self.create_api_key_in(principal, new).await;
        self.note_refusal(principal, SessionOnly::CreateApiKey.action(), None, result).await
    }

    async fn create_api_key_in(
        &self,
        principal: &Principal,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, ServiceError> {
        principal.require_session()?;
        let now = self.now();
        let mut errors = Vec::new();
        validate::title(&new.name, "/name", 100, &mut errors);
        if new.expires_at.is_some_and(|expiry| expiry <= now) {
            errors.push(FieldError::new("/expires_at", "invalid_value", "the time is past"));
        }
        validate::no_errors(errors)?;
        let token = tokens::api_key(self.entropy())?;
        // Times are stored in microseconds; what the answer says must be what the list says later.
        let stored = |at: Timestamp| Timestamp::from_micros(at.as_micros());
        let key = ApiKeyInfo {
            id: tokens::id("key", self.entropy())?,
            name: new.name,
            token_hint: tokens::hint(token.expose_secret()),
            created_at: stored(now),
            expires_at: new.expires_at.map(stored),
            last_used_at: None,
        };
        let mut tx = self.begin_change(principal).await?;
        if tx.api_keys_of_user(principal.user_id()).await?.len() >= KEYS_PER_USER_MAX {
            let detail = format!("you have {KEYS_PER_USER_MAX} keys already; revoke one first");
            return Err(ServiceError::Conflict { detail, errors: Vec::new() });
        }
        tx.insert_api_key(&tracewarden_appdb::NewApiKey {
            id: &key.id,
            token: tokens::digest(token.expose_secret()),
            hint: &key.token_hint,
            name: &key.name,
            user_id: principal.user_id(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            policy: None,
            tools: None,
        })
        .await?;
        let detail =
            json!({ "name": key.name, "expires_at": key.expires_at.map(|expiry| expiry.to_string()) });
        self.record(&mut tx, principal, SessionOnly::CreateApiKey.action(), Some(&key.id), detail).await?;
        tx.commit().await?;
        Ok(CreatedApiKey { key, token })
    }

    /// The caller's keys, newest first, expired ones included.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn my_api_keys(&self, principal: &Principal) -> Result<Vec<ApiKeyInfo>, ServiceError> {
        let keys = self.db().begin_read().await?.api_keys_of_user(principal.user_id()).await?;
        Ok(keys.into_iter().map(ApiKeyInfo::from).collect())
    }

    /// Revokes one of the caller's keys; a key may revoke itself and its like.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the own database.
    pub async fn revoke_my_api_key(&self, principal: &Principal, id: &str) -> Result<(), ServiceError> {
        let result = self.revoke_my_api_key_in(principal, id).await;
        self.note_refusal(principal, "api_key.revoke", Some(id), result).await
    }

    async fn revoke_my_api_key_in(&self, principal: &Principal, id: &str) -> Result<(), ServiceError> {
        let mut tx = self.begin_change(principal).await?;
        if !tx.delete_api_key(principal.user_id(), id).await? {
            return Err(ServiceError::NotFound { what: "API key" });
        }
        self.record(&mut tx, principal, "api_key.revoke", Some(id), json!({})).await?;
        Ok(tx.commit().await?)
    }
}
