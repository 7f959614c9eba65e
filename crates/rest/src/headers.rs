//! Response headers that every response has.

use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

/// Content-Security-Policy of API responses: they are data, which browsers must not run or frame.
const API_CSP: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// Content-Security-Policy of the web application: it may only run its own scripts and call its own origin, also if foreign
/// content gets into a page. Inline styles are allowed, because components set positions and sizes in style attributes.
const WEB_APP_CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// Marks a response as a file of the web application, which a browser may run and cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebAppResponse {
    /// Value of `Cache-Control`.
    pub(crate) cache_control: &'static str,
}

/// Sets the headers of every response, whatever its route and status. Other listeners call it too.
pub fn add_security_headers(response: &mut Response, over_https: bool) {
    let (policy, cache_control) = match response.extensions().get::<WebAppResponse>() {
        Some(file) => (WEB_APP_CSP, file.cache_control),
        None => (API_CSP, "no-store"),
    };
    let fixed: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, cache_control),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if over_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000"));
    }
}
