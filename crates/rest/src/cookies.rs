//! Cookies that only this service can set.

use http::{HeaderMap, HeaderValue, header};

/// A cookie for the whole service. Over https, its name has the prefix `__Host-`, which browsers accept only with `Secure`, `Path=/`
/// and without `Domain`, so that a sibling domain cannot set such a cookie.
#[derive(Debug, Clone, Copy)]
pub struct HostCookie {
    secure: bool,
    secure_name: &'static str,
    /// Name over http on a loopback name.
    loopback_name: &'static str,
    max_age_seconds: u32,
}

impl HostCookie {
    /// The session cookie, for a public URL with or without https. The browser keeps it until it is cleared, at most for the 400
    /// days that browsers permit; the service decides when the session ends.
    pub fn session(secure: bool) -> Self {
        let (secure_name, loopback_name) = ("__Host-tracewarden", "tracewarden");
        Self { secure, secure_name, loopback_name, max_age_seconds: 400 * 86_400 }
    }

    /// The cookie of a sign-in with an identity provider. `SameSite=Lax` lets the browser send it when the provider redirects to
    /// the service.
    pub fn sign_in(secure: bool) -> Self {
        let (secure_name, loopback_name) = ("__Host-tracewarden-sign-in", "tracewarden-sign-in");
        Self { secure, secure_name, loopback_name, max_age_seconds: 600 }
    }

    /// Name of the cookie.
    pub fn name(self) -> &'static str {
        if self.secure { self.secure_name } else { self.loopback_name }
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

    /// Returns `Set-Cookie` with a value.
    pub fn set(self, value: &str) -> Option<HeaderValue> {
        self.value(value, &format!("; Max-Age={}", self.max_age_seconds))
    }

    /// Returns `Set-Cookie` that makes the browser delete the cookie.
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
        let cookie = HostCookie::session(true);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc"])), None);
        assert_eq!(cookie.read(&cookies(&["a=b; __Host-tracewarden=abc; c=d"])), Some("abc"));
        let set = cookie.set("t").unwrap();
        assert_eq!(set, "__Host-tracewarden=t; Secure; HttpOnly; SameSite=Lax; Path=/; Max-Age=34560000");
    }

    /// Any site below the same domain can set such a cookie.
    #[test]
    fn cookies_of_others_may_be_binary() {
        let cookie = HostCookie::session(true);
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
        let cookie = HostCookie::session(false);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc"])), Some("abc"));
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc; tracewarden=def"])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc", "tracewarden=def"])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden="])), None);
        assert_eq!(cookie.read(&cookies(&["tracewarden=abc", "a=b; tracewarden=\u{e9}"])), None);
        assert_eq!(cookie.clear().unwrap(), "tracewarden=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0");
    }
}
