//! Refresh of sessions: the provider is asked again about the people who have signed in, so that a change there counts long before
//! `identity_max_age`. Each replica asks about the sessions that it claims first.

use std::time::Duration;

use futures::future::join_all;
use secrecy::ExposeSecret as _;
use serde_json::json;
use tracewarden_appdb::{ClaimedRefreshToken, Session, WriteTx};
use tracewarden_identity::{Person, Provider, ProviderError, RefreshToken};
use tracewarden_model::Timestamp;

use crate::access::Identities;
use crate::core::{AuditContext, LAST_USE_NANOS, Result, SealingKey, ServiceError, last_logout};

/// Sessions that this process refreshes at the same time.
const BATCH_SESSIONS: u32 = 32;
/// Longest time for all calls of one refresh.
const MAX_CALL: Duration = Duration::from_secs(30);
/// How long a claim holds: longer than the calls take, and what must be stored afterwards.
const CLAIM_NANOS: i64 = 180 * 1_000_000_000;
/// Time until the next attempt to store a token.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// Longest time until the next attempt after one that told nothing.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// Limits of the time between two looks for due sessions.
const POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

impl Identities {
    /// Refreshes the sessions that are due, until `stop` completes. Returns at once if no provider has a refresh interval.
    pub async fn refresh_sessions(&self, stop: impl Future<Output = ()>) {
        let intervals = self.core.settings.providers.iter().filter_map(Provider::refresh_interval);
        let Some(shortest) = intervals.min() else { return };
        let poll = (shortest / 4).clamp(POLL.0, POLL.1);
        tokio::pin!(stop);
        loop {
            // Not cancelled by `stop`: a provider may have used up a token whose successor is not stored yet.
            let refreshed = self.refresh_due_sessions().await.unwrap_or_else(|error| {
                let (code, log_cause) = (error.code(), error.log_cause());
                tracing::warn!(code, log_cause, "sessions were not refreshed; tried again later");
                0
            });
            let pause = if refreshed < BATCH_SESSIONS as usize { poll } else { Duration::ZERO };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Refreshes one batch of the sessions that are due. Returns their number.
    async fn refresh_due_sessions(&self) -> Result<usize> {
        let now = self.core.now();
        if !self.core.db.begin_read().await?.identities().has_due_refresh(now).await? {
            return Ok(0);
        }
        let mut tx = self.core.db.begin_write().await?;
        let until = now.saturating_add(CLAIM_NANOS);
        let claimed = tx.identities_mut().claim_refresh_tokens(now, until, BATCH_SESSIONS).await?;
        tx.commit().await?;
        for (claimed, result) in
            join_all(claimed.iter().map(async |claimed| (claimed, self.refresh(claimed).await))).await
        {
            if let Err(error) = result {
                let (session, code, log_cause) = (&claimed.session_id, error.code(), error.log_cause());
                tracing::warn!(session, code, log_cause, "a session was not refreshed; tried again later");
            }
        }
        Ok(claimed.len())
    }

    async fn refresh(&self, claimed: &ClaimedRefreshToken) -> Result<()> {
        let began_at = self.core.now();
        let mut tx = self.core.db.begin_read().await?;
        let session = tx.session_by_id(&claimed.session_id).await?;
        let user = match &session {
            Some(session) => tx.user_by_id(&session.user_id).await?,
            None => None,
        };
        drop(tx);
        let is_confirmed = user
            .and_then(|user| user.identity)
            .is_some_and(|identity| !self.core.settings.has_lapsed(&identity, began_at));
        let session = self.core.live_session(session, began_at).ok().filter(|_| is_confirmed);
        let provider = session.as_ref().and_then(|session| {
            self.core.settings.providers.get(session.provider.as_deref().unwrap_or_default())
        });
        let refreshed = provider.and_then(|provider| Some((provider, provider.refresh_interval()?)));
        let (Some(session), Some((provider, interval))) = (&session, refreshed) else {
            // The session has ended, or its provider is no longer asked.
            return self.forget(claimed).await;
        };
        let max_age = self.core.settings.identity_max_age_nanos;
        if session.last_seen_at.saturating_add(max_age).saturating_add(LAST_USE_NANOS) <= began_at {
            // It is not used: without refreshes it would have ended by now.
            return self.end_unused(claimed, session).await;
        }
        let Some(token) = self.open_refresh_token(claimed) else { return self.forget(claimed).await };
        let refreshed = match tokio::time::timeout(MAX_CALL, provider.refresh(&token, began_at)).await {
            Ok(Ok(refreshed)) => refreshed,
            Ok(Err(ProviderError::Refused(cause))) => {
                tracing::info!(
                    provider = provider.name(),
                    session = session.id,
                    cause,
                    "the provider ended a session"
                );
                return self.end_refused(provider, claimed, session).await;
            }
            Ok(Err(error)) => {
                self.release(claimed, None, self.core.now(), interval.min(MAX_RETRY)).await?;
                return Err(error.into());
            }
            // The provider may have used up the token. The claim ends on its own.
            Err(_) => return Err(ProviderError::Unavailable("no answer in time".into()).into()),
        };
        // Stored before anything that can fail. Without its successor, the next refresh would end the session.
        let is_own = loop {
            match self.release(claimed, refreshed.token.as_ref(), began_at, interval).await {
                Err(error) if self.core.now() < claimed.claimed_until => {
                    tracing::warn!(code = error.code(), "a refresh token is not stored yet; tried again");
                    tokio::time::sleep(STORE_RETRY).await;
                }
                released => break released?,
            }
        };
        if !is_own {
            return Ok(());
        }
        match refreshed.person? {
            Some(person) => self.confirm(provider, person, session, began_at).await,
            None => Ok(()),
        }
    }

    /// Stores the first refresh token of a session.
    pub(super) async fn keep_refresh_token(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        session_id: &str,
        token: &RefreshToken,
    ) -> Result<()> {
        let Some(interval) = provider.refresh_interval() else { return Ok(()) };
        let sealed = self.seal_refresh_token(session_id, token)?;
        let due_at = after(self.core.now(), interval);
        Ok(tx.identities_mut().insert_refresh_token(session_id, &sealed, due_at).await?)
    }

    /// Ends a claim. Returns whether it was still this process's.
    async fn release(
        &self,
        claimed: &ClaimedRefreshToken,
        token: Option<&RefreshToken>,
        since: Timestamp,
        interval: Duration,
    ) -> Result<bool> {
        let sealed = token.map(|token| self.seal_refresh_token(&claimed.session_id, token)).transpose()?;
        let mut tx = self.core.db.begin_write().await?;
        let due_at = after(since, interval);
        let is_own = tx.identities_mut().release_refresh_token(claimed, sealed.as_deref(), due_at).await?;
        tx.commit().await?;
        Ok(is_own)
    }

    async fn forget(&self, claimed: &ClaimedRefreshToken) -> Result<()> {
        let mut tx = self.core.db.begin_write().await?;
        tx.identities_mut().delete_refresh_token(claimed).await?;
        Ok(tx.commit().await?)
    }

    async fn end_unused(&self, claimed: &ClaimedRefreshToken, session: &Session) -> Result<()> {
        let mut tx = self.core.db.begin_write().await?;
        if tx.identities_mut().delete_refresh_token(claimed).await? {
            tx.delete_session(&session.user_id, &session.id).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Ends a session whose refresh token the provider no longer accepts.
    async fn end_refused(
        &self,
        provider: &Provider,
        claimed: &ClaimedRefreshToken,
        session: &Session,
    ) -> Result<()> {
        let mut tx = self.core.db.begin_write().await?;
        if !tx.identities_mut().delete_refresh_token(claimed).await? {
            return Ok(());
        }
        tx.delete_session(&session.user_id, &session.id).await?;
        let (sessions, detail) = ([session.id.as_str()], json!({ "reason": "refresh_refused" }));
        let context = AuditContext::service();
        self.record_ended_sessions(&mut tx, provider, &session.user_id, &sessions, detail, &context).await?;
        Ok(tx.commit().await?)
    }

    /// Stores the current claims of the person of a session.
    async fn confirm(
        &self,
        provider: &Provider,
        person: Person,
        session: &Session,
        began_at: Timestamp,
    ) -> Result<()> {
        let evaluated = self.evaluate_claims(provider, &person).await?;
        let mut tx = self.core.db.begin_write().await?;
        // What the provider has ended meanwhile stays ended.
        let has_ended =
            last_logout(&mut tx, &person).await?.is_some_and(|logout| logout.ended_at >= began_at);
        if has_ended || tx.session_by_id(&session.id).await?.is_none() {
            return Ok(());
        }
        let user = tx.identities().user(&person.issuer, &person.subject).await?;
        let Some(user) = user.filter(|user| user.id == session.user_id) else {
            return Err(ProviderError::Invalid("the refreshed ID token is another person's".into()).into());
        };
        let mapped = self.mapped(&mut tx, provider, evaluated).await?;
        self.update(&mut tx, provider, &person, user, mapped, &AuditContext::service()).await?;
        Ok(tx.commit().await?)
    }

    fn seal_refresh_token(&self, session_id: &str, token: &RefreshToken) -> Result<String> {
        let text = token.to_text().map_err(|error| ServiceError::failed("a refresh token", error))?;
        let key = self.refresh_token_key()?;
        key.seal(text.expose_secret().as_bytes(), purpose(session_id).as_bytes(), self.core.entropy.as_ref())
    }

    /// Decrypts a token. One that was encrypted with another key is of no use: the session then lasts until `identity_max_age`.
    fn open_refresh_token(&self, claimed: &ClaimedRefreshToken) -> Option<RefreshToken> {
        let key = self.refresh_token_key().ok()?;
        let opened = key.open(&claimed.token, purpose(&claimed.session_id).as_bytes());
        let text = opened.ok().and_then(|plain| String::from_utf8(plain).ok());
        let token = text.and_then(|text| RefreshToken::from_text(&text).ok());
        if token.is_none() {
            tracing::warn!(
                session = claimed.session_id,
                "a refresh token cannot be decrypted and is removed: has `refresh_token_key` changed?"
            );
        }
        token
    }

    fn refresh_token_key(&self) -> Result<&SealingKey> {
        let missing = || ServiceError::internal("no key for refresh tokens");
        self.core.refresh_token_key.as_ref().ok_or_else(missing)
    }
}

fn after(since: Timestamp, interval: Duration) -> Timestamp {
    since.saturating_add(i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX))
}

/// A token that is copied to another session's row cannot be decrypted.
fn purpose(session_id: &str) -> String {
    format!("tracewarden refresh token\0{session_id}")
}
