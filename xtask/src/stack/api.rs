//! A minimal client for the service's REST API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::{interrupt, secret};

#[derive(Clone)]
enum Credential {
    Anonymous,
    Session(String),
    Key(String),
}

/// Numbers of a user's requests with any credential. Each request must have an audit record.
#[derive(Default)]
pub struct Tally {
    pub sign_ins: AtomicU64,
    pub queries: AtomicU64,
    pub fetches: AtomicU64,
    pub explanations: AtomicU64,
    pub changes: AtomicU64,
}

impl Tally {
    fn count(&self, method: &str, path: &str, status: u16) {
        let path = path.split('?').next().unwrap_or_default();
        let counter = match (method, path) {
            // Without a valid credential, the request has no user.
            _ if status == 401 => return,
            ("POST", "/traces/query") => &self.queries,
            // The demo calls only one MCP tool, which fetches a trace.
            ("POST", "/mcp") => &self.fetches,
            ("GET", path) if path.ends_with("/explain") || path.ends_with("/viewers") => &self.explanations,
            ("GET", path) if path.starts_with("/traces/") => &self.fetches,
            ("GET", _) => return,
            ("POST", "/login") => &self.sign_ins,
            _ => &self.changes,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client with a credential.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    credential: Credential,
    pub tally: Arc<Tally>,
}

/// A response of the service.
pub struct Answer {
    pub status: u16,
    pub etag: Option<String>,
    cookie: Option<String>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text)
            .with_context(|| format!("the service's answer is not JSON: {}", self.text))
    }
}

impl Client {
    pub fn anonymous(base: &str) -> Self {
        let config =
            Agent::config_builder().timeout_global(Some(Duration::from_secs(60))).http_status_as_error(false);
        let agent = config.build().into();
        Self { agent, base: base.to_owned(), credential: Credential::Anonymous, tally: Arc::default() }
    }

    /// Returns the same client with an API key as its credential.
    pub fn with_key(&self, key: &str) -> Self {
        Self { credential: Credential::Key(key.to_owned()), ..self.clone() }
    }

    /// Returns the same client with a session cookie, in the format of the `cookie` header, as its credential.
    pub fn with_cookie(&self, cookie: &str) -> Self {
        Self { credential: Credential::Session(cookie.to_owned()), tally: Arc::default(), ..self.clone() }
    }

    /// Signs in. Returns the client and whether the password must be changed first.
    pub fn sign_in(&self, username: &str, password: &str) -> Result<(Self, bool)> {
        let body = json!({"username": username, "password": password});
        let caller = Self { tally: Arc::default(), ..self.clone() };
        let answer = caller.send("POST", "/login", None, Some(&body))?;
        let body = expect(&answer, "POST", "/login", &[200])?;
        let must_change = body.get("must_change_password").and_then(Value::as_bool).unwrap_or_default();
        let cookie =
            answer.cookie.with_context(|| format!("the sign-in of {username} returned no cookie"))?;
        Ok((Self { credential: Credential::Session(cookie), ..caller }, must_change))
    }

    /// Returns the session cookie in the format of the `cookie` header.
    pub fn cookie(&self) -> Option<&str> {
        match &self.credential {
            Credential::Session(cookie) => Some(cookie),
            Credential::Anonymous | Credential::Key(_) => None,
        }
    }

    /// Signs in, and sets a new password if the first one must be changed. Returns the client and the password.
    pub fn activate_account(&self, username: &str, password: &str) -> Result<(Self, String)> {
        let (client, must_change) = self.sign_in(username, password)?;
        if !must_change {
            return Ok((client, password.to_owned()));
        }
        let new = secret::password()?;
        let body = json!({"current_password": password, "new_password": new});
        client.call("POST", "/me/password", Some(&body))?;
        Ok((client, new))
    }

    /// Sends a request and returns the response, whatever its status.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        if_match: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer> {
        interrupt::check()?;
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        // MCP requires clients to accept both media types.
        let mut request = request.header("accept", "application/json, text/event-stream");
        request = match &self.credential {
            Credential::Anonymous => request,
            Credential::Session(cookie) => request.header("cookie", cookie),
            Credential::Key(key) => request.header("authorization", format!("Bearer {key}")),
        };
        if let Some(version) = if_match {
            request = request.header("if-match", version);
        }
        let context = || format!("no answer to {method} {path}");
        let mut response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string())?;
                self.agent.run(request).with_context(context)?
            }
            None => self.agent.run(request.body(())?).with_context(context)?,
        };
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (etag, cookie) = (header("etag"), header("set-cookie"));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next().map(str::to_owned));
        // A page of whole traces may be large.
        let text =
            response.body_mut().with_config().limit(256 << 20).read_to_string().with_context(context)?;
        let status = response.status().as_u16();
        self.tally.count(method, path, status);
        Ok(Answer { status, etag, cookie, text })
    }

    /// Sends a request, which must succeed.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        expect(&self.send(method, path, None, body)?, method, path, &[200, 201, 204])
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None)
    }
}

/// Returns the body of a response, which must have one of these statuses.
pub fn expect(answer: &Answer, method: &str, path: &str, statuses: &[u16]) -> Result<Value> {
    if !statuses.contains(&answer.status) {
        bail!("{method} {path} was answered with {}: {}", answer.status, answer.text.trim());
    }
    if answer.text.is_empty() { Ok(Value::Null) } else { answer.json() }
}

/// Returns a string member of an object. If it is absent, the error names it.
pub fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("the answer has no text at `{pointer}`: {value}"))
}

/// Returns an array member of an object. If it is absent, the error names it.
pub fn list<'a>(value: &'a Value, pointer: &str) -> Result<&'a [Value]> {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).with_context(|| format!("the answer has no list at `{pointer}`: {value}"))
}

/// Formats nanoseconds since 1970 as RFC 3339.
pub fn rfc_3339(unix_nanos: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_nanos))
        .map(|time| format!("{time:.9}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nine_digits() {
        assert_eq!(rfc_3339(1_793_527_200_000_000_001), "2026-11-01T10:00:00.000000001Z");
        assert_eq!(rfc_3339(1_793_527_200_000_000_000), "2026-11-01T10:00:00.000000000Z");
    }
}
