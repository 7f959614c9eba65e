//! The middleware around all routes: request id, client, cross-site check, problem details, security headers, timing. It wraps
//! the router, so no route can bypass it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use tracewarden_model::Entropy;
use tracewarden_service::{RequestInfo, Transport};
use tracing::Instrument;

use crate::access::ReadOnlyRoute;
use crate::client::TrustedProxies;
use crate::code::Code;
use crate::cookies::HostCookie;
use crate::headers::WebAppResponse;
use crate::metrics::Metrics;
use crate::nested_interface::OwnBody;
use crate::problem::Problem;
use crate::{client, cross_site, headers};

/// Header with the request id. The id is never taken from the client, so two requests cannot share one.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Settings and shared state of the middleware.
pub struct Middleware {
    /// Scheme, host and port under which browsers reach the service, without a trailing slash.
    pub public_origin: String,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
    /// Source of request ids.
    pub entropy: Arc<dyn Entropy>,
    /// Request metrics.
    pub metrics: Metrics,
    /// Whether the process is shutting down.
    pub shutdown: ShutdownFlag,
}

/// Whether the process is shutting down. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct ShutdownFlag(Arc<AtomicBool>);

impl ShutdownFlag {
    /// Begins the shutdown: `/readyz` reports "not ready" from now on, so load balancers send no more requests.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Middleware {
    /// Whether browsers reach the service over https.
    pub(crate) fn over_https(&self) -> bool {
        self.public_origin.starts_with("https://")
    }

    pub(crate) fn cookie(&self) -> HostCookie {
        HostCookie::session(self.over_https())
    }
}

/// Wraps every request and response.
pub(crate) async fn wrap(
    State(middleware): State<Arc<Middleware>>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let is_safe = request.method().is_safe();
    let measurement = middleware.metrics.begin(request.method(), route.as_ref().map(MatchedPath::as_str));
    let mut id = [0_u8; 16];
    let mut response = match middleware.entropy.fill(&mut id) {
        Err(error) => {
            tracing::error!(%error, "no request id");
            Problem::new(Code::Internal, "no randomness").into_response()
        }
        Ok(()) => {
            let info = RequestInfo {
                request_id: hex::encode(id),
                client_ip: middleware.trusted_proxies.client(request.extensions(), request.headers()),
                user_agent: client::user_agent(request.headers()),
                via: Transport::Rest,
                tool_call: None,
            };
            let span = tracing::info_span!("request", request_id = %info.request_id, user_id = tracing::field::Empty);
            request.extensions_mut().insert(info);
            answer(&middleware, request, next).instrument(span).await
        }
    };
    let id = hex::encode(id);
    if let Some(mut problem) = take_problem(&mut response) {
        let changes = !is_safe && response.extensions().get::<ReadOnlyRoute>().is_none();
        if changes && problem.code() == Code::Internal {
            problem = problem.after_unfinished_change();
        }
        let status_headers = std::mem::take(response.headers_mut());
        response = problem.render(&id);
        // Keeps `Allow` of the router's own 405 responses.
        if let Some(allow) = status_headers.get(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, allow.clone());
        }
    }
    headers::add_security_headers(&mut response, middleware.over_https());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    let status = response.status();
    response.map(|body| measurement.body(status, body))
}

async fn answer(middleware: &Middleware, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    // Logs the declared route: the path contains user names and trace ids, and query parameters may hold data that must not be
    // logged.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let origin = &middleware.public_origin;
    let response = match cross_site::check(&method, request.uri().path(), request.headers(), origin) {
        Err(problem) => {
            middleware.metrics.count_cross_site_refusal();
            problem.into_response()
        }
        Ok(()) => next.run(request).await,
    };
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    // `tracing` would write a wider integer as text.
    let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(%method, route, status = response.status().as_u16(), milliseconds, "answered");
    response
}

/// Returns the problem of an error response: the one that a handler returned, or one made from the bare status with which the
/// router or an extractor rejected the request.
fn take_problem(response: &mut Response) -> Option<Problem> {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return Some(problem);
    }
    // These responses have a body of their own: a page of the web application or the format of another interface.
    let extensions = response.extensions();
    if extensions.get::<WebAppResponse>().is_some() || extensions.get::<OwnBody>().is_some() {
        return None;
    }
    let (code, detail) = match response.status() {
        status if !status.is_client_error() && !status.is_server_error() => return None,
        StatusCode::NOT_FOUND => (Code::NotFound, "there is nothing at this path"),
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::MethodNotAllowed, "`Allow` lists the methods that are served here")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Code::PayloadTooLarge, "the body is too large"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (Code::UnsupportedMediaType, "the body must be JSON"),
        status if status.is_client_error() => (Code::InvalidRequest, "the request cannot be read"),
        _ => (Code::Internal, "internal error; see the log entries with this request id"),
    };
    Some(Problem::new(code, detail))
}

/// Returns the response to a request whose handler panicked. The message is not logged, because it may quote request data. The
/// program's panic hook logs the location.
pub(crate) fn panic_response(_message: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    Problem::new(Code::Internal, "internal error; see the log entries with this request id").into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use axum::{Extension, Router};
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    use tracewarden_model::ambient::EntropyError;

    use super::*;

    struct Bytes(Option<u8>);

    impl Entropy for Bytes {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
            bytes.fill(self.0.ok_or(EntropyError)?);
            Ok(())
        }
    }

    async fn send_request(path: &str, entropy: Option<u8>) -> (u16, String, http::HeaderMap) {
        let middleware = Middleware {
            public_origin: "https://traces.example.com".to_owned(),
            trusted_proxies: TrustedProxies::default(),
            entropy: Arc::new(Bytes(entropy)),
            metrics: Metrics::default(),
            shutdown: ShutdownFlag::default(),
        };
        let routes = Router::new()
            .route("/panics", get(async || -> &'static str { panic!("with a secret") }))
            .route("/id", get(async |Extension(info): Extension<RequestInfo>| info.request_id))
            .route("/bare", get(async || StatusCode::SERVICE_UNAVAILABLE));
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response =
            crate::route_table::with_middleware(routes, Arc::new(middleware)).oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap(), headers)
    }

    #[tokio::test]
    async fn a_panic_becomes_a_problem_response() {
        let (status, body, headers) = send_request("/panics", Some(7)).await;
        assert_eq!(status, 500);
        assert!(body.contains("\"code\":\"internal\"") && !body.contains("secret"), "{body}");
        assert_eq!(headers[X_REQUEST_ID], "07".repeat(16));
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }

    #[tokio::test]
    async fn handler_and_client_get_the_same_request_id() {
        let (status, body, headers) = send_request("/id", Some(9)).await;
        assert_eq!((status, body.as_bytes()), (200, headers[X_REQUEST_ID].as_bytes()));
    }

    #[tokio::test]
    async fn a_bare_status_becomes_a_problem() {
        let (status, body, headers) = send_request("/bare", Some(7)).await;
        assert_eq!(status, 500);
        assert!(body.contains("\"code\":\"internal\""), "{body}");
        assert_eq!(headers[header::CONTENT_TYPE], crate::problem::PROBLEM_JSON);
    }

    #[tokio::test]
    async fn requests_fail_without_randomness() {
        let (status, body, _) = send_request("/id", None).await;
        assert_eq!(status, 500);
        assert!(body.contains("\"code\":\"internal\""), "{body}");
    }
}
