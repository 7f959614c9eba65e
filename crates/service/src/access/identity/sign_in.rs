//! Sign-in with an identity provider: OpenID Connect's authorization code flow.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{DbError, NewIdentity, PasswordHash, User, WriteTx};
use tracewarden_identity::{Person, Provider};
use tracewarden_model::{Claims, ClaimsMapping, Timestamp};
use utoipa::ToSchema;

use super::attempt::Attempt;
use super::mapped::present;
use crate::Secret;
use crate::access::Identities;
use crate::access::sessions::{SignIn, begin_session};
use crate::access::sign_in_throttle::{SignInAttempt, TOO_MANY_SIGN_INS, begin_sign_in_write};
use crate::core::{
    AuditContext, Event, Mapped, Outcome, PasswordLogin, RequestInfo, Result, ServiceError, SignInKey,
    SignInRefusal, evaluate_mapping, last_logout, run_to_completion, sanitize, tokens, validate,
    with_members,
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

/// Longest path to which the browser returns.
const RETURN_TO_MAX_BYTES: usize = 2_000;

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

    /// Begins a sign-in. `return_to` is a path of the web application; any other text is ignored.
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
        let return_to = return_to.filter(|path| is_path_of_application(path));
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
        let is_first = tx.consume_token(tokens::digest(&attempt.cookie), now, attempt.expires_at()).await?;
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
        let person = provider.redeem(&code, &secrets, redirect_uri, self.core.now()).await?;
        let token = self.open_session(provider, person, attempt.began_at(), info).await?;
        Ok(ProviderSignIn { token, return_to: attempt.into_return_to() })
    }

    /// Opens a session for a person whom the provider has authenticated.
    async fn open_session(
        &self,
        provider: &Provider,
        person: Person,
        began_at: Timestamp,
        info: &RequestInfo,
    ) -> Result<Secret> {
        let mut context = AuditContext::anonymous(info);
        let result = self.try_open_session(provider, &person, began_at, info, &mut context).await;
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
        provider: &Provider,
        person: &Person,
        began_at: Timestamp,
        info: &RequestInfo,
        context: &mut AuditContext,
    ) -> Result<Secret> {
        let claims = Claims::from_json(&person.claims);
        // Evaluated before the transaction, for whose end all other writers wait, and again within it only if the mapping has
        // changed since.
        let mut tx = self.core.db.begin_read().await?;
        let seen = tx.identities().mappings(None).await?.remove(provider.name()).unwrap_or_default();
        let is_known = tx.identities().user(&person.issuer, &person.subject).await?.is_some();
        drop(tx);
        let seen_access = self.evaluate_one(&seen, &claims).await?;
        let new_user = if is_known { None } else { Some(self.new_user(person).await?) };

        let mut tx = begin_sign_in_write(&self.core).await?;
        // The provider may have confirmed the person before it ended the session.
        if last_logout(&mut tx, person).await?.is_some_and(|ended_at| ended_at >= began_at) {
            return Err(ServiceError::SignInExpired);
        }
        let mapping = tx.identities().mappings(None).await?.remove(provider.name()).unwrap_or_default();
        let access = if mapping == seen { seen_access } else { self.evaluate_one(&mapping, &claims).await? };
        let existing: BTreeSet<String> = tx.role_names().await?.into_iter().collect();
        let mapped = Mapped::new(access, &existing);
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
        let (_, token) = begin_session(&self.core, &mut tx, &mut user, sign_in).await?;
        tx.commit().await?;
        Ok(token)
    }

    async fn evaluate_one(
        &self,
        mapping: &ClaimsMapping,
        claims: &Claims,
    ) -> Result<tracewarden_policy::MappedAccess> {
        Ok(evaluate_mapping(mapping.clone(), vec![claims.clone()]).await?.pop().unwrap_or_default())
    }

    /// Returns the record of a new user, with a password that no one knows: hashed like all others, so that sign-ins with a
    /// password take the same time for every name.
    pub(super) async fn new_user(&self, person: &Person) -> Result<User> {
        let password = tokens::session_token(self.core.entropy.as_ref())?;
        let password_hash: PasswordHash = self.core.passwords.hash(password).await?;
        Ok(User {
            id: tokens::id("usr", self.core.entropy.as_ref())?,
            username: person.username.clone().unwrap_or_default(),
            password_hash,
            must_change_password: false,
            disabled: false,
            created_at: self.core.now(),
            last_login_at: None,
            attributes: Default::default(),
            roles: BTreeSet::new(),
            identity: None,
        })
    }

    pub(super) async fn create(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user: User,
        mapped: Mapped,
        context: &mut AuditContext,
    ) -> Result<User> {
        if mapped.roles.is_empty() {
            return Err(SignInRefusal::NoRole.into());
        }
        let mut errors = Vec::new();
        validate::username(&user.username, &mut errors);
        if let Some(error) = errors.first() {
            tracing::warn!(
                provider = provider.name(),
                reason = error.detail,
                "a new user has no usable name"
            );
            return Err(SignInRefusal::NameInvalid.into());
        }
        // Never merged: the name is chosen by the provider or the person, and the account may be another's.
        if tx.user_by_name(&user.username).await?.is_some() {
            return Err(SignInRefusal::NameTaken.into());
        }
        tx.insert_user(&user).await.map_err(|error| match error {
            DbError::Conflict(_) => SignInRefusal::NameTaken.into(),
            other => ServiceError::from(other),
        })?;
        context.actor_id = Some(user.id.clone());
        context.actor_name = Some(user.username.clone());
        self.store(tx, provider, person, &user.id, &mapped, self.core.now()).await?;
        let detail = json!({ "id": user.id, "roles": mapped.roles, "attributes": mapped.attributes });
        let identity = [("provider", json!(provider.name())), ("subject", json!(sanitize(&person.subject)))];
        let detail = with_members(detail, identity.map(|(name, value)| (name, Some(value))));
        let event =
            Event { action: "user.create", outcome: Outcome::Success, target: Some(&user.username), detail };
        context.append(tx, self.core.now(), event).await?;
        self.reread_user(tx, &user.id).await
    }

    async fn update(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user: User,
        mapped: Mapped,
        context: &AuditContext,
    ) -> Result<User> {
        let now = self.core.now();
        if user.identity.as_ref().is_some_and(|identity| self.core.has_lapsed(identity, now)) {
            // Sessions that have ended because the provider did not confirm the claims must not come back.
            tx.delete_sessions_of_user(&user.id, None).await?;
        }
        let before = present(&user);
        let confirmed_at = match &user.identity {
            // A disabled user's sign-in confirms nothing.
            Some(identity) if user.disabled => identity.confirmed_at,
            _ => now,
        };
        self.store(tx, provider, person, &user.id, &mapped, confirmed_at).await?;
        // A role can be mapped and assigned; the assigned ones decide nothing here.
        let assigned = user.assigned_roles();
        let shown = |mapped: &Mapped| Mapped {
            roles: mapped.roles.difference(assigned).cloned().collect(),
            attributes: mapped.attributes.clone(),
        };
        let after = shown(&mapped);
        if after != before {
            let detail = after.difference(&before);
            let event =
                Event { action: "user.map", outcome: Outcome::Success, target: Some(&user.username), detail };
            context.append(tx, now, event).await?;
        }
        self.reread_user(tx, &user.id).await
    }

    async fn store(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user_id: &str,
        mapped: &Mapped,
        confirmed_at: Timestamp,
    ) -> Result<()> {
        let claims = Value::Object(person.claims.clone()).to_string();
        let identity = NewIdentity {
            user_id,
            provider: provider.name(),
            issuer: &person.issuer,
            subject: &person.subject,
            claims: &claims,
            confirmed_at,
        };
        tx.identities_mut().put(&identity).await?;
        let Mapped { roles, attributes } = mapped.clone();
        Ok(tx.identities_mut().put_mapped(&[(user_id, roles, attributes)]).await?)
    }

    async fn reread_user(&self, tx: &mut WriteTx, id: &str) -> Result<User> {
        tx.user_by_id(id).await?.ok_or_else(|| ServiceError::internal("the user no longer exists"))
    }
}

/// Whether the browser may be sent to this path after the sign-in: a page of the web application, never another site.
fn is_path_of_application(path: &str) -> bool {
    path.len() <= RETURN_TO_MAX_BYTES
        && path.starts_with("/ui/")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_returns_to_pages_of_the_application_only() {
        for good in ["/ui/", "/ui/traces/0af7?x=1#span", "/ui/users/a%20b", "/ui//evil.example"] {
            assert!(is_path_of_application(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "//evil.example/ui/",
            "https://evil.example/ui/",
            "/ui",
            "/uix/",
            "/ui/\\evil.example",
            "/ui/\r\nX: y",
            "/ui/ä",
            "javascript:alert(1)",
            "/\\evil.example/ui/",
        ] {
            assert!(!is_path_of_application(bad), "{bad:?}");
        }
        assert!(!is_path_of_application(&format!("/ui/{}", "a".repeat(2_000))));
    }
}
