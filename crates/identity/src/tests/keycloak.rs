//! Recorded from Keycloak 26.7.3, with the clock set to the time of the recording.

use openidconnect::{Nonce, NonceVerifier as _, RequestTokenError};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{at, known, person, provider};
use crate::logout_token::{self, Expected};
use crate::provider::Tokens;
use crate::refresh::refresh_error;
use crate::refresh_token::ExpectedNonce;
use crate::{AccessTokenSettings, ProviderError, ProviderSettings, access_token};

const ISSUER: &str = "http://127.0.0.1:18090/realms/shop";
const ISSUED: i64 = 1_795_636_573;
/// Audience that a mapper of the realm adds to tokens of the client `agent`.
const MCP: &str = "http://127.0.0.1:8080/mcp";
const NONCE: &str = "n0nce";
const LOGOUT_TOKEN: &str = include_str!("keycloak-26.7.3/logout-token.txt");

fn recorded(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn keycloak() -> std::sync::Arc<crate::metadata::Known> {
    known(
        &recorded(include_str!("keycloak-26.7.3/discovery.json")),
        &recorded(include_str!("keycloak-26.7.3/jwks.json")),
    )
}

fn response() -> Value {
    recorded(include_str!("keycloak-26.7.3/token-response.json"))
}

#[tokio::test]
async fn a_sign_in_gives_the_person() {
    let (provider, known) = (provider(ISSUER), keycloak());
    let person = person(&provider, &known, &response(), NONCE, ISSUED).await.unwrap();
    assert_eq!(
        (person.issuer.as_str(), person.subject.as_str()),
        (ISSUER, "1ca64066-f7f7-463e-9110-4da14fa0369b")
    );
    assert_eq!(person.username.as_deref(), Some("paula"));
    assert_eq!(person.session.as_deref(), Some("Rz2rUXlp14YfNWkimBEeCqvs"));
    assert_eq!(person.claims["groups"], json!(["/payments"]));
    assert_eq!(person.claims["tenants"], json!(["acme", "globex"]));
    assert!(!person.claims.contains_key("nonce") && !person.claims.contains_key("at_hash"));
}

#[tokio::test]
async fn another_time_nonce_or_issuer_is_refused() {
    let (own, known) = (provider(ISSUER), keycloak());
    for (now, nonce, accepted) in [
        (ISSUED, NONCE, true),
        (ISSUED + 299, NONCE, true),
        (ISSUED + 300, NONCE, false),
        (ISSUED - 60, NONCE, true),
        (ISSUED - 61, NONCE, false),
        (ISSUED, "other", false),
        (ISSUED, "", false),
    ] {
        let result = person(&own, &known, &response(), nonce, now).await;
        assert_eq!(result.is_ok(), accepted, "{now} {nonce}");
    }
    // The issuer of the metadata is that of the configuration, which discovery compares.
    let other = provider("http://127.0.0.1:18090/realms/other");
    let discovery = recorded(include_str!("keycloak-26.7.3/discovery.json"));
    let mut discovery_of_other = discovery.clone();
    discovery_of_other["issuer"] = json!("http://127.0.0.1:18090/realms/other");
    let jwks = recorded(include_str!("keycloak-26.7.3/jwks.json"));
    let result = person(&other, &super::known(&discovery_of_other, &jwks), &response(), NONCE, ISSUED).await;
    assert!(result.unwrap_err().is_invalid_answer());
}

#[tokio::test]
async fn other_tokens_are_not_id_tokens() {
    let (provider, known) = (provider(ISSUER), keycloak());
    let access_token = response()["access_token"].clone();
    for token in [access_token, json!(LOGOUT_TOKEN.trim()), json!(""), json!("a.b.c")] {
        let mut response = response();
        response["id_token"] = token.clone();
        assert!(person(&provider, &known, &response, NONCE, ISSUED).await.is_err(), "{token}");
    }
    // The hash in the ID token binds it to the access token of the same response.
    let mut response = response();
    response["access_token"] = json!("another access token");
    let error = person(&provider, &known, &response, NONCE, ISSUED).await.unwrap_err();
    assert!(error.is_invalid_answer());
    let without: Result<Tokens, _> =
        serde_json::from_value(json!({"access_token": "x", "token_type": "Bearer"}));
    assert!(without.is_ok(), "an answer without an ID token is refused later");
}

#[test]
fn an_access_token_names_person_and_client() {
    let known = keycloak();
    let token = include_str!("keycloak-26.7.3/agent-access-token.txt").trim();
    let accepted = AccessTokenSettings {
        mcp_audiences: None,
        rest_audiences: None,
        token_types: vec!["jwt".to_owned()],
        clients: Vec::new(),
        introspection: false,
        userinfo: false,
        cache_ttl: None,
    };
    let verify = |token: &str, audience: &str, accepted: &AccessTokenSettings, now: i64| {
        let settings =
            ProviderSettings { access_tokens: Some(accepted.clone()), ..provider(ISSUER).settings };
        let verified = access_token::verify(token, &known.keys, &settings, &[audience.to_owned()], at(now))?;
        verified.map(|token| token.into_access_token(&settings)).transpose()
    };
    let found = verify(token, MCP, &accepted, ISSUED + 1).unwrap().unwrap();
    assert_eq!(found.client.as_deref(), Some("agent"));
    assert_eq!(found.scopes, ["openid", "email", "profile"]);
    assert_eq!(found.person.subject, "1ca64066-f7f7-463e-9110-4da14fa0369b");
    assert_eq!(found.person.session.as_deref(), Some("_ttPjqGT1Q7DEY9CNw7S0jH9"));
    // `typ` of Keycloak's tokens is `JWT`, which has to be configured.
    let default_types = AccessTokenSettings { token_types: vec!["at+jwt".to_owned()], ..accepted.clone() };
    let other_clients = AccessTokenSettings { clients: vec!["other".to_owned()], ..accepted.clone() };
    for (audience, settings, now) in [
        (MCP, &default_types, ISSUED + 1),
        (MCP, &other_clients, ISSUED + 1),
        ("http://127.0.0.1:8080/", &accepted, ISSUED + 1),
        (MCP, &accepted, ISSUED + 301),
        (MCP, &accepted, ISSUED - 60),
    ] {
        assert!(verify(token, audience, settings, now).is_err(), "{audience} {now}");
    }
    // Neither the ID token nor the access token of a sign-in, whatever the audiences.
    for (name, audience) in [("id_token", super::CLIENT_ID), ("access_token", MCP), ("refresh_token", MCP)] {
        let response = response();
        if let Some(token) = response[name].as_str() {
            assert!(verify(token, audience, &accepted, ISSUED).is_err(), "{name}");
        }
    }
}

#[test]
fn a_logout_token_names_session_and_person() {
    let known = keycloak();
    let verify = |issuer: &str, client_id: &str, now: i64| {
        let expected = Expected { issuer, client_id, now: at(now) };
        logout_token::verify(LOGOUT_TOKEN.trim(), &known.keys, &expected)
    };
    let token = verify(ISSUER, super::CLIENT_ID, ISSUED).unwrap().unwrap();
    assert_eq!(token.session.as_deref(), Some("Rz2rUXlp14YfNWkimBEeCqvs"));
    assert_eq!(token.subject.as_deref(), Some("1ca64066-f7f7-463e-9110-4da14fa0369b"));
    assert_eq!(token.id, "026620b8-0a2a-a3d4-8bfd-7652ba9cc708");
    for (issuer, client_id, now) in [
        ("http://127.0.0.1:18090/realms/other", super::CLIENT_ID, ISSUED),
        (ISSUER, "another", ISSUED),
        (ISSUER, super::CLIENT_ID, ISSUED + 121),
        (ISSUER, super::CLIENT_ID, ISSUED - 60),
    ] {
        assert!(verify(issuer, client_id, now).is_err(), "{issuer} {client_id} {now}");
    }
    // An ID token ends no session.
    let id_token = response()["id_token"].as_str().unwrap().to_owned();
    let expected = Expected { issuer: ISSUER, client_id: super::CLIENT_ID, now: at(ISSUED) };
    assert!(logout_token::verify(&id_token, &known.keys, &expected).is_err());
}

#[test]
fn refused_refreshes_end_the_session() {
    for recorded in [
        include_str!("keycloak-26.7.3/refresh-after-logout.json"),
        include_str!("keycloak-26.7.3/refresh-disabled-account.json"),
    ] {
        let error = refresh_error(RequestTokenError::ServerResponse(serde_json::from_str(recorded).unwrap()));
        assert!(matches!(error, ProviderError::Refused(_)), "{error:?}");
    }
    for code in ["invalid_client", "server_error", "temporarily_unavailable", "slow_down"] {
        let response = serde_json::from_value(json!({ "error": code })).unwrap();
        let error = refresh_error(RequestTokenError::ServerResponse(response));
        assert!(matches!(error, ProviderError::Unavailable(_)), "{error:?}");
    }
}

/// A refresh may give an ID token without a nonce, but not with another one.
#[tokio::test]
async fn a_refreshed_id_token_may_lack_the_nonce() {
    let tokens: Tokens = serde_json::from_value(response()).unwrap();
    let confirmed = async |nonce: &str| {
        let nonce = SecretString::from(nonce);
        provider(ISSUER).person(keycloak(), &tokens, ExpectedNonce::IfPresent(&nonce), at(ISSUED)).await
    };
    assert!(confirmed(NONCE).await.is_ok());
    assert!(confirmed("another").await.is_err());
    for (nonce, sent, is_ok) in
        [(None, "a", true), (Some("a"), "a", true), (Some("b"), "a", false), (Some(""), "a", false)]
    {
        let (nonce, sent) = (nonce.map(|nonce| Nonce::new(nonce.to_owned())), SecretString::from(sent));
        assert_eq!(ExpectedNonce::IfPresent(&sent).verify(nonce.as_ref()).is_ok(), is_ok);
        assert_eq!(ExpectedNonce::Required(&sent).verify(nonce.as_ref()).is_ok(), is_ok && nonce.is_some());
    }
}
