//! Metadata and keys of a provider, cached.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClientAuthMethod, CoreGrantType, CoreJsonWebKey,
    CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreResponseMode, CoreResponseType,
    CoreSubjectIdentifierType,
};
use openidconnect::{AdditionalProviderMetadata, IssuerUrl, ProviderMetadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use tracewarden_model::Timestamp;
use url::Url;

use crate::error::ProviderError;
use crate::http::Http;

const SECOND_NANOS: i64 = 1_000_000_000;
/// After this time, metadata and keys are fetched again.
const FRESH_NANOS: i64 = 3_600 * SECOND_NANOS;
/// While the provider does not answer, metadata and keys are used for this long.
const STALE_NANOS: i64 = 24 * FRESH_NANOS;
/// Minimum time between two fetches because a key is unknown: anyone can send a token with an unknown key.
const KEY_RETRY_NANOS: i64 = 30 * SECOND_NANOS;
/// For this long after its beginning, a failed fetch is not repeated. It is longer than the time-outs of metadata and keys together,
/// so that those who waited for it fail with it.
const FAILURE_NANOS: i64 = 30 * SECOND_NANOS;

/// Members of the metadata that the library does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MoreMetadata {
    /// Whether authorization responses contain `iss` (RFC 9207).
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
    pub(crate) end_session_endpoint: Option<Url>,
    pub(crate) introspection_endpoint: Option<Url>,
}

impl AdditionalProviderMetadata for MoreMetadata {}

pub(crate) type Metadata = ProviderMetadata<
    MoreMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// Metadata with keys in the forms of both libraries.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) metadata: Metadata,
    pub(crate) keys: JwkSet,
}

#[derive(Debug)]
struct Cached {
    known: Arc<Known>,
    /// When the provider was last asked.
    fetched_at: Timestamp,
    /// When it last answered.
    confirmed_at: Timestamp,
}

/// The cache. Concurrent calls share one fetch, and wait for it only if they cannot do without.
#[derive(Debug, Default)]
pub(crate) struct MetadataCache {
    /// Locked for moments only: a provider that answers slowly delays no token whose key is known.
    cached: RwLock<Option<Cached>>,
    /// Locked during a fetch. Holds when the last fetch failed, and why.
    fetching: Mutex<Option<(Timestamp, String)>>,
}

impl MetadataCache {
    /// Returns the metadata and keys.
    pub(crate) async fn current(
        &self,
        http: &Http,
        issuer: &str,
        now: Timestamp,
    ) -> Result<Arc<Known>, ProviderError> {
        let fresh = |cached: &Cached| cached.fetched_at.saturating_add(FRESH_NANOS) > now;
        let usable = |cached: &Cached| cached.confirmed_at.saturating_add(STALE_NANOS) > now;
        if let Some(known) = self.known_if(fresh) {
            return Ok(known);
        }
        let mut failed = match (self.fetching.try_lock(), self.known_if(usable)) {
            (Ok(failed), _) => failed,
            (Err(_), Some(known)) => return Ok(known),
            (Err(_), None) => self.fetching.lock().await,
        };
        match self.known_if(fresh) {
            Some(known) => Ok(known),
            None => self.fetch(&mut failed, http, issuer, now).await,
        }
    }

    /// Returns metadata and keys that may be newer than `seen`, in which a key is missing.
    pub(crate) async fn with_newer_keys(
        &self,
        seen: &Arc<Known>,
        http: &Http,
        issuer: &str,
        now: Timestamp,
    ) -> Result<Arc<Known>, ProviderError> {
        let mut failed = self.fetching.lock().await;
        let is_newer = |cached: &Cached| {
            !Arc::ptr_eq(&cached.known, seen) || cached.fetched_at.saturating_add(KEY_RETRY_NANOS) > now
        };
        match self.known_if(is_newer) {
            Some(known) => Ok(known),
            None => self.fetch(&mut failed, http, issuer, now).await,
        }
    }

