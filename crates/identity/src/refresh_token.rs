//! What a sign-in leaves for refreshes.

use std::borrow::Cow;

use openidconnect::{Nonce, NonceVerifier};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

/// What a sign-in leaves to ask the provider again about the person.
#[derive(Debug, Clone)]
pub struct RefreshToken {
    pub(crate) token: SecretString,
    /// Nonce of the sign-in.
    pub(crate) nonce: SecretString,
}

/// [`RefreshToken`] as text.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    token: Cow<'a, str>,
    nonce: Cow<'a, str>,
}

impl RefreshToken {
    pub(crate) fn new(token: SecretString, nonce: SecretString) -> Self {
        Self { token, nonce }
    }

    /// Returns the token as text, which must not be stored in the clear.
    ///
    /// # Errors
    /// None that is known: the members are text.
    pub fn to_text(&self) -> Result<SecretString, serde_json::Error> {
        let stored =
            Stored { token: self.token.expose_secret().into(), nonce: self.nonce.expose_secret().into() };
        serde_json::to_string(&stored).map(SecretString::from)
    }

    /// Reads what [`Self::to_text`] returned.
    ///
    /// # Errors
    /// If the text is another one.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        let Stored { token, nonce } = serde_json::from_str(text)?;
        Ok(Self { token: token.into_owned().into(), nonce: nonce.into_owned().into() })
    }
}

/// The nonce that an ID token must have.
#[derive(Clone, Copy)]
pub(crate) enum ExpectedNonce<'a> {
    Required(&'a SecretString),
    /// After a refresh, the ID token need not have one.
    IfPresent(&'a SecretString),
}

impl NonceVerifier for ExpectedNonce<'_> {
    fn verify(self, nonce: Option<&Nonce>) -> Result<(), String> {
        let expected = match self {
            Self::IfPresent(_) if nonce.is_none() => return Ok(()),
            Self::IfPresent(expected) | Self::Required(expected) => expected,
        };
        (&Nonce::new(expected.expose_secret().to_owned())).verify(nonce)
    }
}
