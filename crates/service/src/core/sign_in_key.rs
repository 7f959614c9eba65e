//! The key from which the secrets of sign-ins with identity providers are derived.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::Secret;
use crate::core::error::{Result, ServiceError};

/// Key of the HMAC from which the secrets of sign-ins are derived.
pub(crate) struct SignInKey(Hmac<Sha256>);

impl SignInKey {
    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        Hmac::new_from_slice(key)
            .map(Self)
            .map_err(|_| ServiceError::internal("the stored key of sign-ins has the wrong length"))
    }

    /// Derives one secret of the sign-in with this cookie. `purpose` separates the secrets.
    pub(crate) fn mac(&self, purpose: &str, cookie: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(purpose.as_bytes());
        mac.update(b":");
        mac.update(cookie.as_bytes());
        mac
    }

    pub(crate) fn secret(&self, purpose: &str, cookie: &str) -> Secret {
        // 43 characters, as PKCE requires at least.
        URL_SAFE_NO_PAD.encode(self.mac(purpose, cookie).finalize().into_bytes()).into()
    }
}
