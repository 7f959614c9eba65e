//! One sign-in with an identity provider, from the redirect to the provider until its response. A cookie holds it: nothing is
//! stored for clients that are not signed in. The secrets of the sign-in follow from the cookie and a key that all replicas share.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use serde::{Deserialize, Serialize};
use tracewarden_identity::SignInSecrets;
use tracewarden_model::{Entropy, Timestamp};

use crate::core::{Result, ServiceError, SignInKey};

/// Time within which a person signs in at the provider.
const LIFETIME_NANOS: i64 = 600 * 1_000_000_000;

/// Content of the cookie.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    provider: String,
    return_to: Option<String>,
    /// In microseconds since the epoch.
    began_at: i64,
    random: String,
}

/// A sign-in in progress.
#[derive(Debug)]
pub(super) struct Attempt {
    content: Content,
    /// Value of the cookie.
    pub(super) cookie: String,
}

impl Attempt {
    pub(super) fn begin(
        provider: &str,
        return_to: Option<String>,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> Result<Self> {
        let mut random = [0_u8; 32];
        entropy.fill(&mut random)?;
        let content = Content {
            provider: provider.to_owned(),
            return_to,
            began_at: now.as_micros(),
            random: URL_SAFE_NO_PAD.encode(random),
        };
        let json = serde_json::to_vec(&content).map_err(|error| ServiceError::failed("a sign-in", error))?;
        Ok(Self { content, cookie: URL_SAFE_NO_PAD.encode(json) })
    }

    /// Returns the sign-in of a cookie, if it began in this browser with this provider, `state` is the one that was sent to the
    /// provider, and the time has not run out. Anyone can make a cookie, but only with the key the `state` that fits.
    pub(super) fn resume(
        cookie: &str,
        key: &SignInKey,
        provider: &str,
        state: &str,
        now: Timestamp,
    ) -> Option<Self> {
        let state = URL_SAFE_NO_PAD.decode(state).ok()?;
        key.mac("state", cookie).verify_slice(&state).ok()?;
        let content: Content = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cookie).ok()?).ok()?;
        let attempt = Self { content, cookie: cookie.to_owned() };
        (attempt.content.provider == provider && attempt.expires_at() > now).then_some(attempt)
    }

    pub(super) fn began_at(&self) -> Timestamp {
        Timestamp::from_micros(self.content.began_at)
    }

    pub(super) fn expires_at(&self) -> Timestamp {
        self.began_at().saturating_add(LIFETIME_NANOS)
    }

    pub(super) fn secrets(&self, key: &SignInKey) -> SignInSecrets {
        SignInSecrets {
            state: key.secret("state", &self.cookie),
            nonce: key.secret("nonce", &self.cookie),
            code_verifier: key.secret("code_verifier", &self.cookie),
        }
    }

    pub(super) fn into_return_to(self) -> Option<String> {
        self.content.return_to
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;
    use tracewarden_model::ambient::EntropyError;

    use super::*;

    struct Fixed(u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    fn key(byte: u8) -> SignInKey {
        SignInKey::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn only_the_state_of_the_cookie_resumes_a_sign_in() {
        let (began, key, other_key) = (Timestamp::from_nanos(1_000), key(1), key(2));
        let attempt = Attempt::begin("company", Some("/ui/a".to_owned()), &Fixed(1), began).unwrap();
        let state = attempt.secrets(&key).state;
        let state = state.expose_secret();
        let resumes = |cookie: &str, key: &SignInKey, provider: &str, state: &str, after: i64| {
            Attempt::resume(cookie, key, provider, state, began.saturating_add(after)).is_some()
        };
        let cookie = attempt.cookie.as_str();
        assert!(resumes(cookie, &key, "company", state, 0));
        assert!(resumes(cookie, &key, "company", state, LIFETIME_NANOS - 1_000));
        assert!(!resumes(cookie, &key, "company", state, LIFETIME_NANOS));
        assert!(!resumes(cookie, &key, "other", state, 0), "mix-up of providers");
        assert!(!resumes(cookie, &other_key, "company", state, 0));
        let other = Attempt::begin("company", Some("/ui/a".to_owned()), &Fixed(2), began).unwrap();
        assert!(!resumes(&other.cookie, &key, "company", state, 0), "the cookie of another browser");
        assert!(!resumes(cookie, &key, "company", other.secrets(&key).state.expose_secret(), 0));
        for bad in ["", "a", "!", &state[1..], &format!("{state}A")] {
            assert!(!resumes(cookie, &key, "company", bad, 0), "{bad}");
            assert!(!resumes(bad, &key, "company", state, 0), "{bad}");
        }
        let resumed = Attempt::resume(cookie, &key, "company", state, began).unwrap();
        assert_eq!(resumed.into_return_to().as_deref(), Some("/ui/a"));
    }

    #[test]
    fn the_secrets_of_a_sign_in_differ() {
        let attempt = Attempt::begin("company", None, &Fixed(1), Timestamp::from_nanos(0)).unwrap();
        let SignInSecrets { state, nonce, code_verifier } = attempt.secrets(&key(1));
        let secrets = [&state, &nonce, &code_verifier].map(|secret| secret.expose_secret().to_owned());
        assert!(secrets.iter().all(|secret| secret.len() == 43 && !attempt.cookie.contains(secret.as_str())));
        assert!(secrets[0] != secrets[1] && secrets[1] != secrets[2] && secrets[0] != secrets[2]);
    }
}
