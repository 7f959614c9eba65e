//! Identity providers: discovery, sign-in with the authorization code flow, and logout tokens of OpenID Connect. This crate keeps
//! no state but the providers' metadata and keys; it decides about no access.

mod error;
mod http;
mod logout_token;
mod metadata;
mod person;
mod provider;
mod settings;
#[cfg(test)]
mod tests;

pub use error::ProviderError;
pub use logout_token::LogoutToken;
pub use person::Person;
pub use provider::{Provider, SignInSecrets};
pub use settings::{ProviderSettings, SettingsError, check_issuer};

use std::collections::BTreeMap;
use std::sync::Arc;

/// The configured providers, by name.
#[derive(Debug, Clone, Default)]
pub struct Providers(Arc<BTreeMap<String, Provider>>);

impl Providers {
    /// Creates the providers. Each name occurs once.
    ///
    /// # Errors
    /// If an HTTP client cannot be created, for example because of its CA certificate.
    pub fn new(settings: impl IntoIterator<Item = ProviderSettings>) -> Result<Self, SettingsError> {
        let provider = |settings: ProviderSettings| Ok((settings.name.clone(), Provider::new(settings)?));
        Ok(Self(Arc::new(settings.into_iter().map(provider).collect::<Result<_, SettingsError>>()?)))
    }

    /// Returns the provider of this name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }

    /// Returns all providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.0.values()
    }
}
