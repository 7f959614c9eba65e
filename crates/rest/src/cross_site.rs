//! Refusal of state changes that another site makes a browser send.

use http::{HeaderMap, HeaderValue, Method, header};

use crate::code::Code;
use crate::problem::Problem;

/// Refuses a state-changing request that a browser sends for a page of another origin.
///
/// Browsers say where a request comes from in `Sec-Fetch-Site`, older ones in `Origin`; pages can forge neither. A
/// request with neither comes from no browser. A key in `Authorization` is never attached by a browser on its own, as a name
/// and a password for a proxy in front are, so such requests pass, but for the log-in, which takes no key and where a foreign
/// page could sign a person in as somebody else.
///
/// # Errors
/// `cross_site`.
pub(crate) fn check(method: &Method, path: &str, headers: &HeaderMap, origin: &str) -> Result<(), Problem> {
    if method.is_safe() || (carries_key(headers) && path != "/login") {
        return Ok(());
    }
    let allowed = match (headers.get("sec-fetch-site"), headers.get(header::ORIGIN)) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(from)) => from.as_bytes().eq_ignore_ascii_case(origin.as_bytes()),
        (None, None) => true,
    };
    if allowed { Ok(()) } else { Err(Problem::new(Code::CrossSite, "the request comes from another site")) }
}

fn carries_key(headers: &HeaderMap) -> bool {
    headers.get_all(header::AUTHORIZATION).iter().any(|value| key_in(value).is_some())
}

/// The key in a value of `Authorization`; `None` for what is of another scheme, or of none.
pub(crate) fn key_in(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, key) = authorization.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn passes(method: Method, path: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        check(&method, path, &headers, "https://traces.example.com").is_ok()
    }

    #[test]
    fn only_the_own_origin_changes_state() {
        let post = |headers: &[_]| passes(Method::POST, "/logout", headers);
        assert!(post(&[]));
        assert!(post(&[("sec-fetch-site", "same-origin")]));
        assert!(post(&[("sec-fetch-site", "none")]));
        assert!(!post(&[("sec-fetch-site", "same-site")]));
        assert!(!post(&[("sec-fetch-site", "cross-site")]));
        assert!(!post(&[("sec-fetch-site", "cross-site"), ("origin", "https://traces.example.com")]));
        assert!(post(&[("origin", "https://traces.example.com")]));
        assert!(!post(&[("origin", "http://traces.example.com")]));
        assert!(!post(&[("origin", "https://evil.example")]));
        assert!(!post(&[("origin", "null")]));
        assert!(post(&[("sec-fetch-site", "cross-site"), ("authorization", "Bearer x")]));
        assert!(!post(&[("sec-fetch-site", "cross-site"), ("authorization", "Basic eDp5")]));
        assert!(!passes(
            Method::POST,
            "/login",
            &[("sec-fetch-site", "cross-site"), ("authorization", "Bearer x")]
        ));
        assert!(passes(Method::GET, "/me", &[("sec-fetch-site", "cross-site")]));
    }
}
