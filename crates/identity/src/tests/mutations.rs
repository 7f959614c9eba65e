//! Tokens altered in every part are rejected with an error, and none panics.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};
use tracewarden_testkit::repetitions::{self, Repetitions};

use super::{CLIENT_ID, at, known, person, provider};
use crate::answer_cache::{AnswerCache, Question};
use crate::logout_token::{self, Expected};
use crate::metadata::{Known, usable_keys};
use crate::{Provider, access_token};

const ISSUER: &str = "http://127.0.0.1:9";
const NOW: i64 = 1_800_000_000;
const NONCE: &str = "the nonce of this sign-in";
const KEY_ID: &str = "key";
/// Audience of access tokens.
const AUDIENCE: &str = "https://traces.example.com/mcp";

/// A provider with its key, and the key of someone else.
struct Signer {
    provider: Provider,
    known: Arc<Known>,
    key: EncodingKey,
    other_key: EncodingKey,
}

fn new_key() -> (EncodingKey, Value) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let key = EncodingKey::from_ec_der(&pair.serialize_der());
    let mut jwk =
        serde_json::to_value(jsonwebtoken::jwk::Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap())
            .unwrap();
    jwk["kid"] = json!(KEY_ID);
    jwk["use"] = json!("sig");
    (key, jwk)
}

impl Signer {
    fn new() -> Self {
        let ((key, jwk), (other_key, _)) = (new_key(), new_key());
        let discovery = json!({
            "issuer": ISSUER,
            "authorization_endpoint": format!("{ISSUER}/auth"),
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/jwks"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
        });
        let known = known(&discovery, &json!({"keys": [jwk]}));
        Self { provider: provider(ISSUER), known, key, other_key }
    }

    /// Returns a token with this header and payload, signed by this key.
    fn sign(&self, header: &Header, claims: &Map<String, Value>, key: &EncodingKey) -> String {
        jsonwebtoken::encode(header, claims, key).unwrap()
    }

    fn signed(&self, claims: &Map<String, Value>) -> String {
        self.sign(&header(), claims, &self.key)
    }

    async fn accepts(&self, token: &str) -> bool {
        let response = json!({"access_token": "x", "token_type": "Bearer", "id_token": token});
        person(&self.provider, &self.known, &response, NONCE, NOW).await.is_ok()
    }

    fn accepts_access(&self, token: &str) -> bool {
        let audiences = [AUDIENCE.to_owned()];
        let settings = &self.provider.settings;
        match access_token::verify(token, &self.known.keys, settings, &audiences, at(NOW)) {
            Ok(Some(verified)) => verified.into_access_token(settings).is_ok(),
            Ok(None) | Err(_) => false,
        }
    }

    async fn accepts_kind(&self, kind: Kind, token: &str) -> bool {
        match kind {
            Kind::Id => self.accepts(token).await,
            Kind::Logout => self.accepts_logout(token),
            Kind::Access => self.accepts_access(token),
        }
    }

    /// Returns a token that is accepted as this kind.
    fn valid(&self, kind: Kind) -> String {
        self.sign(&kind.header(), &kind.claims(), &self.key)
    }

    fn accepts_logout(&self, token: &str) -> bool {
        let expected = Expected { issuer: ISSUER, client_id: CLIENT_ID, now: at(NOW) };
        logout_token::verify(token, &self.known.keys, &expected).is_ok_and(|verified| verified.is_some())
    }
}

/// A kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Id,
    Logout,
    Access,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Id, Self::Logout, Self::Access];

    fn header(self) -> Header {
        match self {
            Self::Id | Self::Logout => header(),
            Self::Access => Header { typ: Some("at+jwt".to_owned()), ..header() },
        }
    }

    fn claims(self) -> Map<String, Value> {
        match self {
            Self::Id => id_claims(),
            Self::Logout => logout_claims(),
            Self::Access => access_claims(),
        }
    }
}

fn header() -> Header {
    Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn id_claims() -> Map<String, Value> {
    object(json!({
        "iss": ISSUER, "aud": CLIENT_ID, "sub": "1", "exp": NOW + 300, "iat": NOW, "nonce": NONCE,
        "preferred_username": "ada", "groups": ["/payments"], "azp": CLIENT_ID, "name": "Ada",
    }))
}

fn logout_claims() -> Map<String, Value> {
    object(json!({
        "iss": ISSUER, "aud": CLIENT_ID, "sub": "1", "sid": "s", "exp": NOW + 120, "iat": NOW, "jti": "j",
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    }))
}

fn access_claims() -> Map<String, Value> {
    object(json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "1", "exp": NOW + 300, "iat": NOW, "jti": "j", "client_id": "agent",
        "scope": "svc_get_trace", "groups": ["/payments"],
    }))
}

