//! Ends sessions on behalf of the provider: OpenID Connect Back-Channel Logout.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tracewarden_appdb::{Logout, WriteTx};
use tracewarden_identity::{LogoutToken, Provider, ProviderError};

use super::access_token::TOO_MANY_TOKENS;
use crate::access::Identities;
use crate::access::sign_in_throttle::{SignInAttempt, begin_sign_in_write};
use crate::core::{
    AuditContext, Event, LogoutOf, NEVER_CONFIRMED, Outcome, RequestInfo, Result, ServiceError, tokens,
    with_members,
};

impl Identities {
    /// Returns the address at which the browser ends its session at the provider; `None` if the provider has none.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::IdentityProvider`].
    pub async fn end_session_url(&self, provider: &str, return_uri: &str) -> Result<Option<String>> {
        let url = self.provider(provider)?.end_session_url(return_uri, self.core.now()).await?;
        Ok(url.map(String::from))
    }

    /// Ends the sessions that a logout token names: one session at the provider, or all of a person. Once no session that began
    /// with the provider is left, the person's API keys are rejected until the next sign-in: the provider may have disabled the
    /// account. A person who is not known here is no error.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::IdentityProvider`] for a token that is not valid or was used before,
    /// [`ServiceError::Overloaded`], or a failure of the application database.
    pub async fn end_sessions(&self, provider: &str, token: &str, info: &RequestInfo) -> Result<()> {
        let provider = self.provider(provider)?;
        let address = SignInAttempt::new("", info.client_ip, &self.core.username_key);
        let permit = self.core.permits.token_checks.try_acquire(address.address()).ok_or(TOO_MANY_TOKENS)?;
        let LogoutToken { subject, session, id, issued_at, expires_at } =
            provider.logout_token(token, self.core.now()).await?;
        drop(permit);
        if session.is_none() && !provider.identifies_by_sub() {
            let cause =
                "the logout token names no session, and `sub` does not identify people of this provider";
            return Err(ServiceError::IdentityProvider(ProviderError::Invalid(cause.into())));
        }
        let subject = subject.filter(|_| provider.identifies_by_sub());
        let mut tx = begin_sign_in_write(&self.core).await?;
        let now = self.core.now();
        let digest = tokens::digest(&format!("logout:{}:{id}", provider.issuer()));
        if !tx.identities_mut().consume_token(digest, now, expires_at).await? {
            let cause = "the logout token was used before";
            return Err(ServiceError::IdentityProvider(ProviderError::Invalid(cause.into())));
        }
        // For sign-ins in progress, and for access tokens, which need not name their session.
        let of = match (&session, &subject) {
            (Some(session), Some(subject)) => vec![LogoutOf::Session(session), LogoutOf::AnySession(subject)],
            (Some(session), None) => vec![LogoutOf::Session(session)],
            (None, subject) => subject.iter().map(|subject| LogoutOf::Person(subject)).collect(),
        };
        // The provider's clock, which dates its tokens, may be ahead.
        let logout = Logout { ended_at: now, tokens_until: now.max(issued_at) };
        let oldest = now.saturating_sub(self.core.settings.identity_max_age_nanos);
        for of in of {
            tx.identities_mut().put_logout(of.digest(provider.issuer()), logout, oldest).await?;
        }
        let mut ended: Vec<(String, String)> = Vec::new();
        let person = match &subject {
            Some(subject) => tx.identities().user(provider.issuer(), subject).await?.map(|user| user.id),
            None => None,
        };
        match (&session, &person, &subject) {
            // A session of another person than the token names is not ended.
            (Some(_), None, Some(_)) => {}
            (Some(session), person, _) => {
                ended =
                    tx.identities_mut().delete_sessions(provider.name(), session, person.as_deref()).await?;
            }
            (None, Some(person), _) => {
                let sessions = tx.sessions_of_user(person).await?;
                ended = sessions.into_iter().map(|session| (person.clone(), session.id)).collect();
                tx.delete_sessions_of_user(person, None).await?;
            }
            (None, None, _) => {}
        }
        // Also a person none of whose sessions ended: the session may have ended here before, and keys remain.
        let people: BTreeSet<&String> = ended.iter().map(|(user_id, _)| user_id).chain(&person).collect();
        let context = AuditContext::anonymous(info);
        for user_id in people {
            let sessions: Vec<&str> = ended
                .iter()
                .filter(|(owner, _)| owner == user_id)
                .map(|(_, session)| session.as_str())
                .collect();
            let detail = json!({ "reason": "logout_token" });
            self.record_ended_sessions(&mut tx, provider, user_id, &sessions, detail, &context).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Records that the provider ended these sessions of a user. If no session that began with the provider is left, the person's
    /// API keys are rejected until the next sign-in.
    pub(super) async fn record_ended_sessions(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        user_id: &str,
        sessions: &[&str],
        detail: Value,
        context: &AuditContext,
    ) -> Result<()> {
        let now = self.core.now();
        let is_last = !tx
            .sessions_of_user(user_id)
            .await?
            .into_iter()
            .filter(|session| session.provider.as_deref() == Some(provider.name()))
            .any(|session| self.core.live_session(Some(session), now).is_ok());
        if is_last {
            tx.identities_mut().set_confirmed(user_id, NEVER_CONFIRMED).await?;
        } else if sessions.is_empty() {
            return Ok(());
        }
        let user = tx.user_by_id(user_id).await?;
        let more = [
            ("provider", json!(provider.name())),
            ("sessions", json!(sessions)),
            ("keys_lapsed", json!(is_last)),
        ];
        let detail = with_members(detail, more.map(|(name, value)| (name, Some(value))));
        let target = user.as_ref().map(|user| user.username.as_str());
        let event = Event { action: "logout.provider", outcome: Outcome::Success, target, detail };
        context.append(tx, now, event).await
    }
}
