//! Response headers that every answer carries.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Sets what every answer carries, whatever its route and status. An answer of the API is data: no browser may run,
/// frame, sniff or keep any of it.
pub(crate) fn secure(headers: &mut HeaderMap, over_https: bool) {
    let fixed: [(HeaderName, &'static str); 7] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if over_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000"));
    }
}
