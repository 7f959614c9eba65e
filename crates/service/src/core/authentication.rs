//! Authentication of the caller by a token, repeated in each request.

use secrecy::ExposeSecret as _;
use tracewarden_appdb::{ApiKey, ServiceAccount, Session, User, UserIdentity};
use tracewarden_model::Timestamp;

use crate::core::error::{CredentialFault, Result, ServiceError};
use crate::core::principal::{AuthKind, Credential, Identity, RequestInfo, VerifiedCredential};
use crate::core::settings::Settings;
use crate::core::{Core, sanitize, tokens};

/// Resolution of the last use of a session or key, and thus the minimum interval between writes of it.
pub(crate) const LAST_USE_NANOS: i64 = 60 * 1_000_000_000;

/// When the claims of a person were confirmed whose provider has ended their last session.
pub(crate) const NEVER_CONFIRMED: Timestamp = Timestamp::from_micros(0);

impl Settings {
    /// Whether a user's access is suspended: the provider confirmed a person's claims too long ago, or the owner of a service
    /// account does not have the role that the account requires.
    pub(crate) fn is_unconfirmed(&self, user: &User, at: Timestamp) -> bool {
        user.identity.as_ref().is_some_and(|identity| self.has_lapsed(identity, at))
            || user.service.as_ref().is_some_and(|service| !self.owner_has_role(service, at))
    }

    /// Whether the owner of a service account has the role that the account requires, if it requires one.
    pub(crate) fn owner_has_role(&self, service: &ServiceAccount, at: Timestamp) -> bool {
        let is_mapped =
            || service.owner_confirmed_at.is_some_and(|confirmed_at| self.is_recent(confirmed_at, at));
        service.owner_role.is_none() || service.owner_is_assigned || is_mapped()
    }

    /// Whether the provider confirmed a person's claims too long ago.
    pub(crate) fn has_lapsed(&self, identity: &UserIdentity, at: Timestamp) -> bool {
        !self.is_recent(identity.confirmed_at, at)
    }

    /// Whether what was confirmed at a time still holds.
    fn is_recent(&self, confirmed_at: Timestamp, at: Timestamp) -> bool {
        confirmed_at > NEVER_CONFIRMED && confirmed_at.saturating_add(self.identity_max_age_nanos) > at
    }
}

impl Core {
    /// Returns the caller, even if they must change their password first.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`] or a failure of the application database.
    pub async fn identify(&self, credential: &Credential, info: RequestInfo) -> Result<Identity> {
        let result = self.look_up(credential, info).await;
        if matches!(result, Err(ServiceError::Unauthenticated { .. })) {
            self.metrics.unauthenticated(credential);
        }
        result
    }

    async fn look_up(&self, credential: &Credential, info: RequestInfo) -> Result<Identity> {
        let now = self.now();
        // The look-up is by digest: its duration depends on bits that an attacker cannot choose.
        let (verified_credential, user, last_use) = match credential {
            Credential::Session(token) => {
                let stored = self.db.session_by_token(tokens::digest(token.expose_secret())).await?;
                let (session, user) = stored.unzip();
                let session = self.live_session(session, now)?;
                let last_use = Some(session.last_seen_at);
                (VerifiedCredential::Session(session), user, last_use)
            }
            Credential::ApiKey(token) => {
                let token = token.expose_secret();
                if !tokens::is_api_key(token) {
                    return Err(CredentialFault::KeyFormat.into());
                }
                let (key, user) = self.db.api_key_by_token(tokens::digest(token)).await?.unzip();
                let key = live_key(key, now)?;
                let last_use = key.last_used_at;
                (VerifiedCredential::ApiKey(key), user, last_use)
            }
            // See `Identities::identify`, which creates the user if need be.
            Credential::AccessToken(_) => return Err(CredentialFault::Token.into()),
        };
        let user = self.current_user(user, &verified_credential, now)?;
        let mut identity = Identity { user, verified_credential, info };
        if identity.previews_user() {
            // The previewed user's access is read in one snapshot with the caller's.
            let mut tx = self.db.begin_read().await?;
            identity = self.reread(&mut tx, &identity).await?;
        }
        let due = |last_use: Option<Timestamp>| self.is_use_due(last_use, now);
        if due(last_use) {
            // A failed write of the last use does not fail the request; requests that need a writable database fail later.
            if let Err(error) = self.record_last_use(&identity, due, now).await {
                tracing::warn!(
                    code = error.code(),
                    log_cause = error.log_cause(),
                    "could not record the last use"
                );
            }
        }
        Ok(identity)
    }

    /// Whether the last use has to be written, given the last one that was written. A session with an idle time-out below
    /// four minutes is updated more often; otherwise it would end while in use.
    fn is_use_due(&self, last_use: Option<Timestamp>, now: Timestamp) -> bool {
        let idle = self.settings.session_idle_nanos.unwrap_or(i64::MAX);
        let interval = LAST_USE_NANOS.min(idle / 4);
        last_use.is_none_or(|at| at.saturating_add(interval) <= now)
    }

