//! A user's sessions: listing and ending them.

use serde_json::json;
use tracewarden_appdb::{Session, WriteTx};
use tracewarden_model::Timestamp;

use crate::access::Account;
use crate::core::{Identity, Principal, ServiceError, VerifiedCredential, validate};

/// Session, as its user or an administrator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Opaque id, not the token.
    pub id: String,
    /// Time of sign-in.
    pub created_at: Timestamp,
    /// Time of the last request, to about a minute.
    pub last_seen_at: Timestamp,
    /// Client address at sign-in.
    pub client_ip: Option<String>,
    /// User agent at sign-in.
    pub user_agent: Option<String>,
    /// Whether this is the caller's own session.
    pub current: bool,
}

impl SessionInfo {
    pub(crate) fn new(session: Session, caller: &Identity) -> Self {
        let current =
            matches!(&caller.verified_credential, VerifiedCredential::Session(own) if own.id == session.id);
        Self {
            id: session.id,
            created_at: session.created_at,
            last_seen_at: session.last_seen_at,
            client_ip: session.client_ip,
            user_agent: session.user_agent,
            current,
        }
    }
}

impl Account {
    /// Returns the caller's sessions, newest first.
    pub async fn my_sessions(&self, principal: &Principal) -> Result<Vec<SessionInfo>, ServiceError> {
        let sessions = self.core.db.begin_read().await?.sessions_of_user(principal.user_id()).await?;
        Ok(sessions.into_iter().map(|session| SessionInfo::new(session, principal)).collect())
    }

    /// Ends one of the caller's sessions.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the application database.
    pub async fn end_my_session(&self, principal: &Principal, id: &str) -> Result<(), ServiceError> {
        let result = async {
            let mut tx = self.core.begin_change(principal).await?;
            end_session(&mut tx, principal.user_id(), id).await?;
            self.core.commit_change(tx, principal, "session.end", Some(id), json!({})).await
        };
        self.core.audit_denial(principal, "session.end", Some(id), result.await).await
    }
}

pub(crate) async fn end_session(tx: &mut WriteTx, user_id: &str, id: &str) -> Result<(), ServiceError> {
    let what = "session";
    let found = tx.delete_session(user_id, validate::lookup_name(id, what)?).await?;
    if found { Ok(()) } else { Err(ServiceError::NotFound { what }) }
}
