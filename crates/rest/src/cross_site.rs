//! Rejects state changes that another site makes a browser send (CSRF).

use http::{HeaderMap, HeaderValue, Method, header};

use crate::code::Code;
use crate::problem::Problem;

/// Paths whose answers set a session cookie: with another site's, a person would act as another user.
const SIGN_INS: [&str; 2] = ["/login", "/identity/break-glass"];

/// Rejects a state-changing request that a browser sends for a page of another origin.
///
/// Browsers send the origin of a request in `Sec-Fetch-Site`, older ones in `Origin`; pages cannot forge either header. A request
/// with neither was not sent by a browser.
///
/// Requests with an API key in `Authorization` pass: browsers never add a key by themselves, although they add the name and
/// password of basic authentication for a proxy in front of the service. Sign-in does not take a key, so it is always checked:
/// another site could sign a user in to an account of its own.
///
/// # Errors
/// `cross_site`.
pub(crate) fn check(method: &Method, path: &str, headers: &HeaderMap, origin: &str) -> Result<(), Problem> {
    if method.is_safe() || (has_bearer_token(headers) && !SIGN_INS.contains(&path)) {
        return Ok(());
    }
    let allowed = match (headers.get("sec-fetch-site"), headers.get(header::ORIGIN)) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(from)) => from.as_bytes().eq_ignore_ascii_case(origin.as_bytes()),
        (None, None) => true,
    };
    if allowed { Ok(()) } else { Err(Problem::new(Code::CrossSite, "the request comes from another site")) }
}

fn has_bearer_token(headers: &HeaderMap) -> bool {
    headers.get_all(header::AUTHORIZATION).iter().any(|value| bearer_token(value).is_some())
}

/// Returns the key in a value of `Authorization`, or `None` if the scheme is not bearer.
pub(crate) fn bearer_token(authorization: &HeaderValue) -> Option<&str> {
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
    fn state_changes_require_the_same_origin() {
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
        for path in SIGN_INS {
            let headers = [("sec-fetch-site", "cross-site"), ("authorization", "Bearer x")];
            assert!(!passes(Method::POST, path, &headers));
        }
        assert!(passes(Method::GET, "/me", &[("sec-fetch-site", "cross-site")]));
    }
}
