//! Programs that call on behalf of a person, with an access token of an identity provider.

use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tracewarden_appdb::User;
use tracewarden_identity::{ProviderError, Resource};

use crate::Secret;
use crate::access::Identities;
use crate::access::sign_in_throttle::{SignInAttempt, TOO_MANY_SIGN_INS, begin_sign_in_write};
use crate::core::{
    AuditContext, AuthKind, Credential, CredentialFault, Identity, Permit, RequestInfo, Result, ServiceError,
    TokenCredential, Tool, Transport, VerifiedCredential, run_to_completion, sanitize, tokens,
};

/// Characters of a token's digest in its id: enough to find its requests in the audit log.
const ID_CHARS: usize = 16;

pub(super) const TOO_MANY_TOKENS: ServiceError =
    ServiceError::Overloaded { what: "too many access tokens are being verified" };

/// An interface of the service that accepts access tokens.
#[derive(Debug, Clone)]
pub struct ProtectedResource {
    /// Identifier of the resource, for which a token is requested.
    pub url: String,
    /// Issuers of the accepted tokens.
    pub issuers: Vec<String>,
}

fn resource(via: Transport) -> Resource {
    match via {
        Transport::Mcp => Resource::Mcp,
        Transport::Rest => Resource::Rest,
    }
}

/// The response does not say what is wrong with a token that anyone can have sent.
fn rejected(error: ProviderError) -> ServiceError {
    match error {
        ProviderError::Invalid(cause) | ProviderError::Refused(cause) => {
            // Sanitised: a text of the token may be in it.
            tracing::info!(cause = sanitize(&cause.to_string()), "an access token was rejected");
            CredentialFault::Token.into()
        }
        unavailable @ ProviderError::Unavailable(_) => ServiceError::IdentityProvider(unavailable),
    }
}

impl Identities {
    /// Returns what programs need to get an access token for an interface; `None` if none is accepted.
    pub fn protected_resource(&self, via: Transport) -> Option<ProtectedResource> {
        let providers = &self.core.settings.providers;
        let issuers: Vec<String> = providers.token_issuers().map(str::to_owned).collect();
        let url = providers.resource_url(resource(via));
        (!issuers.is_empty()).then_some(ProtectedResource { url, issuers })
    }

    /// Returns the caller of an access token. The person's user is created if the mapping gives the person a role.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::SignInRefused`] for a person for whom no user can be created,
    /// [`ServiceError::IdentityProvider`] if the provider's keys cannot be fetched, or a failure of the application database.
    pub async fn identify(&self, token: &Secret, info: RequestInfo) -> Result<Identity> {
        let result = self.try_identify(token, info).await;
        if matches!(result, Err(ServiceError::Unauthenticated { .. })) {
            self.core.metrics.unauthenticated(&Credential::AccessToken(token.clone()));
        }
        result
    }

    async fn try_identify(&self, token: &Secret, info: RequestInfo) -> Result<Identity> {
        let token = token.expose_secret();
        let now = self.core.now();
        let address = SignInAttempt::new("", info.client_ip, &self.core.username_key);
        let (permits, providers) = (&self.core.permits, &self.core.settings.providers);
        let limiter =
            if providers.asks_about(token) { &permits.introspections } else { &permits.token_checks };
        let permit = limiter.try_acquire(address.address()).ok_or(TOO_MANY_TOKENS)?;
        let verified = providers.verify_access_token(token, resource(info.via), now).await;
        drop(permit);
        let mut verified = verified.map_err(rejected)?;
        let provider = self.provider(&verified.provider)?;
        if !provider.add_kept_claims(token, &mut verified, now) {
            let _permit = permits.user_info.try_acquire(address.address()).ok_or(TOO_MANY_TOKENS)?;
            provider.add_fetched_claims(token, &mut verified, now).await.map_err(rejected)?;
        }
        let verified = provider.access_token(verified).map_err(rejected)?;
        let mut id = hex::encode(tokens::digest(token).0);
        id.truncate(ID_CHARS);
        let mut tx = self.core.db.begin_read().await?;
        let credential = TokenCredential::new(format!("tok_{id}"), verified);
        let credential = credential.refresh(&mut tx, self.core.settings.identity_max_age_nanos, now).await?;
        let person = &credential.token.person;
        let user = tx.identities().user(&person.issuer, &person.subject).await?;
        drop(tx);
        let user = match user {
            Some(user) => user,
            None => {
                let permit =
                    permits.provider_sign_ins.try_acquire(address.address()).ok_or(TOO_MANY_SIGN_INS)?;
                self.create_caller(&credential, &info, permit).await?
            }
        };
        let verified_credential = VerifiedCredential::AccessToken(credential);
        let user = self.core.current_user(Some(user), &verified_credential, now)?;
        Ok(Identity { user, verified_credential, info })
    }

    /// Creates the user of a person who has never signed in here.
    async fn create_caller(
        &self,
        credential: &Arc<TokenCredential>,
        info: &RequestInfo,
        permit: Permit,
    ) -> Result<User> {
        if credential.tools().is_empty() {
            return Err(ServiceError::InsufficientScope { needed: Tool::ALL.to_vec() });
        }
        // Checked again when the user is created; before the hash, which takes time and memory.
        self.check_new_user(&credential.token.person, &credential.mapped).await?;
        let (identities, credential, info) = (self.clone(), Arc::clone(credential), info.clone());
        run_to_completion(async move {
            let _permit = permit;
            let person = &credential.token.person;
            let provider = identities.provider(&credential.token.provider)?;
            let new_user = identities.new_user(person).await?;
            let mut tx = begin_sign_in_write(&identities.core).await?;
            if let Some(user) = tx.identities().user(&person.issuer, &person.subject).await? {
                // Another request of the same program was first.
                return Ok(user);
            }
            let (max_age, now) = (identities.core.settings.identity_max_age_nanos, identities.core.now());
            let current = credential.refresh(&mut tx, max_age, now).await?;
            let mut context = AuditContext::anonymous(&info);
            context.credential_id = Some(current.id.clone());
            context.oauth_client = current.token.client.clone();
            if info.via == Transport::Rest {
                context.via = AuthKind::AccessToken.into();
            }
            let mapped = current.mapped.clone();
            let user = identities.create(&mut tx, provider, person, new_user, mapped, &mut context).await?;
            tx.commit().await?;
            Ok(user)
        })
        .await
    }
}
