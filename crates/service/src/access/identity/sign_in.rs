//! Sign-in with an identity provider: OpenID Connect's authorization code flow.

use serde::Serialize;
use serde_json::json;
use tracewarden_identity::{Person, Provider, RefreshToken};
use tracewarden_model::Timestamp;
use utoipa::ToSchema;

use super::attempt::Attempt;
use crate::Secret;
use crate::access::Identities;
use crate::access::sessions::{SignIn, begin_session};
use crate::access::sign_in_throttle::{SignInAttempt, TOO_MANY_SIGN_INS, begin_sign_in_write};
use crate::core::{
    AuditContext, Event, Outcome, PasswordLogin, RequestInfo, Result, ServiceError, SignInKey, SignInRefusal,
    last_logout, run_to_completion, sanitize, tokens,
};

/// An identity provider on the sign-in page.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SignInProvider {
    /// Name, the last part of the path at which the sign-in begins.
    #[schema(examples("company"))]
    pub name: String,
    /// Text of the button.
    #[schema(examples("Company account"))]
    pub label: String,
}

/// The ways to sign in.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SignInMethods {
    /// Who may sign in with a password.
    pub password: PasswordLogin,
    /// The identity providers. A browser begins at `/login/` and the name.
    pub providers: Vec<SignInProvider>,
}

/// Where the browser goes to sign in.
#[derive(Debug, Clone)]
pub struct ProviderRedirect {
    /// Address at the provider.
    pub url: String,
    /// Value of the cookie that binds the sign-in to the browser.
    pub cookie: String,
}

/// Parameters of the provider's response.
#[derive(Debug, Clone, Default)]
pub struct AuthorizationResponse {
    /// Authorization code.
    pub code: Option<String>,
    /// State.
    pub state: Option<String>,
    /// Issuer (RFC 9207).
    pub iss: Option<String>,
    /// Error code.
    pub error: Option<String>,
}

/// A successful sign-in with a provider.
#[derive(Debug, Clone)]
pub struct ProviderSignIn {
    /// Token of the session, for the cookie.
    pub token: Secret,
    /// Path of the page from which the sign-in began.
    pub return_to: Option<String>,
}

/// A person whom the provider has confirmed for one sign-in.
struct Confirmed<'a> {
    provider: &'a Provider,
    person: Person,
    refresh_token: Option<RefreshToken>,
    began_at: Timestamp,
}

impl Identities {
    /// Returns the ways to sign in, for everyone.
    pub fn sign_in_methods(&self) -> SignInMethods {
        let provider = |provider: &Provider| SignInProvider {
            name: provider.name().to_owned(),
            label: provider.label().to_owned(),
        };
        SignInMethods {
            password: self.core.settings.password_login,
            providers: self.core.settings.providers.iter().map(provider).collect(),
        }
    }

    /// Begins a sign-in. `return_to` is the path of a page to which the browser may be sent afterwards.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::IdentityProvider`].
    pub async fn begin_sign_in(
        &self,
        provider: &str,
        return_to: Option<String>,
        redirect_uri: &str,
    ) -> Result<ProviderRedirect> {
        let provider = self.provider(provider)?;
        let (key, now) = (self.key()?, self.core.now());
        let attempt = Attempt::begin(provider.name(), return_to, self.core.entropy.as_ref(), now)?;
        let url = provider.authorization_url(&attempt.secrets(key), redirect_uri, now).await?;
        Ok(ProviderRedirect { url: url.into(), cookie: attempt.cookie })
    }

    /// Completes a sign-in: verifies the provider's response, creates the user at the first sign-in, and opens a session.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::SignInExpired`], [`ServiceError::SignInRefused`],
    /// [`ServiceError::IdentityProvider`], [`ServiceError::Overloaded`], or a failure of the application database.
    pub async fn complete_sign_in(
        &self,
        provider: &str,
        cookie: Option<&str>,
        response: AuthorizationResponse,
        redirect_uri: &str,
        info: RequestInfo,
    ) -> Result<ProviderSignIn> {
        let provider_name = self.provider(provider)?.name().to_owned();
        let address = SignInAttempt::new("", info.client_ip, &self.core.username_key);
        let (identities, redirect_uri) = (self.clone(), redirect_uri.to_owned());
        let state = response.state.as_deref().unwrap_or_default();
        let attempt = cookie
            .and_then(|cookie| {
                Attempt::resume(cookie, self.key().ok()?, &provider_name, state, self.core.now())
            })
            .ok_or(ServiceError::SignInExpired);
        // In a task of its own: what the provider has confirmed is recorded even if the client disconnects.
        let result = run_to_completion(async move {
            let Some(_permit) = identities.core.permits.provider_sign_ins.try_acquire(address.address())
            else {
                return Err(TOO_MANY_SIGN_INS);
            };
            identities.redeem(&provider_name, attempt?, response, &redirect_uri, &info).await
        })
        .await;
        self.core.metrics.sign_in(&result);
        result
    }

