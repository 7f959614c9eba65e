//! Determines the address and the user agent of the client.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap, HeaderName, header};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum length of a stored user agent.
const MAX_USER_AGENT_CHARS: usize = 256;

/// Reverse proxies whose `X-Forwarded-For` is trusted.
#[derive(Debug, Default)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    /// Whether the warning about `X-Forwarded-For` from an untrusted address was logged.
    untrusted_header_logged: AtomicBool,
}

impl From<Vec<IpNet>> for TrustedProxies {
    fn from(networks: Vec<IpNet>) -> Self {
        Self { networks, untrusted_header_logged: AtomicBool::new(false) }
    }
}

impl TrustedProxies {
    fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Returns the client's address: the connection's peer or, if that is a trusted proxy, the last address in `X-Forwarded-For`
    /// that is not one. The client controls all addresses to the left of it.
    pub(crate) fn client(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip().to_canonical())?;
        if !self.contains(peer) {
            // Logged once only, because any client can send the header.
            if headers.contains_key(X_FORWARDED_FOR)
                && !self.untrusted_header_logged.swap(true, Ordering::Relaxed)
            {
                tracing::warn!(
                    %peer,
                    "ignored `X-Forwarded-For` from an address that is not in `trusted_proxies`; if it is \
                     your proxy, add it: until then, all its clients are treated as one"
                );
            }
            return Some(peer);
        }
        let mut client = peer;
        // Parsed as bytes: the client's part may be invalid text, in the same value as the address that the proxy appended.
        let forwarded: Vec<&[u8]> = headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .collect();
        for text in forwarded.into_iter().rev() {
            match std::str::from_utf8(text).ok().and_then(|text| parse(text.trim())) {
                Some(address) => client = address,
                None => break,
            }
            if !self.contains(client) {
                break;
            }
        }
        Some(client)
    }
}

/// Parses an address with or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    Some(address.to_canonical())
}

/// Returns the client's `User-Agent`, truncated to the length that the audit stores.
pub(crate) fn user_agent(headers: &HeaderMap) -> Option<String> {
    let text = String::from_utf8_lossy(headers.get(header::USER_AGENT)?.as_bytes());
    Some(text.chars().take(MAX_USER_AGENT_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], expected: &str) {
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let trusted = TrustedProxies::from(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        assert_eq!(trusted.client(&extensions, &headers), Some(expected.parse().unwrap()));
    }

    #[test]
    fn only_configured_proxies_are_trusted() {
        check("203.0.113.9", &["198.51.100.1"], "203.0.113.9");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
        check("10.0.0.1", &["1.2.3.4, 198.51.100.1, 10.0.0.2"], "198.51.100.1");
        check("10.0.0.1", &["1.2.3.4", "198.51.100.1:443"], "198.51.100.1");
        check("::ffff:10.0.0.1", &["[2001:db8::1]"], "2001:db8::1");
        check("::1", &["1.2.3.4, nonsense"], "::1");
        // Invalid text from a client does not hide the address that the proxy appended.
        check("10.0.0.1", &["\u{e9}, 198.51.100.1"], "198.51.100.1");
    }
}
