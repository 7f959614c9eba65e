//! Tokens with which providers end sessions: OpenID Connect Back-Channel Logout 1.0, section 2.4.

use std::collections::HashSet;

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;

use crate::error::ProviderError;
use crate::settings::CLOCK_LEEWAY_SECONDS;

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A token that was issued longer ago is refused even if it has not expired.
const MAX_AGE_SECONDS: i64 = 600;

const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// A verified logout token. At least one of `subject` and `session` is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    /// `sub` of the person.
    pub subject: Option<String>,
    /// Id of the session at the provider.
    pub session: Option<String>,
    /// Id of the token, which may be used once.
    pub id: String,
    /// When the token expires by itself.
    pub expires_at: Timestamp,
}

/// What the token must contain.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) now: Timestamp,
}

#[derive(Deserialize)]
struct LogoutClaims {
    iat: i64,
    exp: i64,
    jti: String,
    events: Map<String, Value>,
    sub: Option<String>,
    sid: Option<String>,
    nonce: Option<Value>,
}

/// Verifies a token. Returns `None` if its key is not among these.
pub(crate) fn verify(
    token: &str,
    keys: &JwkSet,
    expected: &Expected<'_>,
) -> Result<Option<LogoutToken>, ProviderError> {
    let header = decode_header(token).map_err(ProviderError::invalid)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(ProviderError::invalid("the algorithm of the logout token is not accepted"));
    }
    // `logout+jwt` is recommended. An ID token or an access token of another type must not count.
    let is_logout = |typ: &str| ["logout+jwt", "jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
    if header.typ.as_deref().is_some_and(|typ| !is_logout(typ)) || header.crit.is_some() {
        return Err(ProviderError::invalid("the token is not a logout token"));
    }
    let Some(key) = key(keys, header.kid.as_deref(), header.alg) else { return Ok(None) };
    let key = DecodingKey::from_jwk(key).map_err(ProviderError::invalid)?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.required_spec_claims = HashSet::from(["iss".to_owned(), "aud".to_owned()]);
    // Checked below, with our clock.
    validation.validate_exp = false;
    let claims: LogoutClaims = decode(token, &key, &validation).map_err(ProviderError::invalid)?.claims;

    let now = expected.now.as_nanos().div_euclid(1_000_000_000);
    if claims.exp <= now || claims.iat > now + CLOCK_LEEWAY_SECONDS || claims.iat < now - MAX_AGE_SECONDS {
        return Err(ProviderError::invalid("the logout token has expired, or was issued in the future"));
    }
    if !claims.events.get(EVENT).is_some_and(Value::is_object) || claims.nonce.is_some() {
        return Err(ProviderError::invalid("the token is not a logout token"));
    }
    let (subject, session) =
        (claims.sub.filter(|text| !text.is_empty()), claims.sid.filter(|text| !text.is_empty()));
    if claims.jti.is_empty() || subject.is_none() && session.is_none() {
        return Err(ProviderError::invalid("the logout token has no `jti`, or neither `sub` nor `sid`"));
    }
    let expires_at = Timestamp::from_nanos(claims.exp.saturating_mul(1_000_000_000));
    Ok(Some(LogoutToken { subject, session, id: claims.jti, expires_at }))
}

/// Returns the key with this id, or without an id the only one for the algorithm.
fn key<'a>(keys: &'a JwkSet, id: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let common = &key.common;
        let is_for_signatures =
            common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
        let has_algorithm =
            common.key_algorithm.is_none_or(|known| known.to_string() == format!("{algorithm:?}"));
        let is_of_family =
            DecodingKey::from_jwk(key).is_ok_and(|decoded| decoded.family() == algorithm.family());
        is_for_signatures
            && has_algorithm
            && is_of_family
            && id.is_none_or(|id| common.key_id.as_deref() == Some(id))
    };
    let mut found = keys.keys.iter().filter(fits);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}
