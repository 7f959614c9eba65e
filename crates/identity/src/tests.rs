//! Tokens of a recorded Keycloak, and tokens that are altered in every part.

mod keycloak;
mod mutations;

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::Value;
use tracewarden_model::Timestamp;

use crate::metadata::{Known, usable_keys};
use crate::refresh_token::ExpectedNonce;
use crate::{AccessTokenSettings, Person, Provider, ProviderError, ProviderSettings};

const CLIENT_ID: &str = "tracewarden";

fn provider(issuer: &str) -> Provider {
    // A second installation in the same process fails, which is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = ProviderSettings {
        name: "company".to_owned(),
        label: "Company".to_owned(),
        issuer: issuer.to_owned(),
        client_id: CLIENT_ID.to_owned(),
        client_secret: Some(SecretString::from("secret")),
        scopes: Vec::new(),
        subject: vec!["sub".to_owned()],
        username: "preferred_username".to_owned(),
        userinfo: false,
        ca_certificates: None,
        refresh_interval: None,
        access_tokens: Some(AccessTokenSettings {
            mcp_audiences: None,
            rest_audiences: None,
            token_types: vec!["at+jwt".to_owned()],
            clients: vec!["agent".to_owned()],
            introspection: false,
            userinfo: false,
            cache_ttl: None,
        }),
    };
    Provider::new(settings, "https://traces.example.com".into()).unwrap()
}

/// Metadata and keys without a provider that serves them.
fn known(discovery: &Value, jwks: &Value) -> Arc<Known> {
    let metadata: crate::metadata::Metadata = serde_json::from_value(discovery.clone()).unwrap();
    let metadata = metadata.set_jwks(serde_json::from_value(jwks.clone()).unwrap());
    let keys = usable_keys(metadata.jwks());
    Arc::new(Known { metadata, keys })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

async fn person(
    provider: &Provider,
    known: &Arc<Known>,
    response: &Value,
    nonce: &str,
    now: i64,
) -> Result<Person, ProviderError> {
    // As the HTTP client hands it over; a response that is not one is an error there.
    let tokens = serde_json::from_value(response.clone()).map_err(ProviderError::invalid)?;
    let nonce = SecretString::from(nonce);
    provider.person(Arc::clone(known), &tokens, ExpectedNonce::Required(&nonce), at(now)).await
}