/// Returns the claims with one of them replaced, or removed if the value is null.
fn with(claims: &Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    let mut changed = claims.clone();
    match value {
        Value::Null => drop(changed.remove(name)),
        value => drop(changed.insert(name.to_owned(), value)),
    }
    changed
}

#[tokio::test]
async fn id_tokens_with_other_claims_are_refused() {
    let signer = Signer::new();
    let valid = id_claims();
    assert!(signer.accepts(&signer.signed(&valid)).await);
    for (name, value) in [
        ("iss", Value::Null),
        ("iss", json!("http://127.0.0.1:9/")),
        ("iss", json!("HTTP://127.0.0.1:9")),
        ("iss", json!(["http://127.0.0.1:9"])),
        ("aud", Value::Null),
        ("aud", json!("another")),
        ("aud", json!([])),
        ("aud", json!([CLIENT_ID, "another"])),
        ("aud", json!({"0": CLIENT_ID})),
        ("exp", Value::Null),
        ("exp", json!(NOW)),
        ("exp", json!(NOW - 1)),
        ("exp", json!("never")),
        ("exp", json!(-1)),
        ("iat", Value::Null),
        ("iat", json!(NOW + 61)),
        ("iat", json!("now")),
        ("nbf", json!(NOW + 61)),
        ("nbf", json!("later")),
        ("nonce", Value::Null),
        ("nonce", json!("")),
        ("nonce", json!("another")),
        ("nonce", json!([NONCE])),
        ("azp", json!("another")),
        ("azp", json!("")),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(1)),
        ("sub", json!(["1"])),
        ("sub", json!("1\u{0}")),
        ("sub", json!("x".repeat(2_000))),
        ("groups", json!("x".repeat(100_000))),
        ("groups", json!(vec!["x"; 50_000])),
        ("big", json!("x".repeat(1 << 20))),
        ("name", json!(1)),
        ("email_verified", json!("perhaps")),
    ] {
        let claims = with(&valid, name, value.clone());
        let shown = value.to_string().chars().take(60).collect::<String>();
        assert!(!signer.accepts(&signer.signed(&claims)).await, "{name}: {shown}");
    }
    // What may differ.
    for (name, value) in [
        ("aud", json!([CLIENT_ID])),
        ("azp", Value::Null),
        ("iat", json!(NOW + 60)),
        ("nbf", json!(NOW + 60)),
        ("exp", json!(NOW + 1)),
        ("preferred_username", Value::Null),
        ("groups", json!({"any": ["thing", 1, null]})),
        ("given_name", json!("Z\u{301}o\u{308}e \u{1F989} \u{202E}")),
    ] {
        assert!(signer.accepts(&signer.signed(&with(&valid, name, value.clone()))).await, "{name}: {value}");
    }
}

#[tokio::test]
async fn tokens_with_other_headers_or_keys_are_refused() {
    let signer = Signer::new();
    for kind in Kind::ALL {
        let claims = kind.claims();
        let accepts = async |token: &str| signer.accepts_kind(kind, token).await;
        let valid = signer.valid(kind);
        assert!(accepts(&valid).await, "{kind:?}");
        for other in Kind::ALL.into_iter().filter(|other| *other != kind) {
            assert!(!accepts(&signer.valid(other)).await, "{other:?} as {kind:?}");
        }
        let (payload, signature) = valid.split_once('.').unwrap().1.split_once('.').unwrap();
        let encoded = |header: &str| URL_SAFE_NO_PAD.encode(header);
        // Without a signature, and with one of another algorithm or key.
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None","typ":"JWT"}"#,
            r#"{"alg":"ES256","kid":"key","crit":["exp"]}"#,
        ] {
            assert!(!accepts(&format!("{}.{payload}.", encoded(header))).await, "{header}");
            assert!(!accepts(&format!("{}.{payload}.{signature}", encoded(header))).await, "{header}");
        }
        let public_key = serde_json::to_vec(&signer.known.keys).unwrap();
        for secret in [public_key.as_slice(), b"secret", b""] {
            let header = Header { alg: Algorithm::HS256, ..kind.header() };
            let token = signer.sign(&header, &claims, &EncodingKey::from_secret(secret));
            assert!(!accepts(&token).await, "the public key, or the client's secret, as a symmetric key");
        }
        assert!(!accepts(&signer.sign(&kind.header(), &claims, &signer.other_key)).await);
        let unknown = Header { kid: Some("unknown".to_owned()), ..kind.header() };
        assert!(!accepts(&signer.sign(&unknown, &claims, &signer.key)).await, "a key id that does not exist");
        let other_types: &[&str] = match kind {
            Kind::Id => &["at+jwt", "logout+jwt"],
            Kind::Logout => &["at+jwt", "secevent+jwt"],
            Kind::Access => &["JWT", "logout+jwt", "dpop+jwt", ""],
        };
        for typ in other_types {
            let other = Header { typ: Some((*typ).to_owned()), ..header() };
            assert!(!accepts(&signer.sign(&other, &claims, &signer.key)).await, "{kind:?}: {typ}");
        }
        for text in [
            "",
            ".",
            "..",
            "...",
            "a.b",
            &valid[1..],
            &format!("{valid}."),
            &format!("{valid}A"),
            &valid.replace('.', " "),
        ] {
            assert!(!accepts(text).await, "{text}");
        }
    }
}

