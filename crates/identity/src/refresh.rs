//! Refreshes: the provider is asked again about a person who has signed in.

use std::time::Duration;

use openidconnect::core::CoreErrorResponseType;
use openidconnect::{OAuth2TokenResponse as _, RequestTokenError, TokenResponse as _};
use secrecy::ExposeSecret as _;
use tracewarden_model::Timestamp;

use crate::error::ProviderError;
use crate::person::Person;
use crate::provider::{Provider, TokenRequestError, refresh_token_of, token_error};
use crate::refresh_token::{ExpectedNonce, RefreshToken};

/// A provider's answer to a refresh token.
#[derive(Debug)]
pub struct Refreshed {
    /// The token that replaces the one that was sent; `None` if that one stays valid.
    pub token: Option<RefreshToken>,
    /// The person, with current claims: those of the ID token, or without one those of UserInfo, if it is used. `None` without both.
    pub person: Result<Option<Person>, ProviderError>,
}

impl Provider {
    /// Time after which the provider is asked again about the person of a session; `None` for not before the next sign-in.
    pub fn refresh_interval(&self) -> Option<Duration> {
        self.settings.refresh_interval
    }

    /// Asks the provider again about a person. The token may be used up afterwards, whatever the result.
    ///
    /// # Errors
    /// [`ProviderError::Refused`] if the token is no longer valid: the session at the provider has ended, the account is disabled, or
    /// the token was used twice. Other errors say nothing about the person.
    pub async fn refresh(&self, token: &RefreshToken, now: Timestamp) -> Result<Refreshed, ProviderError> {
        let known = self.metadata.current(&self.http, self.issuer(), now).await?;
        let sent = openidconnect::RefreshToken::new(token.token.expose_secret().to_owned());
        let client = self.client(&known);
        let request = client.exchange_refresh_token(&sent).map_err(ProviderError::unavailable)?;
        let tokens = request.request_async(&self.http).await.map_err(refresh_error)?;
        let person = match tokens.id_token() {
            // Not every provider sends an ID token. What UserInfo says came over a connection that authenticates the provider.
            None if self.settings.userinfo => {
                let claims = self.user_info(&client, tokens.access_token().clone(), None).await;
                claims.and_then(|claims| Person::new(&self.settings, claims)).map(Some)
            }
            None => Ok(None),
            Some(_) => {
                self.person(known, &tokens, ExpectedNonce::IfPresent(&token.nonce), now).await.map(Some)
            }
        };
        Ok(Refreshed { token: refresh_token_of(&tokens, &token.nonce), person })
    }
}

/// Only `invalid_grant` is about the person; other errors are about this client or the provider.
pub(crate) fn refresh_error(error: TokenRequestError) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(response)
            if *response.error() != CoreErrorResponseType::InvalidGrant =>
        {
            ProviderError::unavailable(response.to_string())
        }
        other => token_error(other),
    }
}