    fn known_if(&self, condition: impl Fn(&Cached) -> bool) -> Option<Arc<Known>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| condition(cached)).map(|cached| Arc::clone(&cached.known))
    }

    async fn fetch(
        &self,
        failed: &mut Option<(Timestamp, String)>,
        http: &Http,
        issuer: &str,
        now: Timestamp,
    ) -> Result<Arc<Known>, ProviderError> {
        if let Some((failed_at, cause)) = failed
            && failed_at.saturating_add(FAILURE_NANOS) > now
        {
            // Anyone can send tokens with unknown keys, each of which would call the provider.
            let usable = |cached: &Cached| cached.confirmed_at.saturating_add(STALE_NANOS) > now;
            return self.known_if(usable).ok_or_else(|| ProviderError::unavailable(cause.clone()));
        }
        let fetched = fetch(http, issuer).await;
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        match fetched {
            Ok(known) => {
                let known = Arc::new(known);
                *cached = Some(Cached { known: Arc::clone(&known), fetched_at: now, confirmed_at: now });
                *failed = None;
                Ok(known)
            }
            Err(cause) => {
                tracing::warn!(issuer, cause, "metadata of the identity provider cannot be fetched");
                *failed = Some((now, cause.clone()));
                match &mut *cached {
                    Some(cached) if cached.confirmed_at.saturating_add(STALE_NANOS) > now => {
                        // Asked again after a while, not by each sign-in.
                        cached.fetched_at = now.saturating_sub(FRESH_NANOS).saturating_add(KEY_RETRY_NANOS);
                        Ok(Arc::clone(&cached.known))
                    }
                    _ => {
                        *cached = None;
                        Err(ProviderError::unavailable(cause))
                    }
                }
            }
        }
    }
}

async fn fetch(http: &Http, issuer: &str) -> Result<Known, String> {
    let url = IssuerUrl::new(issuer.to_owned()).map_err(|error| error.to_string())?;
    let metadata = Metadata::discover_async(url, http).await.map_err(|error| error_chain(&error))?;
    let endpoints = [
        Some(metadata.authorization_endpoint().url()),
        metadata.token_endpoint().map(|endpoint| endpoint.url()),
        metadata.userinfo_endpoint().map(|endpoint| endpoint.url()),
        metadata.additional_metadata().end_session_endpoint.as_ref(),
        metadata.additional_metadata().introspection_endpoint.as_ref(),
    ];
    for endpoint in endpoints.into_iter().flatten() {
        http.check(endpoint).map_err(|error| error.to_string())?;
    }
    Ok(Known { keys: usable_keys(metadata.jwks()), metadata })
}

/// Returns the keys that can verify a signature. A set may have others, for encryption or for newer algorithms.
pub(crate) fn usable_keys(keys: &impl Serialize) -> JwkSet {
    let keys = serde_json::to_value(keys).unwrap_or_default();
    let keys = keys.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let usable = |key: &Jwk| match &key.algorithm {
        // The library expects exactly 32 bytes.
        AlgorithmParameters::OctetKeyPair(parameters) => {
            URL_SAFE_NO_PAD.decode(&parameters.x).is_ok_and(|bytes| bytes.len() == 32)
        }
        _ => true,
    };
    let read = |key| serde_json::from_value::<Jwk>(key).ok().filter(usable);
    JwkSet { keys: keys.into_iter().filter_map(read).collect() }
}

/// Formats an error with its sources.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(&format!(": {error}"));
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    /// A provider that answers requests until it has served `answers` of them, and counts all.
    fn failing_provider(answers: usize) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let (base, requests) = (issuer.clone(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let body = if first.contains("/jwks") {
                    json!({"keys": []})
                } else {
                    json!({
                        "issuer": base,
                        "authorization_endpoint": format!("{base}/auth"),
                        "token_endpoint": format!("{base}/token"),
                        "jwks_uri": format!("{base}/jwks"),
                        "response_types_supported": ["code"],
                        "subject_types_supported": ["public"],
                        "id_token_signing_alg_values_supported": ["RS256"],
                    })
                }
                .to_string();
                let status =
                    if counter.fetch_add(1, Ordering::SeqCst) < answers { "200 OK" } else { "503 No" };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close",
                    body.len()
                );
                drop(write!(&stream, "{head}\r\n\r\n{body}"));
            }
        });
        (issuer, requests)
    }

    /// Anyone can send tokens with unknown keys: while the provider fails, they cause one request in half a minute.
    #[tokio::test]
    async fn unknown_keys_do_not_flood_a_failing_provider() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let (issuer, requests) = failing_provider(2);
        let http = Http::new(&Url::parse(&issuer).unwrap(), None).unwrap();
        let at = |seconds: i64| Timestamp::from_nanos(seconds * SECOND_NANOS);
        let cache = MetadataCache::default();
        let known = cache.current(&http, &issuer, at(0)).await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), 2);
        for second in 31..60 {
            let newer = cache.with_newer_keys(&known, &http, &issuer, at(second)).await.unwrap();
            assert!(Arc::ptr_eq(&newer, &known), "the keys from before stay");
        }
        assert_eq!(requests.load(Ordering::SeqCst), 3);
        cache.with_newer_keys(&known, &http, &issuer, at(62)).await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), 4);
        // A day without an answer ends them.
        assert!(cache.current(&http, &issuer, at(24 * 3_600 + 1)).await.is_err());
    }
}