#[test]
fn logout_tokens_with_other_claims_are_refused() {
    let signer = Signer::new();
    let valid = logout_claims();
    let accepts =
        |name: &str, value: Value| signer.accepts_logout(&signer.signed(&with(&valid, name, value)));
    for (name, value) in [
        ("iss", Value::Null),
        ("iss", json!("http://127.0.0.1:9/")),
        ("aud", Value::Null),
        ("aud", json!("another")),
        ("exp", Value::Null),
        ("exp", json!(NOW)),
        ("exp", json!(i64::MAX)),
        ("iat", Value::Null),
        ("iat", json!(NOW + 61)),
        ("iat", json!(NOW - 601)),
        ("jti", Value::Null),
        ("jti", json!("")),
        ("jti", json!(1)),
        ("events", Value::Null),
        ("events", json!({})),
        ("events", json!(["http://schemas.openid.net/event/backchannel-logout"])),
        ("events", json!({"http://schemas.openid.net/event/backchannel-logout": "x"})),
        ("nonce", json!("n")),
        ("sub", json!(1)),
        ("sid", json!([])),
    ] {
        let far = name == "exp" && value == json!(i64::MAX);
        assert_eq!(accepts(name, value.clone()), far, "{name}: {value}");
    }
    assert!(accepts("sid", Value::Null) && accepts("sub", Value::Null));
    let neither = with(&with(&valid, "sub", Value::Null), "sid", Value::Null);
    assert!(!signer.accepts_logout(&signer.signed(&neither)));
}

#[test]
fn access_tokens_with_other_claims_are_refused() {
    let signer = Signer::new();
    let header = Kind::Access.header();
    let accepts = |name: &str, value: Value| {
        signer.accepts_access(&signer.sign(&header, &with(&access_claims(), name, value), &signer.key))
    };
    for (name, value) in [
        ("iss", Value::Null),
        ("iss", json!("http://127.0.0.1:9/")),
        ("iss", json!("https://another.example.com")),
        ("aud", Value::Null),
        ("aud", json!("https://traces.example.com/")),
        ("aud", json!("https://traces.example.com/mcp/")),
        ("aud", json!("HTTPS://traces.example.com/mcp")),
        ("aud", json!([])),
        // The client with which people sign in, for which ID tokens are issued.
        ("aud", json!(CLIENT_ID)),
        ("aud", json!([AUDIENCE, CLIENT_ID])),
        ("exp", Value::Null),
        ("exp", json!(NOW)),
        ("exp", json!("never")),
        ("iat", Value::Null),
        ("iat", json!(NOW + 61)),
        ("iat", json!("now")),
        ("nbf", json!(NOW + 61)),
        ("nbf", json!([])),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(1)),
        ("sub", json!("1\u{0}")),
        ("cnf", json!({"jkt": "x"})),
        ("cnf", json!("")),
        ("typ", json!("ID")),
        ("typ", json!("Refresh")),
        ("typ", json!(1)),
        ("at_hash", json!("x")),
        ("events", json!({})),
        // A program's own token.
        ("sub", json!("agent")),
        ("idtyp", json!("app")),
        ("client_id", json!("another")),
        ("client_id", json!(["agent"])),
        ("client_id", json!(1)),
        ("groups", json!("x".repeat(100_000))),
        ("big", json!("x".repeat(1 << 20))),
    ] {
        let shown = value.to_string().chars().take(60).collect::<String>();
        assert!(!accepts(name, value), "{name}: {shown}");
    }
    for (name, value) in [
        ("aud", json!([AUDIENCE])),
        ("aud", json!(["https://other.example.com", AUDIENCE])),
        ("scope", Value::Null),
        ("typ", json!("Bearer")),
        ("nbf", json!(NOW + 60)),
        ("given_name", json!("Z\u{301}o\u{308}e \u{1F989} \u{202E}")),
    ] {
        assert!(accepts(name, value.clone()), "{name}: {value}");
    }
}

