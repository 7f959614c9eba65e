//! Encryption with authentication of small texts: XChaCha20-Poly1305.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tracewarden_model::Entropy;

use crate::core::error::{Result, ServiceError, UnsealError};

const NONCE_BYTES: usize = 24;

/// An encryption key of 32 bytes.
pub(crate) struct SealingKey(XChaCha20Poly1305);

impl SealingKey {
    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        XChaCha20Poly1305::new_from_slice(key)
            .map(Self)
            .map_err(|_| ServiceError::internal("an encryption key has the wrong length"))
    }

    /// Encrypts into base64url. The text can be opened with the same `purpose` only.
    pub(crate) fn seal(&self, plain: &[u8], purpose: &[u8], entropy: &dyn Entropy) -> Result<String> {
        // 24 random bytes: replicas need not share a counter, and a repeated nonce is practically impossible.
        let mut nonce = [0_u8; NONCE_BYTES];
        entropy.fill(&mut nonce)?;
        let payload = Payload { msg: plain, aad: purpose };
        let sealed = self
            .0
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| ServiceError::internal("a text could not be encrypted"))?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), sealed.as_slice()].concat()))
    }

    /// Decrypts a text that [`Self::seal`] returned.
    pub(crate) fn open(&self, text: &str, purpose: &[u8]) -> std::result::Result<Vec<u8>, UnsealError> {
        let bytes = URL_SAFE_NO_PAD.decode(text)?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(UnsealError::TooShort)?;
        let payload = Payload { msg: sealed, aad: purpose };
        self.0.decrypt(&XNonce::from(*nonce), payload).map_err(|_| UnsealError::OtherKey)
    }
}
