//! The session cookie.

use http::{HeaderMap, HeaderValue, header};

/// Name of the cookie over https. Browsers accept the `__Host-` prefix only with `Secure`, `Path=/` and without `Domain`, so a
/// sibling domain cannot set such a cookie.
const SECURE_NAME: &str = "__Host-tracewarden";

/// Name of the cookie over http on a loopback name.
const LOOPBACK_NAME: &str = "tracewarden";

/// Reads and writes the session cookie. The scheme of the public URL selects the cookie's name.
#[derive(Debug, Clone, Copy)]
pub struct SessionCookie {
    secure: bool,
}

impl SessionCookie {
    /// Creates the cookie for a public URL with or without https.
    pub fn new(secure: bool) -> Self {
        Self { secure }
    }

    /// Name of the cookie.
    pub fn name(self) -> &'static str {
        if self.secure { SECURE_NAME } else { LOOPBACK_NAME }
    }

    /// Returns the token in the request. With https, only the `__Host-` cookie is read. If several cookies have the name, none is
    /// accepted: another site set one of them.
    pub fn read(self, headers: &HeaderMap) -> Option<&str> {
        let mut found = None;
        for value in headers.get_all(header::COOKIE) {
            // Parsed as bytes: other sites of the same domain may set cookies that are not valid text, which must not sign the
            // user out.
            for pair in value.as_bytes().split(|byte| *byte == b';') {
                let token = pair.trim_ascii().strip_prefix(self.name().as_bytes());
                if let Some(token) = token.and_then(|rest| rest.strip_prefix(b"=")) {
                    if found.is_some() {
                        return None;
                    }
                    found = Some(token);
                }
            }
        }
        found.and_then(|token| std::str::from_utf8(token).ok()).filter(|token| !token.is_empty())
    }

    /// Returns `Set-Cookie` for a new session. The browser keeps the cookie until it is cleared; the service decides when the
    /// session ends.
    pub fn set(self, token: &str) -> Option<HeaderValue> {
        // Browsers keep a cookie for at most 400 days.
        self.value(token, "; Max-Age=34560000")
    }

    /// Returns `Set-Cookie` that makes the browser delete the session cookie.
    pub fn clear(self) -> Option<HeaderValue> {
        self.value("", "; Max-Age=0")
    }

    fn value(self, token: &str, age: &str) -> Option<HeaderValue> {
        let name = self.name();
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{name}={token}{secure}; HttpOnly; SameSite=Lax; Path=/{age}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::COOKIE, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn https_accepts_only_the_host_cookie() {
        let cookie = SessionCookie::new(true);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc"])), None);
        assert_eq!(cookie.read(&cookies(&["a=b; __Host-tracewarden=abc; c=d"])), Some("abc"));
        let set = cookie.set("t").unwrap();
        assert_eq!(set, "__Host-tracewarden=t; Secure; HttpOnly; SameSite=Lax; Path=/; Max-Age=34560000");
    }

    /// Any site below the same domain can set such a cookie.
    #[test]
    fn cookies_of_others_may_be_binary() {
        let cookie = SessionCookie::new(true);
        for others in
            ["name=Zo\u{eb}", "\u{202e}=\u{7f51}", "=", ";", "tracewarden", "__Host-tracewardens=def"]
        {
            let both = format!("{others}; __Host-tracewarden=abc;{others}");
            let mut headers = HeaderMap::new();
            headers.append(header::COOKIE, HeaderValue::from_bytes(both.as_bytes()).unwrap());
            assert_eq!(cookie.read(&headers), Some("abc"), "{others:?}");
        }
        assert_eq!(cookie.read(&cookies(&["__Host-tracewarden=Zo\u{eb}"])), Some("Zo\u{eb}"));
    }

    #[test]
    fn duplicate_session_cookies_are_ignored() {
        let cookie = SessionCookie::new(false);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc"])), Some("abc"));
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc; tracewarden=def"])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc", "tracewarden=def"])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden="])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc", "a=b; tracewarden=\u{e9}"])), None);
        assert_eq!(cookie.clear().unwrap(), "tracewarden=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0");
    }
}
