//! Signatures of tokens that the library for sign-in does not verify: logout tokens and access tokens.

use std::collections::HashSet;

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::error::ProviderError;

/// Asymmetric ones. With a symmetric one, everyone who knows the key for checking could sign.
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

/// What a token must contain, besides a valid signature.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    /// The token must be for at least one of these.
    pub(crate) audiences: &'a [String],
    /// Whether a `typ` of the header, in lower case and without `application/`, is one of such tokens; `None` when it is absent.
    pub(crate) is_type: &'a (dyn Fn(Option<&str>) -> bool + Sync),
}

/// Verifies signature, type, issuer and audience of a token. Returns its claims, or `None` if its key is not among these. The caller
/// checks the times.
pub(crate) fn verify(
    token: &str,
    keys: &JwkSet,
    expected: &Expected<'_>,
) -> Result<Option<Map<String, Value>>, ProviderError> {
    let header = decode_header(token).map_err(ProviderError::invalid)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(ProviderError::invalid("the algorithm of the token is not accepted"));
    }
    let typ = header.typ.map(|typ| typ.to_ascii_lowercase());
    let typ = typ.as_deref().map(|typ| typ.strip_prefix("application/").unwrap_or(typ));
    if !(expected.is_type)(typ) || header.crit.is_some() {
        return Err(ProviderError::invalid("the type of the token is not accepted"));
    }
    let Some(key) = key(keys, header.kid.as_deref(), header.alg) else { return Ok(None) };
    let key = DecodingKey::from_jwk(key).map_err(ProviderError::invalid)?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(expected.audiences);
    validation.required_spec_claims = HashSet::from(["iss".to_owned(), "aud".to_owned()]);
    // Checked by the callers, with our clock.
    validation.validate_exp = false;
    Ok(Some(decode(token, &key, &validation).map_err(ProviderError::invalid)?.claims))
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
