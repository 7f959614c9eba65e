//! Rejects requests that a web page of another site could cause: a browser on this machine can reach loopback, and DNS
//! can resolve any name to it.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Middleware for both ports. The state is the configured listen address.
pub async fn refuse_browsers(State(listen): State<SocketAddr>, request: Request, next: Next) -> Response {
    match refusal(request.headers(), request.uri(), listen.ip()) {
        Some(reason) => (StatusCode::FORBIDDEN, format!("{reason}\n")).into_response(),
        None => next.run(request).await,
    }
}

pub(crate) fn refusal(headers: &HeaderMap, uri: &Uri, listen: IpAddr) -> Option<&'static str> {
    if headers.contains_key(header::ORIGIN) {
        return Some("requests from web pages are refused: there is an `Origin` header");
    }
    let site = headers.get(HeaderName::from_static("sec-fetch-site")).map(axum::http::HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"none" | b"same-origin")) {
        return Some("requests from web pages are refused: `Sec-Fetch-Site` names another site");
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (None, _) => uri.authority().cloned(),
        (Some(host), None) => match host.to_str().ok().and_then(plain_authority) {
            Some(authority) => Some(authority),
            None => return Some("the `Host` header is malformed"),
        },
        (Some(_), Some(_)) => return Some("there are several `Host` headers"),
    };
    // A request without a host name (HTTP/1.0) cannot have a foreign one.
    if named.is_some_and(|authority| !is_own_host(authority.host(), listen)) {
        return Some("the `Host` header names neither this machine's loopback nor the listen address");
    }
    None
}

/// Parses a host with an optional port, and nothing else.
fn plain_authority(host: &str) -> Option<Authority> {
    let authority = Authority::from_str(host).ok()?;
    // The parser accepts characters between a bracket and the port, which belong to neither.
    let rest = authority.as_str().strip_prefix(authority.host())?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(authority)
}

fn is_own_host(host: &str, listen: IpAddr) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == listen,
        Err(_) => host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &'static str, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        refusal(&headers, &Uri::from_static("/"), "192.0.2.1".parse().unwrap()).is_some()
    }

    #[test]
    fn only_own_hosts_pass() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8123",
            "[::1]:8123",
            "127.9.9.9",
            "192.0.2.1:8123",
            "a.localhost",
        ] {
            assert!(!refused("host", host), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "192.0.2.2",
            "0.0.0.0",
            "",
            "[::2]",
            "evil@localhost:x",
            "notlocalhost",
            "[::1]evil.example:1",
            "localhost:+1",
        ] {
            assert!(refused("host", host), "{host}");
        }
    }

    #[test]
    fn web_pages_do_not_pass() {
        assert!(refused("origin", "null"));
        assert!(refused("origin", "http://localhost"));
        assert!(refused("sec-fetch-site", "cross-site"));
        assert!(refused("sec-fetch-site", "same-site"));
        assert!(!refused("sec-fetch-site", "none"));
    }
}
