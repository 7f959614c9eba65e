//! Tokens with which providers end sessions: OpenID Connect Back-Channel Logout 1.0, section 2.4.

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;

use crate::error::ProviderError;
use crate::jwt;
use crate::settings::CLOCK_LEEWAY_SECONDS;

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A token that was issued longer ago is refused even if it has not expired.
const MAX_AGE_SECONDS: i64 = 600;

/// A verified logout token. At least one of `subject` and `session` is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    /// `sub` of the person.
    pub subject: Option<String>,
    /// Id of the session at the provider.
    pub session: Option<String>,
    /// Id of the token, which may be used once.
    pub id: String,
    /// When the token was issued, by the clock of the provider.
    pub issued_at: Timestamp,
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
    // `logout+jwt` is recommended. An ID token or an access token of another type must not count.
    let is_type = |typ: Option<&str>| typ.is_none_or(|typ| typ == "logout+jwt" || typ == "jwt");
    let audiences = [expected.client_id.to_owned()];
    let expected_token = jwt::Expected { issuer: expected.issuer, audiences: &audiences, is_type: &is_type };
    let Some(claims) = jwt::verify(token, keys, &expected_token)? else { return Ok(None) };
    let claims: LogoutClaims =
        serde_json::from_value(Value::Object(claims)).map_err(ProviderError::invalid)?;

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
    let at = |seconds: i64| Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000));
    let (issued_at, expires_at) = (at(claims.iat), at(claims.exp));
    Ok(Some(LogoutToken { subject, session, id: claims.jti, issued_at, expires_at }))
}
