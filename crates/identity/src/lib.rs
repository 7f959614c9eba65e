//! Identity providers: discovery, sign-in with the authorization code flow, access tokens and logout tokens of OpenID Connect. This
//! crate keeps no state but what it fetched: the providers' metadata and keys, and if configured their answers about access tokens.
//! It decides about no access.

mod access_token;
mod answer_cache;
mod error;
mod http;
mod jwt;
mod logout_token;
mod metadata;
mod person;
mod provider;
mod refresh;
mod refresh_token;
mod resource;
mod resource_server;
mod settings;
#[cfg(test)]
mod tests;

pub use access_token::{AccessToken, VerifiedToken};
pub use error::ProviderError;
pub use logout_token::LogoutToken;
pub use person::Person;
pub use provider::{Provider, SignInSecrets};
pub use refresh::Refreshed;
pub use refresh_token::RefreshToken;
pub use resource::Resource;
pub use settings::{
    AccessTokenSettings, CLOCK_LEEWAY_SECONDS, ProviderSettings, SettingsError, check_issuer,
};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tracewarden_model::Timestamp;

/// Longer opaque tokens are not sent to the providers.
const OPAQUE_TOKEN_MAX_BYTES: usize = 8 * 1024;

/// The configured providers, by name.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    by_name: Arc<BTreeMap<String, Provider>>,
    /// Scheme, host and port under which users reach the service.
    origin: Arc<str>,
}

impl Providers {
    /// Creates the providers of a service that users reach at `origin`, without a trailing slash. Each name occurs once.
    ///
    /// # Errors
    /// If an HTTP client cannot be created, for example because of its CA certificate, or if a token could be for both interfaces.
    pub fn new(
        settings: impl IntoIterator<Item = ProviderSettings>,
        origin: &str,
    ) -> Result<Self, SettingsError> {
        let origin: Arc<str> = origin.into();
        let provider = |settings: ProviderSettings| {
            let accepted = settings.access_tokens.as_ref();
            match accepted.and_then(|accepted| accepted.shared_audience(&origin)) {
                Some(audience) => Err(SettingsError::Audience(settings.name, audience)),
                None => Ok((settings.name.clone(), Provider::new(settings, Arc::clone(&origin))?)),
            }
        };
        let by_name = settings.into_iter().map(provider).collect::<Result<_, SettingsError>>()?;
        let providers = Self { by_name: Arc::new(by_name), origin };
        if providers.iter().filter(|provider| provider.introspects()).count() > 1 {
            return Err(SettingsError::Introspection);
        }
        Ok(providers)
    }

    /// Returns the provider of this name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.by_name.get(name)
    }

    /// Returns the issuers of the access tokens that are accepted.
    pub fn token_issuers(&self) -> impl Iterator<Item = &str> {
        self.iter().filter(|provider| provider.accepts_access_tokens()).map(Provider::issuer)
    }

    /// Whether a token of this form is verified by asking a provider.
    pub fn asks_about(&self, token: &str) -> bool {
        self.iter().any(Provider::introspects) && unverified_issuer(token).is_err()
    }

    /// Verifies an access token of any of the providers, for one resource. [`Provider::access_token`] reads the person.
    ///
    /// # Errors
    /// [`ProviderError::Invalid`], also for the token of another issuer; [`ProviderError::Unavailable`].
    pub async fn verify_access_token(
        &self,
        token: &str,
        resource: Resource,
        now: Timestamp,
    ) -> Result<VerifiedToken, ProviderError> {
        let issuer = match unverified_issuer(token) {
            Ok(issuer) => issuer,
            Err(error) => return self.introspect(token, resource, now, error).await,
        };
        let unknown = || ProviderError::invalid("the issuer of the token is not known");
        let provider = self.iter().find(|provider| provider.issuer() == issuer).ok_or_else(unknown)?;
        provider.verify_access_token(token, resource, now).await
    }

    /// Asks the provider about a token that is not a JWT.
    async fn introspect(
        &self,
        token: &str,
        resource: Resource,
        now: Timestamp,
        not_a_jwt: jsonwebtoken::errors::Error,
    ) -> Result<VerifiedToken, ProviderError> {
        let provider = self.iter().find(|provider| provider.introspects());
        match provider.filter(|_| !token.is_empty() && token.len() <= OPAQUE_TOKEN_MAX_BYTES) {
            Some(provider) => provider.introspect(token, resource, now).await,
            None => Err(ProviderError::invalid(not_a_jwt)),
        }
    }

    /// Returns the identifier of a resource.
    pub fn resource_url(&self, resource: Resource) -> String {
        resource.url(&self.origin)
    }

    /// Returns all providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.by_name.values()
    }
}

/// Reads the issuer of a JWT. It is not trusted: it only chooses the provider that verifies the token.
fn unverified_issuer(token: &str) -> Result<String, jsonwebtoken::errors::Error> {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    Ok(jsonwebtoken::dangerous::insecure_decode::<Issuer>(token)?.claims.iss)
}