/// A provider may say something else about an opaque token after a while.
#[test]
fn kept_claims_are_of_the_tokens_own_person() {
    let mut provider = provider(ISSUER);
    provider.answers = AnswerCache::new(Duration::from_secs(60));
    provider.settings.access_tokens.as_mut().unwrap().userinfo = true;
    let claims = json!({"sub": "paula", "groups": ["/payments"]});
    provider.answers.put(Question::UserInfo, "token", claims.as_object().unwrap(), at(NOW));
    for (subject, is_same) in [(json!("paula"), true), (json!("ada"), false), (Value::Null, false)] {
        let mut answer = with(&access_claims(), "sub", subject.clone());
        answer.insert("active".to_owned(), json!(true));
        let audiences = [AUDIENCE.to_owned()];
        let mut token =
            access_token::check_introspection(answer, &provider.settings, &audiences, at(NOW)).unwrap();
        assert_eq!(provider.add_kept_claims("token", &mut token, at(NOW)), is_same, "{subject}");
    }
}

/// What an introspection endpoint says, without a signature.
#[test]
fn only_active_access_tokens_count_by_introspection() {
    let settings = &provider(ISSUER).settings;
    let accepts = |name: &str, value: Value| {
        let mut answer = with(&access_claims(), name, value);
        answer.entry("active").or_insert(json!(true));
        let verified = access_token::check_introspection(answer, settings, &[AUDIENCE.to_owned()], at(NOW));
        verified.and_then(|token| token.into_access_token(settings)).is_ok()
    };
    for (name, value) in [
        ("active", json!(false)),
        ("active", json!("true")),
        ("active", json!(1)),
        ("aud", Value::Null),
        ("aud", json!(CLIENT_ID)),
        ("aud", json!("https://traces.example.com/")),
        ("iss", json!("https://another.example.com")),
        ("exp", Value::Null),
        ("iat", Value::Null),
        ("sub", Value::Null),
        // Such endpoints answer about refresh tokens, too.
        ("token_use", json!("refresh_token")),
        ("token_use", json!(["access_token"])),
        ("token_type", json!("DPoP")),
        ("token_type", json!("N_A")),
        ("token_type", json!("")),
        ("cnf", json!({"jkt": "x"})),
    ] {
        assert!(!accepts(name, value.clone()), "{name}: {value}");
    }
    for (name, value) in [
        ("iss", Value::Null),
        ("token_use", json!("access_token")),
        ("token_type", json!("bearer")),
        ("aud", json!(["x", AUDIENCE])),
    ] {
        assert!(accepts(name, value.clone()), "{name}: {value}");
    }
}

/// A key that one of the libraries does not know leaves the others usable.
#[test]
fn keys_of_other_kinds_are_left_out() {
    let (_, jwk) = new_key();
    let ed25519 = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "e", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let short = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "s", "x": "AAAA"});
    let ed448 = json!({"kty": "OKP", "crv": "Ed448", "use": "sig", "kid": "4", "x": "AAAA"});
    let x25519 = json!({"kty": "OKP", "crv": "X25519", "use": "enc", "kid": "x", "x": "AAAA"});
    let future = json!({"kty": "AKP", "alg": "ML-DSA-44", "kid": "f", "pub": "AAAA"});
    let all = json!({"keys": [ed448, x25519, jwk, future, short, ed25519, 1, {}]});
    let ids: Vec<_> = usable_keys(&all).keys.into_iter().filter_map(|key| key.common.key_id).collect();
    assert_eq!(ids, [KEY_ID, "e"]);
    assert_eq!(usable_keys(&json!({"keys": "none"})).keys.len(), 0);
}

/// Random changes of a valid token, byte by byte.
#[tokio::test]
async fn randomly_altered_tokens_are_refused() {
    let signer = Signer::new();
    let mut random = ChaCha8Rng::seed_from_u64(repetitions::seed(1));
    let valid = Kind::ALL.map(|kind| (kind, signer.valid(kind)));
    let repetitions = Repetitions { test: 1_000, verify: 10_000 }.get("TRACEWARDEN_TOKEN_MUTATIONS");
    for _ in 0..repetitions {
        for (kind, valid) in &valid {
            let mut bytes = valid.clone().into_bytes();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..4) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, b"ABCabc012-_."[random.random_range(0..12)]),
                    2 => bytes.truncate(at),
                    _ => bytes[at] = (random.next_u32() % 256) as u8,
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let token = String::from_utf8_lossy(&bytes).into_owned();
            if token == *valid {
                continue;
            }
            assert!(!signer.accepts_kind(*kind, &token).await, "{kind:?}: {token}");
        }
    }
}
