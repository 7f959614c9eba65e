//! Administrators' view of other users' sessions and API keys: listing and ending them.

use serde_json::{Value, json};
use tracewarden_appdb::WriteTx;

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
        self.change_credentials(admin, username, CredentialChange::EndSession(id)).await
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
        self.change_credentials(admin, username, CredentialChange::EndSessions).await
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
        self.change_credentials(admin, username, CredentialChange::RevokeKey(id)).await
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
        self.change_credentials(admin, username, CredentialChange::RevokeKeys).await
    }

    async fn change_credentials(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        change: CredentialChange<'_>,
    ) -> Result<(), ServiceError> {
        let result = self.change_credentials_inner(admin, username, &change).await;
        self.core.audit_denial(admin, change.action(), Some(username), result).await
    }

    async fn change_credentials_inner(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        change: &CredentialChange<'_>,
    ) -> Result<(), ServiceError> {
        let mut tx = self.core.begin_change(admin).await?;
        let user = find_user(&mut tx, username).await?;
        let detail = change.apply(&mut tx, &user.id).await?;
        self.core.record(&mut tx, admin, change.action(), Some(&user.username), detail).await?;
        Ok(tx.commit().await?)
    }
}

/// What an administrator does to the sessions or keys of a user; one of them by its id, or all.
enum CredentialChange<'a> {
    EndSession(&'a str),
    EndSessions,
    RevokeKey(&'a str),
    RevokeKeys,
}

impl CredentialChange<'_> {
    fn action(&self) -> &'static str {
        match self {
            Self::EndSession(_) | Self::EndSessions => "user.end_sessions",
            Self::RevokeKey(_) | Self::RevokeKeys => "user.revoke_api_keys",
        }
    }

    /// Makes the change; returns the detail of its audit record.
    async fn apply(&self, tx: &mut WriteTx, user_id: &str) -> Result<Value, ServiceError> {
        let require = |found: bool, what| if found { Ok(()) } else { Err(ServiceError::NotFound { what }) };
        Ok(match self {
            Self::EndSession(id) => {
                let what = "session";
                require(tx.delete_session(user_id, validate::lookup_name(id, what)?).await?, what)?;
                json!({ "session": id })
            }
            Self::EndSessions => {
                json!({ "sessions_ended": tx.delete_sessions_of_user(user_id, None).await? })
            }
            Self::RevokeKey(id) => {
                let what = "API key";
                require(tx.delete_api_key(user_id, validate::lookup_name(id, what)?).await?, what)?;
                json!({ "key": id })
            }
            Self::RevokeKeys => json!({ "keys_revoked": tx.delete_api_keys_of_user(user_id).await? }),
        })
    }
}
