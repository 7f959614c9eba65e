//! From a token to the caller, afresh in each request.

use secrecy::ExposeSecret as _;
use tracewarden_appdb::{ApiKey, ReadTx, Session, User};
use tracewarden_model::Timestamp;

use crate::error::ServiceError;
use crate::preview;
use crate::principal::{Credential, Identity, Principal, Proof, RequestInfo};
use crate::service::Service;
use crate::tokens;

/// How exactly the last use of a session or key is known, and so how often it is written at most.
const LAST_USE_NANOS: i64 = 60 * 1_000_000_000;

impl Service {
    /// Who asks, if they may use the service.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::PasswordChangeRequired`], or a failure of the own database.
    pub async fn authenticate(
        &self,
        credential: &Credential,
        info: RequestInfo,
    ) -> Result<Principal, ServiceError> {
        self.identify(credential, info).await?.into_principal()
    }

    /// Who asks, even when they must change their password first.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`] or a failure of the own database.
    pub async fn identify(
        &self,
        credential: &Credential,
        info: RequestInfo,
    ) -> Result<Identity, ServiceError> {
        let result = self.look_up(credential, info).await;
        if matches!(result, Err(ServiceError::Unauthenticated { .. })) {
            self.metrics().unauthenticated(credential);
        }
        result
    }

    async fn look_up(&self, credential: &Credential, info: RequestInfo) -> Result<Identity, ServiceError> {
        let now = self.now();
        let mut tx = self.db().begin_read().await?;
        // Found by its digest: how long the look-up takes depends on bits that nobody can choose.
        let (proof, user_id, last_use) = match credential {
            Credential::Session(token) => {
                let stored = tx.session_by_token(tokens::digest(token.expose_secret())).await?;
                let session = preview::followed(&mut tx, self.live_session(stored, now)?).await?;
                let (user_id, last_use) = (session.user_id.clone(), Some(session.last_seen_at));
                (Proof::Session(session), user_id, last_use)
            }
            Credential::ApiKey(token) => {
                let token = token.expose_secret();
                if !tokens::is_api_key(token) {
                    return Err(ServiceError::Unauthenticated { inside: "not the form of a key" });
                }
                let stored = tx.api_key_by_token(tokens::digest(token)).await?;
                let key = live_key(stored, now)?;
                let (user_id, last_use) = (key.user_id.clone(), key.last_used_at);
                (Proof::ApiKey(key), user_id, last_use)
            }
        };
        let user = enabled_user(&mut tx, &user_id).await?;
        drop(tx);
        let due = |last_use: Option<Timestamp>| self.is_use_due(last_use, now);
        if due(last_use) {
            // A use that cannot be noted is no reason to refuse it; what needs the database to be writable fails there.
            if let Err(error) = self.note_use(&proof, due, now).await {
                tracing::warn!(code = error.code(), inside = error.inside(), "last use was not noted");
            }
        }
        Ok(Identity { user, proof, info })
    }

    /// Whether a use has to be noted, given the last one that was. A session that ends when it is not used for less
    /// than four minutes is noted more often, or it would end while it is used.
    fn is_use_due(&self, last_use: Option<Timestamp>, now: Timestamp) -> bool {
        let idle = self.settings().session_idle_nanos.unwrap_or(i64::MAX);
        let interval = LAST_USE_NANOS.min(idle / 4);
        last_use.is_none_or(|at| at.saturating_add(interval) <= now)
    }

    /// The stored session, unless it is gone or over its time.
    pub(crate) fn live_session(
        &self,
        stored: Option<Session>,
        now: Timestamp,
    ) -> Result<Session, ServiceError> {
        let session = stored.ok_or(ServiceError::Unauthenticated { inside: "no such session" })?;
        let settings = self.settings();
        let ended = |since: Timestamp, limit: Option<i64>| {
            limit.is_some_and(|nanos| since.saturating_add(nanos) <= now)
        };
        if ended(session.created_at, settings.session_absolute_nanos)
            || ended(session.last_seen_at, settings.session_idle_nanos)
        {
            return Err(ServiceError::Unauthenticated { inside: "the session is over its time" });
        }
        Ok(session)
    }

    /// Writes down that a credential was used, unless another request just did: writers wait for each other, and of many
    /// requests at once one is enough.
    async fn note_use(
        &self,
        proof: &Proof,
        due: impl Fn(Option<Timestamp>) -> bool,
        now: Timestamp,
    ) -> Result<(), ServiceError> {
        let id = match proof {
            Proof::Session(session) => &session.id,
            Proof::ApiKey(key) => &key.id,
        };
        let Some(_turn) = self.noting().admit(id) else { return Ok(()) };
        let mut tx = self.db().begin_write().await?;
        // Read again, since another replica may have been first.
        match proof {
            Proof::Session(_) => match tx.session_by_id(id).await? {
                Some(session) if due(Some(session.last_seen_at)) => tx.touch_session(id, now).await?,
                _ => return Ok(()),
            },
            Proof::ApiKey(_) => match tx.api_key_by_id(id).await? {
                Some(key) if due(key.last_used_at) => tx.touch_api_key(id, now).await?,
                _ => return Ok(()),
            },
        }
        Ok(tx.commit().await?)
    }
}

/// The stored key, unless it is gone or has expired.
pub(crate) fn live_key(stored: Option<ApiKey>, now: Timestamp) -> Result<ApiKey, ServiceError> {
    let key = stored.ok_or(ServiceError::Unauthenticated { inside: "no such key" })?;
    if key.expires_at.is_some_and(|expiry| expiry <= now) {
        return Err(ServiceError::Unauthenticated { inside: "the key has expired" });
    }
    Ok(key)
}

/// The user behind a credential or a request under way; gone and disabled are the same.
pub(crate) async fn enabled_user(tx: &mut ReadTx, id: &str) -> Result<User, ServiceError> {
    match tx.user_by_id(id).await? {
        Some(user) if !user.disabled => Ok(user),
        Some(_) => Err(ServiceError::Unauthenticated { inside: "the user is disabled" }),
        None => Err(ServiceError::Unauthenticated { inside: "the user is gone" }),
    }
}