    /// Returns the stored session, unless it is absent or has expired.
    pub(crate) fn live_session(&self, stored: Option<Session>, now: Timestamp) -> Result<Session> {
        let session = stored.ok_or(CredentialFault::NoSession)?;
        let settings = &self.settings;
        let ended = |since: Timestamp, limit: Option<i64>| {
            limit.is_some_and(|nanos| since.saturating_add(nanos) <= now)
        };
        if ended(session.created_at, settings.session_absolute_nanos)
            || ended(session.last_seen_at, settings.session_idle_nanos)
        {
            return Err(CredentialFault::SessionExpired.into());
        }
        Ok(session)
    }

    /// Whether neither the credential nor the user's identity, as stored when they were read, has expired by `at`.
    pub(crate) fn is_live(&self, identity: &Identity, at: Timestamp) -> bool {
        let is_live = match &identity.verified_credential {
            VerifiedCredential::Session(session) => self.live_session(Some(session.clone()), at).is_ok(),
            VerifiedCredential::ApiKey(key) => live_key(Some(key.clone()), at).is_ok(),
            // The token's own claims count, not those that were confirmed at the last sign-in.
            VerifiedCredential::AccessToken(token) => {
                return token.is_live(self.settings.identity_max_age_nanos, at);
            }
        };
        is_live && !self.settings.is_unconfirmed(&identity.user, at)
    }

    /// Returns the user of a credential as of now. If the identity has lapsed, sessions that began with the provider and API keys
    /// are rejected, and other sessions have only what administrators assigned.
    pub(crate) fn current_user(
        &self,
        user: Option<User>,
        credential: &VerifiedCredential,
        now: Timestamp,
    ) -> Result<User> {
        let mut user = enabled(user)?;
        if user.service.as_ref().is_some_and(|service| !self.settings.owner_has_role(service, now)) {
            return Err(CredentialFault::OwnerRole.into());
        }
        if let VerifiedCredential::AccessToken(token) = credential {
            // The user may have become another person's since the request began.
            let person = &token.token.person;
            let is_same = |identity: &UserIdentity| {
                (&identity.issuer, &identity.subject) == (&person.issuer, &person.subject)
            };
            if !user.identity.as_deref().is_some_and(is_same) {
                return Err(CredentialFault::TokenRevoked.into());
            }
            return Ok(token.apply_to(user));
        }
        if let Some(identity) = user.identity.take_if(|identity| self.settings.has_lapsed(identity, now)) {
            match credential {
                VerifiedCredential::Session(session) if session.provider.is_none() => {
                    user.roles = identity.assigned_roles;
                    user.attributes = identity.assigned_attributes;
                }
                _ => return Err(CredentialFault::IdentityLapsed.into()),
            }
        }
        Ok(user)
    }

    /// Writes the time of a credential's last use, unless another request is doing so: writers wait for each other, and one
    /// write for many concurrent requests is enough.
    async fn record_last_use(
        &self,
        identity: &Identity,
        due: impl Fn(Option<Timestamp>) -> bool,
        now: Timestamp,
    ) -> Result<()> {
        let id = identity.credential_id();
        let Some(_permit) = self.permits.last_use_writes.try_acquire(id) else { return Ok(()) };
        let mut tx = self.db.begin_append().await?;
        // Read again, since another replica may have written it.
        match identity.auth() {
            AuthKind::Session => match tx.read().session_by_id(id).await? {
                Some(session) if due(Some(session.last_seen_at)) => tx.touch_session(id, now).await?,
                _ => return Ok(()),
            },
            AuthKind::ApiKey => match tx.read().api_key_by_id(id).await? {
                Some(key) if due(key.last_used_at) => {
                    let client_ip = identity.info.client_ip.map(|address| address.to_canonical().to_string());
                    let user_agent = identity.info.user_agent.as_deref().map(sanitize);
                    tx.touch_api_key(id, now, client_ip.as_deref(), user_agent.as_deref()).await?;
                }
                _ => return Ok(()),
            },
            AuthKind::AccessToken => return Ok(()),
        }
        Ok(tx.commit().await?)
    }
}

/// Returns the stored key, unless it is absent or has expired.
pub(crate) fn live_key(stored: Option<ApiKey>, now: Timestamp) -> Result<ApiKey> {
    let key = stored.ok_or(CredentialFault::NoKey)?;
    if key.expires_at.is_some_and(|expiry| expiry <= now) {
        return Err(CredentialFault::KeyExpired.into());
    }
    Ok(key)
}

/// Returns the user of a credential or a request in progress; a deleted user and a disabled one are handled alike.
fn enabled(user: Option<User>) -> Result<User> {
    match user {
        Some(user) if !user.disabled => Ok(user),
        Some(_) => Err(CredentialFault::UserDisabled.into()),
        None => Err(CredentialFault::UserDeleted.into()),
    }
}
