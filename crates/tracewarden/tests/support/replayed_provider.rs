//! A server that replays what providers answer, where the real one cannot run here. Only the signatures are its own.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, Uri};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server answers next.
pub struct Answers {
    /// Metadata of each provider.
    pub metadata: Vec<Value>,
    jwks: Value,
    /// By member of the metadata with the endpoint.
    pub by_endpoint: Vec<(&'static str, StatusCode, Value)>,
    /// Members of the metadata whose endpoints were asked.
    pub asked: Vec<&'static str>,
}

/// A server on a free port, which ends with this value.
pub struct ReplayedProvider {
    /// Address without a trailing slash.
    pub base: String,
    pub answers: Arc<Mutex<Answers>>,
    key: EncodingKey,
    server: JoinHandle<()>,
}

impl ReplayedProvider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let jwks = json!({"keys": [Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap()]});
        let answers = Answers { metadata: Vec::new(), jwks, by_endpoint: Vec::new(), asked: Vec::new() };
        let answers = Arc::new(Mutex::new(answers));
        let router = Router::new().fallback(replay).with_state(Arc::clone(&answers));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, answers, key, server }
    }

    /// Returns a token with these claims and this `typ`, which was issued now and is valid for some seconds.
    pub fn token(&self, typ: &str, mut claims: Value, seconds: u64) -> String {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        claims["iat"] = json!(now);
        claims["exp"] = json!(now + seconds);
        let header = Header { typ: Some(typ.to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }

    /// Replaces the answer of the endpoint with this name in the metadata.
    pub fn answer(&self, endpoint: &'static str, status: StatusCode, answer: Value) {
        let mut answers = self.answers.lock().unwrap();
        answers.by_endpoint.retain(|(known, ..)| *known != endpoint);
        answers.by_endpoint.push((endpoint, status, answer));
    }

    /// Returns the endpoints that were asked since the last call.
    pub fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.answers.lock().unwrap().asked)
    }
}

impl Drop for ReplayedProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn replay(State(answers): State<Arc<Mutex<Answers>>>, uri: Uri) -> Response {
    let mut answers = answers.lock().unwrap();
    let at = |member: &str, end: &str| {
        answers.metadata.iter().find(|metadata| {
            let url = format!("{}{end}", metadata[member].as_str().unwrap_or_default());
            reqwest::Url::parse(&url).is_ok_and(|url| url.path() == uri.path())
        })
    };
    if let Some(metadata) = at("issuer", "/.well-known/openid-configuration") {
        return axum::Json(metadata).into_response();
    }
    if at("jwks_uri", "").is_some() {
        return axum::Json(&answers.jwks).into_response();
    }
    let found = answers.by_endpoint.iter().find(|(endpoint, ..)| at(endpoint, "").is_some()).cloned();
    match found {
        Some((endpoint, status, answer)) => {
            answers.asked.push(endpoint);
            (status, axum::Json(answer)).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
