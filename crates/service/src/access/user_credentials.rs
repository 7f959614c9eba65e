//! Administrators' view of other users' sessions and API keys: listing and ending them.

use serde_json::json;
use tracewarden_appdb::ApiKey;

use crate::access::api_keys::revoke_key;
use crate::access::sessions::{SessionInfo, end_session};
use crate::access::users::Users;
use crate::core::{Administrator, Result, find_user};

impl Users {
    /// Returns a user's sessions, newest first.
    pub async fn user_sessions(&self, admin: &Administrator<'_>, username: &str) -> Result<Vec<SessionInfo>> {
        let mut tx = self.core.db.begin_read().await?;
        let user = find_user(&mut tx, username).await?;
        let sessions = tx.sessions_of_user(&user.id).await?;
        Ok(sessions.into_iter().map(|session| SessionInfo::new(session, admin)).collect())
    }

    /// Ends one session of a user, or all of them.
    pub async fn end_user_sessions(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: Option<&str>,
    ) -> Result<()> {
        const ACTION: &str = "user.end_sessions";
        let result = async {
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            let detail = match id {
                Some(id) => {
                    end_session(&mut tx, &user.id, id).await?;
                    json!({ "session": id })
                }
                None => json!({ "sessions_ended": tx.delete_sessions_of_user(&user.id, None).await? }),
            };
            self.core.commit_change(tx, admin, ACTION, Some(&user.username), detail).await
        };
        self.core.audit_denial(admin, ACTION, Some(username), result.await).await
    }

    /// Returns a user's keys, newest first.
    pub async fn user_api_keys(&self, _admin: &Administrator<'_>, username: &str) -> Result<Vec<ApiKey>> {
        let mut tx = self.core.db.begin_read().await?;
        let user = find_user(&mut tx, username).await?;
        Ok(tx.api_keys_of_user(&user.id).await?)
    }

    /// Revokes one key of a user, or all of them.
    pub async fn revoke_user_api_keys(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        id: Option<&str>,
    ) -> Result<()> {
        const ACTION: &str = "user.revoke_api_keys";
        let result = async {
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            let detail = match id {
                Some(id) => {
                    revoke_key(&mut tx, &user.id, id).await?;
                    json!({ "key": id })
                }
                None => json!({ "keys_revoked": tx.delete_api_keys_of_user(&user.id).await? }),
            };
            self.core.commit_change(tx, admin, ACTION, Some(&user.username), detail).await
        };
        self.core.audit_denial(admin, ACTION, Some(username), result.await).await
    }
}
