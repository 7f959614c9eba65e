//! Administrators' view of other users' sessions and API keys: listing and ending them.

use serde_json::json;

use crate::access::api_keys::ApiKeyInfo;
use crate::access::sessions::SessionInfo;
use crate::access::users::Users;
use crate::core::{Administrator, ServiceError, find_user, validate};

impl Users {
    /// Returns a user's sessions, newest first.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn user_sessions(
        &self,
        admin: &Administrator<'_>,
        username: &str,
    ) -> Result<Vec<SessionInfo>, ServiceError> {
        let mut tx = self.core.db.begin_read().await?;
        let user = find_user(&mut tx, username).await?;
        let sessions = tx.sessions_of_user(&user.id).await?;
        Ok(sessions.into_iter().map(|session| SessionInfo::new(session, admin)).collect())
    }

    /// Ends one session of a user.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn end_user_session(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: &str,
    ) -> Result<(), ServiceError> {
        let result = self.end_user_session_inner(admin, username, id).await;
        self.core.audit_denial(admin, "user.end_sessions", Some(username), result).await
    }

    async fn end_user_session_inner(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: &str,
    ) -> Result<(), ServiceError> {
        let mut tx = self.core.begin_change(admin).await?;
        let user = find_user(&mut tx, username).await?;
        if !tx.delete_session(&user.id, validate::lookup_name(id, "session")?).await? {
            return Err(ServiceError::NotFound { what: "session" });
        }
        let detail = json!({ "session": id });
        self.core.record(&mut tx, admin, "user.end_sessions", Some(&user.username), detail).await?;
        Ok(tx.commit().await?)
    }

    /// Ends all sessions of a user.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn end_user_sessions(
        &self,
        admin: &Administrator<'_>,
        username: &str,
    ) -> Result<(), ServiceError> {
        let result = self.end_user_sessions_inner(admin, username).await;
        self.core.audit_denial(admin, "user.end_sessions", Some(username), result).await
    }

    async fn end_user_sessions_inner(
        &self,
        admin: &Administrator<'_>,
        username: &str,
    ) -> Result<(), ServiceError> {
        let mut tx = self.core.begin_change(admin).await?;
        let user = find_user(&mut tx, username).await?;
        let ended = tx.delete_sessions_of_user(&user.id, None).await?;
        let detail = json!({ "sessions_ended": ended });
        self.core.record(&mut tx, admin, "user.end_sessions", Some(&user.username), detail).await?;
        Ok(tx.commit().await?)
    }

    /// Returns a user's keys, newest first.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn user_api_keys(
        &self,
        _admin: &Administrator<'_>,
        username: &str,
    ) -> Result<Vec<ApiKeyInfo>, ServiceError> {
        let mut tx = self.core.db.begin_read().await?;
        let user = find_user(&mut tx, username).await?;
        Ok(tx.api_keys_of_user(&user.id).await?.into_iter().map(ApiKeyInfo::from).collect())
    }

    /// Revokes one key of a user.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn revoke_user_api_key(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: &str,
    ) -> Result<(), ServiceError> {
        let result = self.revoke_user_api_key_inner(admin, username, id).await;
        self.core.audit_denial(admin, "user.revoke_api_keys", Some(username), result).await
    }

    async fn revoke_user_api_key_inner(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: &str,
    ) -> Result<(), ServiceError> {
        let mut tx = self.core.begin_change(admin).await?;
        let user = find_user(&mut tx, username).await?;
        if !tx.delete_api_key(&user.id, validate::lookup_name(id, "API key")?).await? {
            return Err(ServiceError::NotFound { what: "API key" });
        }
        let detail = json!({ "key": id });
        self.core.record(&mut tx, admin, "user.revoke_api_keys", Some(&user.username), detail).await?;
        Ok(tx.commit().await?)
    }

    /// Revokes all keys of a user.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn revoke_user_api_keys(
        &self,
        admin: &Administrator<'_>,
        username: &str,
    ) -> Result<(), ServiceError> {
        let result = self.revoke_user_api_keys_inner(admin, username).await;
        self.core.audit_denial(admin, "user.revoke_api_keys", Some(username), result).await
    }

    async fn revoke_user_api_keys_inner(
        &self,
        admin: &Administrator<'_>,
        username: &str,
    ) -> Result<(), ServiceError> {
        let mut tx = self.core.begin_change(admin).await?;
        let user = find_user(&mut tx, username).await?;
        let revoked = tx.delete_api_keys_of_user(&user.id).await?;
        let detail = json!({ "keys_revoked": revoked });
        self.core.record(&mut tx, admin, "user.revoke_api_keys", Some(&user.username), detail).await?;
        Ok(tx.commit().await?)
    }
}
