//! The key that hides user names of failed sign-ins.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::core::error::{Result, ServiceError};

/// Key of the HMAC under which attempted user names are stored. People type passwords into the name field by mistake: an
/// attacker who obtains the table could recover them from a plain digest by guessing, which is fast for passwords that people
/// choose.
pub(crate) struct UsernameKey(Hmac<Sha256>);

impl UsernameKey {
    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        Hmac::new_from_slice(key)
            .map(Self)
            .map_err(|_| ServiceError::internal("the stored key of names has the wrong length"))
    }

    pub(crate) fn digest(&self, name: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(name.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}
