//! Access tokens with which a person's programs call this service (OAuth 2.1; JWT as in RFC 9068).

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde_json::{Map, Value};
use tracewarden_model::Timestamp;

use crate::error::ProviderError;
use crate::jwt;
use crate::person::{Person, add_user_info};
use crate::settings::{AccessTokenSettings, CLOCK_LEEWAY_SECONDS, ProviderSettings};

/// Claims with the id of the client, by provider: RFC 9068, OpenID Connect and Keycloak, Okta, Entra.
const CLIENT_CLAIMS: [&str; 4] = ["client_id", "azp", "cid", "appid"];

/// Claims with the scopes: RFC 9068, Okta and Entra.
const SCOPE_CLAIMS: [&str; 2] = ["scope", "scp"];

/// A verified access token.
#[derive(Debug, Clone)]
pub struct AccessToken {
    /// Name of the provider.
    pub provider: String,
    /// The person on whose behalf the program calls, by the token's claims.
    pub person: Person,
    /// Id of the client that the token was issued to, if the token names one.
    pub client: Option<String>,
    /// Scopes.
    pub scopes: Vec<String>,
    /// When the token was issued.
    pub issued_at: Timestamp,
    /// When the token expires.
    pub expires_at: Timestamp,
}

#[derive(Deserialize)]
struct TokenClaims {
    iat: i64,
    exp: i64,
    nbf: Option<i64>,
    /// Keycloak's kind of token.
    typ: Option<String>,
}

/// A verified access token whose person is not read yet: claims can be missing.
#[derive(Debug)]
pub struct VerifiedToken {
    /// Name of the provider.
    pub provider: String,
    claims: Map<String, Value>,
    client: Option<String>,
    scopes: Vec<String>,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

impl VerifiedToken {
    /// Subject at the provider.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.claims.get("sub").and_then(Value::as_str)
    }

    pub(crate) fn add_user_info(&mut self, user_info: Map<String, Value>) {
        add_user_info(&mut self.claims, user_info);
    }

    pub(crate) fn into_access_token(self, settings: &ProviderSettings) -> Result<AccessToken, ProviderError> {
        let Self { provider, claims, client, scopes, issued_at, expires_at } = self;
        let person = Person::new(settings, claims)?;
        Ok(AccessToken { provider, person, client, scopes, issued_at, expires_at })
    }
}

/// Verifies a token. Returns `None` if its key is not among these.
pub(crate) fn verify(
    token: &str,
    keys: &JwkSet,
    settings: &ProviderSettings,
    audiences: &[String],
    now: Timestamp,
) -> Result<Option<VerifiedToken>, ProviderError> {
    let accepted = settings.accepted_tokens()?;
    let is_type =
        |typ: Option<&str>| accepted.token_types.iter().any(|accepted| Some(accepted.as_str()) == typ);
    let expected = jwt::Expected { issuer: &settings.issuer, audiences, is_type: &is_type };
    match jwt::verify(token, keys, &expected)? {
        Some(claims) => check(claims, settings, accepted, now).map(Some),
        None => Ok(None),
    }
}

/// Checks a provider's answer about an opaque token, which came over a connection that authenticates the provider. The token must be
/// for one of the audiences.
pub(crate) fn check_introspection(
    claims: Map<String, Value>,
    settings: &ProviderSettings,
    audiences: &[String],
    now: Timestamp,
) -> Result<VerifiedToken, ProviderError> {
    let accepted = settings.accepted_tokens()?;
    if claims.get("active") != Some(&Value::Bool(true)) {
        return Err(ProviderError::invalid("the provider says that the token is not active"));
    }
    if claims.get("iss").is_some_and(|issuer| issuer.as_str() != Some(&settings.issuer)) {
        return Err(ProviderError::invalid("the token is of another issuer"));
    }
    let is_for =
        |audience: &Value| audience.as_str().is_some_and(|text| audiences.iter().any(|known| known == text));
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(found)) => found.iter().any(is_for),
        Some(found) => is_for(found),
        None => false,
    };
    if !is_for_us {
        return Err(ProviderError::invalid("the token is for another audience"));
    }
    // Endpoints answer about refresh tokens, too.
    let is_text = |name: &str, expected: &str| {
        claims
            .get(name)
            .is_none_or(|value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(expected)))
    };
    if !is_text("token_use", "access_token") || !is_text("token_type", "Bearer") {
        return Err(ProviderError::invalid("the token is not a bearer access token"));
    }
    check(claims, settings, accepted, now)
}

/// Checks claims whose issuer and audience are right.
fn check(
    claims: Map<String, Value>,
    settings: &ProviderSettings,
    accepted: &AccessTokenSettings,
    now: Timestamp,
) -> Result<VerifiedToken, ProviderError> {
    let refuse = |reason: &'static str| Err(ProviderError::invalid(reason));
    // A token for our own sign-in client is an ID token or belongs to a browser's sign-in.
    let is_ours = |audience: &Value| audience.as_str() == Some(&settings.client_id);
    let has_own_client = match claims.get("aud") {
        Some(Value::Array(audiences)) => audiences.iter().any(is_ours),
        Some(audience) => is_ours(audience),
        None => true,
    };
    if has_own_client {
        return refuse("the token is for the client with which people sign in here");
    }
    if ["at_hash", "c_hash", "events"].iter().any(|name| claims.contains_key(*name)) {
        return refuse("the token is an ID token or a logout token");
    }
    if claims.contains_key("cnf") {
        // Without a check of its proof, a stolen token would open what it must not.
        return refuse("the token is bound to a key, which is not supported");
    }
    let times: TokenClaims =
        serde_json::from_value(Value::Object(claims.clone())).map_err(ProviderError::invalid)?;
    if times.typ.is_some_and(|typ| !typ.eq_ignore_ascii_case("Bearer")) {
        return refuse("the token is not a bearer token");
    }
    let seconds = now.as_nanos().div_euclid(1_000_000_000);
    let latest = seconds.saturating_add(CLOCK_LEEWAY_SECONDS);
    if times.exp <= seconds {
        return refuse("the token has expired");
    }
    if times.iat > latest || times.nbf.is_some_and(|nbf| nbf > latest) {
        return refuse("the token is not valid yet");
    }
    let client = CLIENT_CLAIMS.iter().find_map(|name| claims.get(*name)?.as_str()).map(str::to_owned);
    // With the grant type `client_credentials`, a program calls on its own behalf.
    let subject = claims.get("sub");
    let is_client = |name: &&str| subject.is_some() && claims.get(*name) == subject;
    if CLIENT_CLAIMS.iter().any(is_client) || claims.get("idtyp").is_some_and(|kind| kind == "app") {
        return refuse("the token is a program's own, not a person's");
    }
    let is_accepted = |client: &String| accepted.clients.contains(client);
    if !accepted.clients.is_empty() && !client.as_ref().is_some_and(is_accepted) {
        return refuse("the client of the token is not accepted");
    }
    let scopes = SCOPE_CLAIMS.iter().find_map(|name| claims.get(*name)).map(texts).unwrap_or_default();
    let at = |seconds: i64| Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000));
    let (provider, issued_at, expires_at) = (settings.name.clone(), at(times.iat), at(times.exp));
    Ok(VerifiedToken { provider, claims, client, scopes, issued_at, expires_at })
}

/// Reads a text with spaces, or a list of texts.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
