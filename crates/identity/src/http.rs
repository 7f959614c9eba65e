//! HTTP requests to a provider, with limits: time, size, no redirects, no other scheme and no private address than the issuer's.

use std::pin::Pin;
use std::time::Duration;

use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::Certificate;
use url::Url;

use crate::settings::{SettingsError, is_loopback, is_private};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response: far more than metadata, keys and tokens take.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(
        "{0} is not an address that may be called: the metadata must name `https` addresses, and private ones only if the \
             issuer is private too"
    )]
    Address(Url),
    #[error("not a URL: {0}")]
    Url(#[from] url::ParseError),
    #[error("the response is larger than {MAX_RESPONSE_BYTES} bytes")]
    TooLarge,
    #[error("the response is a redirect, which is not followed")]
    Redirect,
    #[error(transparent)]
    Request(#[from] reqwest::Error),
    #[error(transparent)]
    Response(#[from] openidconnect::http::Error),
}

/// HTTP client for one provider.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    permits_http: bool,
    permits_private: bool,
}

impl Http {
    pub(crate) fn new(issuer: &Url, ca_certificates: Option<&[u8]>) -> Result<Self, SettingsError> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = ca_certificates {
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem)?);
        }
        if is_loopback(issuer) {
            builder = builder.no_proxy();
        }
        let permits_http = issuer.scheme() == "http";
        Ok(Self { client: builder.build()?, permits_http, permits_private: is_private(issuer) })
    }

    /// Checks that the provider's metadata may name this address.
    pub(crate) fn check(&self, url: &Url) -> Result<(), HttpError> {
        let scheme =
            url.scheme() == "https" || url.scheme() == "http" && self.permits_http && is_loopback(url);
        let is_permitted = scheme && (self.permits_private || !is_private(url));
        if is_permitted { Ok(()) } else { Err(HttpError::Address(url.clone())) }
    }

    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string())?;
        self.check(&url)?;
        let mut response =
            self.client.request(head.method, url).headers(head.headers).body(body).send().await?;
        if response.status().is_redirection() {
            return Err(HttpError::Redirect);
        }
        let mut answer = openidconnect::http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            answer = answer.header(name, value);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(HttpError::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(answer.body(bytes)?)
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.execute(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_cannot_point_into_a_private_network() {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let permits = |issuer: &str, url: &str| {
            let issuer = Url::parse(issuer).unwrap();
            let http = Http {
                client: reqwest::Client::default(),
                permits_http: issuer.scheme() == "http",
                permits_private: is_private(&issuer),
            };
            http.check(&Url::parse(url).unwrap()).is_ok()
        };
        let public = "https://id.example.com/a";
        assert!(permits(public, "https://keys.example.net/jwks"));
        for url in [
            "http://id.example.com/jwks",
            "https://10.0.0.1/jwks",
            "https://localhost/jwks",
            "file:///etc/passwd",
        ] {
            assert!(!permits(public, url), "{url}");
        }
        let private = "https://10.0.0.1";
        assert!(permits(private, "https://10.0.0.2/token") && permits(private, public));
        assert!(!permits(private, "http://10.0.0.1/token"));
        let loopback = "http://127.0.0.1:8080";
        assert!(
            permits(loopback, "http://127.0.0.1:9090/token") && !permits(loopback, "http://10.0.0.1/token")
        );
    }
}
