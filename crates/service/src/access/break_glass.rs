//! Links that sign in a user once, for the case that no other way to sign in works. Only an operator on the service's machine can
//! create one.

use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::json;
use tracewarden_appdb::User;
use utoipa::ToSchema;

use crate::Secret;
use crate::access::sessions::{SignIn, begin_session};
use crate::access::sign_in_throttle::{SignInAttempt, TOO_MANY_SIGN_INS, begin_sign_in_write};
use crate::access::{Account, SignInAnswer};
use crate::core::{AuditContext, RequestInfo, Result, ServiceError, run_to_completion, tokens};

/// Time within which a link is used.
const LIFETIME_NANOS: i64 = 600 * 1_000_000_000;

/// A link's token.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakGlassRequest {
    /// The part of the link after `#link=`.
    #[schema(value_type = String, format = Password)]
    pub token: Secret,
}

impl Account {
    /// Creates a link for a user with a password, and returns its token. It works once, within ten minutes, whatever the setting
    /// `password_login` says; an earlier link of the user no longer works.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`]; [`ServiceError::Conflict`] for a user who could not use the session.
    pub async fn create_break_glass_link(&self, username: &str) -> Result<Secret> {
        let mut tx = self.core.db.begin_write().await?;
        let user = tx.user_by_name(username).await?.ok_or(ServiceError::NotFound { what: "user" })?;
        if let Some(reason) = unusable(&user) {
            return Err(ServiceError::conflict(format!("`{username}` {reason}; name another user")));
        }
        let token = tokens::session_token(self.core.entropy.as_ref())?;
        let now = self.core.now();
        let expires_at = now.saturating_add(LIFETIME_NANOS);
        let digest = tokens::digest(token.expose_secret());
        tx.identities_mut().put_break_glass_link(digest, &user.id, now, expires_at).await?;
        let detail = json!({ "expires_at": expires_at });
        self.core.commit_own_change(tx, "break_glass.create", Some(username), detail).await?;
        Ok(token)
    }

    /// Signs in with a link, which does not work again.
    ///
    /// # Errors
    /// [`ServiceError::SignInExpired`], [`ServiceError::Overloaded`], or a failure of the application database.
    pub async fn sign_in_with_link(
        &self,
        request: BreakGlassRequest,
        info: RequestInfo,
    ) -> Result<SignInAnswer> {
        let account = self.clone();
        let address = SignInAttempt::new("", info.client_ip, &self.core.username_key);
        // In a task of its own: a link that is used up has a session and an audit record.
        run_to_completion(async move {
            let result = match account.core.permits.sign_ins.try_acquire(address.address()) {
                Some(_permit) => account.redeem_link(&request.token, &info).await,
                None => Err(TOO_MANY_SIGN_INS),
            };
            account.core.metrics.sign_in(&result);
            result
        })
        .await
    }

    async fn redeem_link(&self, token: &Secret, info: &RequestInfo) -> Result<SignInAnswer> {
        let digest = tokens::digest(token.expose_secret());
        // Anyone can send any token: one that does not exist must not take the turn of a writer.
        let mut tx = self.core.db.begin_read().await?;
        if tx.identities().break_glass_user(digest, self.core.now()).await?.is_none() {
            return Err(ServiceError::SignInExpired);
        }
        drop(tx);
        let mut tx = begin_sign_in_write(&self.core).await?;
        let user_id = tx.identities().break_glass_user(digest, self.core.now()).await?;
        let user = tx.user_by_id(&user_id.ok_or(ServiceError::SignInExpired)?).await?;
        let mut user = user.filter(|user| unusable(user).is_none()).ok_or(ServiceError::SignInExpired)?;
        tx.identities_mut().delete_break_glass_link(digest).await?;
        let mut context = AuditContext::anonymous(info);
        context.actor_id = Some(user.id.clone());
        context.actor_name = Some(user.username.clone());
        let detail = json!({ "break_glass": true });
        let sign_in = SignIn { provider: None, detail, context: &context, info };
        let (session, token) = begin_session(&self.core, &mut tx, &mut user, sign_in).await?;
        tx.commit().await?;
        Ok(SignInAnswer::new(token, session, user, info))
    }
}

/// Why a session is of no use to a user.
fn unusable(user: &User) -> Option<&'static str> {
    if user.identity.is_some() {
        Some("signs in with an identity provider, which alone confirms the user's roles")
    } else if user.service.is_some() {
        Some("is a service account, which calls with API keys only")
    } else if user.disabled {
        Some("is disabled")
    } else if user.must_change_password {
        Some("has a temporary password, and can do nothing before changing it")
    } else {
        None
    }
}