    /// Returns the page to which a sign-in that failed was to return, if it began in this browser.
    pub fn return_to(&self, provider: &str, cookie: Option<&str>, state: Option<&str>) -> Option<String> {
        Attempt::resume(cookie?, self.key().ok()?, provider, state?, self.core.now())?.into_return_to()
    }

    fn key(&self) -> Result<&SignInKey> {
        let missing = || ServiceError::internal("no key for sign-ins with identity providers");
        self.core.sign_in_key.as_ref().ok_or_else(missing)
    }

    async fn redeem(
        &self,
        provider: &str,
        attempt: Attempt,
        response: AuthorizationResponse,
        redirect_uri: &str,
        info: &RequestInfo,
    ) -> Result<ProviderSignIn> {
        let provider = self.provider(provider)?;
        let now = self.core.now();
        // First of all, also for errors: a response of another provider says nothing.
        provider.check_response_issuer(response.iss.as_deref(), now).await?;
        let mut tx = begin_sign_in_write(&self.core).await?;
        let is_first = tx
            .identities_mut()
            .consume_token(tokens::digest(&attempt.cookie), now, attempt.expires_at())
            .await?;
        tx.commit().await?;
        if !is_first {
            return Err(ServiceError::SignInExpired);
        }
        if let Some(error) = response.error {
            tracing::info!(
                provider = provider.name(),
                error = sanitize(&error),
                "the identity provider refused a sign-in"
            );
            return Err(SignInRefusal::Provider.into());
        }
        let code = response.code.filter(|code| !code.is_empty()).ok_or(SignInRefusal::Provider)?;
        let secrets = attempt.secrets(self.key()?);
        let (person, refresh_token) = provider.redeem(&code, &secrets, redirect_uri, self.core.now()).await?;
        let confirmed = Confirmed { provider, person, refresh_token, began_at: attempt.began_at() };
        let token = self.open_session(confirmed, info).await?;
        Ok(ProviderSignIn { token, return_to: attempt.into_return_to() })
    }

    /// Opens a session for a person whom the provider has authenticated.
    async fn open_session(&self, confirmed: Confirmed<'_>, info: &RequestInfo) -> Result<Secret> {
        let mut context = AuditContext::anonymous(info);
        let result = self.try_open_session(&confirmed, info, &mut context).await;
        let Confirmed { provider, person, .. } = confirmed;
        if let Err(ServiceError::SignInRefused(refusal)) = &result {
            let detail = json!({
                "reason": <&str>::from(refusal), "provider": provider.name(), "subject": sanitize(&person.subject),
            });
            let event = Event { action: "login", outcome: Outcome::Denied, target: None, detail };
            self.core.record(&context, None, event).await?;
        }
        result
    }

    async fn try_open_session(
        &self,
        confirmed: &Confirmed<'_>,
        info: &RequestInfo,
        context: &mut AuditContext,
    ) -> Result<Secret> {
        let Confirmed { provider, ref person, ref refresh_token, began_at } = *confirmed;
        let evaluated = self.evaluate_claims(provider, person).await?;
        let mut tx = self.core.db.begin_read().await?;
        let is_known = tx.identities().user(&person.issuer, &person.subject).await?.is_some();
        drop(tx);
        let new_user = if is_known { None } else { Some(self.new_user(person).await?) };

        let mut tx = begin_sign_in_write(&self.core).await?;
        // The provider may have confirmed the person before it ended the session.
        if last_logout(&mut tx, person).await?.is_some_and(|logout| logout.ended_at >= began_at) {
            return Err(ServiceError::SignInExpired);
        }
        let mapped = self.mapped(&mut tx, provider, evaluated).await?;
        let mut user = match tx.identities().user(&person.issuer, &person.subject).await? {
            Some(user) => {
                context.actor_id = Some(user.id.clone());
                context.actor_name = Some(user.username.clone());
                self.update(&mut tx, provider, person, user, mapped, context).await?
            }
            None => {
                // The person was deleted meanwhile, so that there is no hash yet.
                let Some(new_user) = new_user else { return Err(ServiceError::SignInExpired) };
                self.create(&mut tx, provider, person, new_user, mapped, context).await?
            }
        };
        let refusal = if user.disabled {
            Some(SignInRefusal::Disabled)
        } else {
            user.roles.is_empty().then_some(SignInRefusal::NoRole)
        };
        if let Some(refusal) = refusal {
            // What the claims took away stays taken away.
            tx.commit().await?;
            return Err(refusal.into());
        }
        let detail = json!({ "provider": provider.name() });
        let session = (provider.name(), person.session.as_deref());
        let sign_in = SignIn { provider: Some(session), detail, context, info };
        let (session, token) = begin_session(&self.core, &mut tx, &mut user, sign_in).await?;
        match refresh_token {
            Some(token) => self.keep_refresh_token(&mut tx, provider, &session.id, token).await?,
            None if provider.refresh_interval().is_some() => tracing::warn!(
                provider = provider.name(),
                "a sign-in brought no refresh token: is a scope such as `offline_access` missing?"
            ),
            None => {}
        }
        tx.commit().await?;
        Ok(token)
    }
}
