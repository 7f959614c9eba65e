//! Errors of identity providers.

use std::error::Error;

type Cause = Box<dyn Error + Send + Sync>;

/// Why a provider's answer cannot be used. `Display` is for everyone; the sources are for the log only.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The provider does not answer, or its metadata cannot be used.
    #[error("the identity provider cannot be reached, or is not set up as configured")]
    Unavailable(#[source] Cause),
    /// The provider refuses the authorization code or this client.
    #[error("the identity provider refused the sign-in")]
    Refused(#[source] Cause),
    /// The answer is not valid.
    #[error("the answer of the identity provider is not valid")]
    Invalid(#[source] Cause),
}

impl ProviderError {
    /// Whether an answer or a token is not valid, rather than missing.
    pub fn is_invalid_answer(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }

    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    pub(crate) fn invalid(cause: impl Into<Cause>) -> Self {
        Self::Invalid(cause.into())
    }
}
