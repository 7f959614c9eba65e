//! Logging in and out.

use std::fmt;

use secrecy::ExposeSecret as _;
use serde_json::json;
use tracewarden_appdb::{NewSession, PasswordHash, Session, User};

use crate::Secret;
use crate::audit::{AuditContext, Event, Outcome, tame};
use crate::error::ServiceError;
use crate::principal::{Identity, Me, Proof, RequestInfo};
use crate::refused_calls::SessionOnly;
use crate::service::Service;
use crate::throttle::{self, Attempt};
use crate::tokens;
use crate::validate;

/// A log-in as it was typed.
#[derive(Clone)]
pub struct Login {
    /// What was typed as the name. May be anything, also a password: it is never logged.
    pub username: String,
    /// What was typed as the password.
    pub password: Secret,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

/// A successful log-in.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    /// The session's token, for the cookie.
    pub token: Secret,
    /// The caller.
    pub me: Me,
}

impl Service {
    /// Opens a session.
    ///
    /// An unknown name, a wrong password and a disabled user are answered alike and cost one hash each.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCredentials`], [`ServiceError::TooManyAttempts`], or a failure of the own database.
    pub async fn login(&self, login: Login, info: RequestInfo) -> Result<LoggedIn, ServiceError> {
        let result = self.sign_in(login, info).await;
        self.metrics().login(&result);
        result
    }

    async fn sign_in(&self, login: Login, info: RequestInfo) -> Result<LoggedIn, ServiceError> {
        let name = login.username.as_str();
        let attempt = Attempt::new(name, info.client_ip);
        // Whatever else was typed, the answer is the same.
        let user = match validate::is_storable(name) {
            true => self.db().begin_read().await?.user_by_name(name).await?,
            false => None,
        };
        let mut context = AuditContext::anonymous(&info);
        // A name that no user has is not recorded: people type passwords there.
        context.actor_id = user.as_ref().map(|user| user.id.clone());
        context.actor_name = user.as_ref().map(|user| user.username.clone());

        if let Err(error) = self.reserve_attempt(&attempt).await {
            if matches!(error, ServiceError::TooManyAttempts { .. }) {
                self.record_failure(&context, "too_many_attempts").await?;
            }
            return Err(error);
        }
        let stored = user.as_ref().map(|user| &user.password_hash);
        let verified = self.passwords().verify(login.password.clone(), stored).await?;
        match user {
            Some(user) if verified && !user.disabled => {
                // The one moment at which the password is known: an old, cheaper hash is replaced.
                let renewed = self.passwords().renew(login.password, &user.password_hash).await?;
                self.open_session(user, renewed, &attempt, context, info).await
            }
            user => {
                let reason = match user {
                    None => "unknown_user",
                    Some(_) if !verified => "wrong_password",
                    Some(_) => "disabled",
                };
                self.record_failure(&context, reason).await?;
                Err(ServiceError::InvalidCredentials)
            }
        }
    }

    async fn record_failure(&self, context: &AuditContext, reason: &'static str) -> Result<(), ServiceError> {
        let detail = json!({ "reason": reason });
        let event = Event { action: "login", outcome: Outcome::Denied, target: None, detail };
        self.record_alone(context, &event).await
    }

    async fn open_session(
        &self,
        verified: User,
        renewed: Option<PasswordHash>,
        attempt: &Attempt,
        context: AuditContext,
        info: RequestInfo,
    ) -> Result<LoggedIn, ServiceError> {
        let now = self.now();
        let token = tokens::session_token(self.entropy())?;
        let id = tokens::id("ses", self.entropy())?;
        let client_ip = info.client_ip.map(|address| address.to_canonical().to_string());
        let user_agent = info.user_agent.as_deref().map(tame);
        let mut tx = self.db().begin_write().await?;
        // Hashing takes a while: whoever was disabled, deleted or given another password meanwhile does not come in.
        let current = tx.user_by_id(&verified.id).await?;
        let Some(mut user) =
            current.filter(|user| !user.disabled && user.password_hash == verified.password_hash)
        else {
            drop(tx);
            self.record_failure(&context, "changed_meanwhile").await?;
            return Err(ServiceError::InvalidCredentials);
        };
        tx.insert_session(&NewSession {
            id: &id,
            token: tokens::digest(token.expose_secret()),
            user_id: &user.id,
            created_at: now,
            client_ip: client_ip.as_deref(),
            user_agent: user_agent.as_deref(),
        })
        .await?;
        if let Some(hash) = &renewed {
            tx.set_user_password(&user.id, hash, user.must_change_password).await?;
        }
        tx.set_user_last_login(&user.id, now).await?;
        throttle::succeeded(&mut tx, attempt, now).await?;
        let detail = json!({ "session": id, "password_hash_renewed": renewed.is_some() });
        let event = Event { action: "login", outcome: Outcome::Success, target: None, detail };
        context.append(&mut tx, now, None, &event).await?;
        tx.commit().await?;

        user.last_login_at = Some(now);
        let session = Session {
            id,
            user_id: user.id.clone(),
            created_at: now,
            last_seen_at: now,
            client_ip,
            user_agent,
            preview: None,
        };
        let identity = Identity { user, proof: Proof::Session(session), info };
        Ok(LoggedIn { token, me: identity.me() })
    }

    /// Ends the caller's session.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] for a key, or a failure of the own database.
    pub async fn logout(&self, identity: &Identity) -> Result<(), ServiceError> {
        let result = self.logout_in(identity).await;
        self.note_refusal(identity, SessionOnly::Logout.action(), None, result).await
    }

    async fn logout_in(&self, identity: &Identity) -> Result<(), ServiceError> {
        let session = identity.require_session()?;
        let mut tx = self.begin_change(identity).await?;
        tx.delete_session(identity.user_id(), &session.id).await?;
        self.record(&mut tx, identity, SessionOnly::Logout.action(), None, json!({})).await?;
        Ok(tx.commit().await?)
    }

    /// The caller as they see themselves.
    pub fn me(&self, identity: &Identity) -> Me {
        identity.me()
    }
}
