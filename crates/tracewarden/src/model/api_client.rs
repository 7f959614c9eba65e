//! Client of the service's API with an administrator's API key.

use std::env;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderValue, Method};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tracewarden_documents::Document;
use url::Url;

use super::paint::sanitize;
use crate::command_line::Connection;
use crate::configuration::values;
use crate::policy::ErrorReport;
use crate::serve;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time-out for a whole answer, so that a command ends when the network fails silently. It exceeds the service's own
/// limits, of which the longest, ten times `query_timeout`, is for comparing key columns with their maps.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Larger answers are rejected: no model that a service accepts is that large.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// More than any API key needs; bounds the memory if the wrong file is given.
const MAX_KEY_BYTES: u64 = 4096;

const KEY: &str = "TRACEWARDEN_API_KEY";
const KEY_FILE: &str = "TRACEWARDEN_API_KEY_FILE";

pub(super) struct ApiClient {
    runtime: Runtime,
    http: Client,
    /// Scheme, host and port.
    pub(super) base: String,
    authorization: HeaderValue,
}

pub(super) struct Body {
    pub(super) content_type: &'static str,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct Answer {
    etag: Option<HeaderValue>,
    pub(super) bytes: Vec<u8>,
}

/// An unsuccessful response, with problem details.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    #[serde(skip)]
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) errors: Vec<InvalidMember>,
    #[serde(skip)]
    retry_after: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InvalidMember {
    pub(super) pointer: String,
    pub(super) code: String,
    pub(super) detail: String,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    pub(super) length: Option<u32>,
    pub(super) hint: Option<String>,
}

/// Why there is no usable answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// No usable response was received. The request may have been sent.
    NoAnswer(String),
    /// The service rejected the request.
    Problem(Box<Problem>),
}

impl ApiClient {
    /// Prepares the client; sends no request yet.
    pub(super) fn new(connection: &Connection) -> Result<Self, ErrorReport> {
        // An empty variable counts as not set, as in the configuration.
        let url = connection.url.as_deref().filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| {
            ErrorReport::failed("no address of a service: give it with `--url` or `TRACEWARDEN_URL`")
        })?;
        let base = values::origin(url)
            .map_err(|error| ErrorReport::failed(format!("the service's address: {error}")))?;
        let authorization = authorization(&key(connection)?)?;
        let runtime = serve::runtime().map_err(|error| ErrorReport::failed(format!("{error:#}")))?;
        let http = client(&base, connection.ca_file.as_deref())?;
        Ok(Self { runtime, http, base, authorization })
    }

    /// Sends a request and parses its answer as JSON.
    pub(super) fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        if_match: Option<u64>,
        body: Option<&Body>,
    ) -> Result<T, Failure> {
        let answer = self.send(method, path, "application/json", if_match, body)?;
        let text = String::from_utf8_lossy(&answer.bytes);
        // Not through `serde_json`'s 64-bit numbers: the numbers in a model's tests keep all their digits.
        let read = Document::read(&text).and_then(|document| document.parse());
        read.map_err(|fault| Failure::NoAnswer(self.unexpected_answer(&fault.message)))
    }

    /// Converts a JSON answer to the expected type.
    pub(super) fn decode<T: DeserializeOwned>(&self, answer: serde_json::Value) -> Result<T, ErrorReport> {
        serde_json::from_value(answer).map_err(|error| ErrorReport::failed(self.unexpected_answer(&error)))
    }

    fn unexpected_answer(&self, error: &dyn std::fmt::Display) -> String {
        format!("{} returned an answer that this program does not understand: {error}", self.base)
    }

    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        if_match: Option<u64>,
        body: Option<&Body>,
    ) -> Result<Answer, Failure> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(ACCEPT, accept);
        if let Some(version) = if_match {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(Body { content_type, bytes }) = body {
            request = request.header(CONTENT_TYPE, *content_type).body(bytes.clone());
        }
        self.runtime.block_on(async {
            let response =
                request.send().await.map_err(|error| Failure::NoAnswer(self.connection_error(&error)))?;
            self.read(response).await
        })
    }

    async fn read(&self, mut response: Response) -> Result<Answer, Failure> {
        let status = response.status();
        let header = |name: &str| response.headers().get(name).cloned();
        let (etag, retry_after) = (header(ETAG.as_str()), header("retry-after"));
        let mut bytes = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| Failure::NoAnswer(self.connection_error(&error)))?
        {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                let message = format!("{} returned more than {MAX_ANSWER_BYTES} bytes", self.base);
                return Err(Failure::NoAnswer(message));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(Answer { etag, bytes });
        }
        let mut problem: Problem = serde_json::from_slice(&bytes).unwrap_or_default();
        problem.status = status.as_u16();
        problem.retry_after = retry_after.and_then(|value| value.to_str().ok().map(sanitize));
        Err(Failure::Problem(Box::new(problem)))
    }

    /// Describes a request without an answer.
    fn connection_error(&self, error: &reqwest::Error) -> String {
        let cause = sanitize(&causes(error));
        if error.is_connect() {
            format!(
                "{} cannot be reached: {cause}; check that the service runs and that this is its address",
                self.base
            )
        } else if error.is_timeout() {
            format!("{} did not answer within {} seconds", self.base, TIMEOUT.as_secs())
        } else {
            format!("the connection to {} was lost: {cause}", self.base)
        }
    }

    /// Describes a failed request, and what the operator can do.
    pub(super) fn explain(&self, failure: Failure) -> ErrorReport {
        match failure {
            Failure::NoAnswer(message) => ErrorReport::failed(message),
            Failure::Problem(problem) => ErrorReport::failed(self.explain_problem(&problem)),
        }
    }

    fn explain_problem(&self, problem: &Problem) -> String {
        let base = &self.base;
        let Problem { status, code, retry_after, .. } = problem;
        let message = problem.message();
        match (*status, code.as_str()) {
            (300..=399, _) => {
                format!("{base} redirects to another address ({status}): give the final address with `--url`")
            }
            (_, "") => {
                format!("{base} answered with {status}, but not as Tracewarden does: check the address")
            }
            (401, _) => format!(
                "{base} rejected the API key: it was revoked, has expired or belongs to another service; an \
                 administrator can create a new one with `POST /me/api-keys`, or in the web application"
            ),
            (403, "forbidden") => format!(
                "the API key may not do this: the access model needs an administrator's API key that is not \
                 scoped ({message})"
            ),
            (404, "not_found") | (405, _) => format!(
                "{base} does not support the access model as a file: it is older than this program ({})",
                env!("CARGO_PKG_VERSION")
            ),
            (412, _) => {
                "the access model has changed in the meantime, so nothing was done: plan again, and check \
                 `tracewarden model history`"
                    .to_owned()
            }
            _ => match retry_after {
                Some(seconds) => format!("{base}: {message} ({status}); try again in {seconds} seconds"),
                None => format!("{base}: {message} ({status})"),
            },
        }
    }
}

impl Answer {
    /// Returns the version of the access model in the `ETag`, if there is one.
    pub(super) fn version(&self) -> Option<u64> {
        self.etag.as_ref()?.to_str().ok()?.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
    }
}

impl Problem {
    /// Returns the service's own message.
    pub(super) fn message(&self) -> String {
        match (self.title.as_str(), self.detail.as_str()) {
            (title, "") => sanitize(title),
            ("", detail) => sanitize(detail),
            (title, detail) => sanitize(&format!("{title}: {detail}")),
        }
    }
}

/// Returns the API key from the option, otherwise from the variables.
fn key(connection: &Connection) -> Result<String, ErrorReport> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = &connection.api_key_file {
        return read_key_file(path);
    }
    match (variable(KEY), variable(KEY_FILE)) {
        (Some(_), Some(_)) => {
            Err(ErrorReport::failed(format!("`{KEY}` and `{KEY_FILE}` are both set; keep one")))
        }
        (None, Some(path)) => read_key_file(Path::new(&path)),
        (Some(key), None) => {
            key.into_string().map_err(|_| ErrorReport::failed(format!("`{KEY}` does not hold an API key")))
        }
        (None, None) => Err(ErrorReport::failed(format!(
            "an administrator's API key is needed: set `{KEY}` or `{KEY_FILE}`, or name its file with `--api-key-file`"
        ))),
    }
}

fn read_key_file(path: &Path) -> Result<String, ErrorReport> {
    let display_name = sanitize(&path.display().to_string());
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut text));
    read.map_err(|error| {
        ErrorReport::failed(format!("the key's file {display_name} cannot be read: {error}"))
    })?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(ErrorReport::failed(format!("the key's file {display_name} is empty"))),
        key => Ok(key.to_owned()),
    }
}

/// Returns the `Authorization` header. Neither the header nor an error shows the key.
fn authorization(key: &str) -> Result<HeaderValue, ErrorReport> {
    let visible = |byte: u8| byte.is_ascii_graphic();
    let value = HeaderValue::from_str(&format!("Bearer {key}")).ok().filter(|_| key.bytes().all(visible));
    let mut value = value.ok_or_else(|| {
        ErrorReport::failed("this is not an API key: a key begins with `twk_` and has no spaces")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn client(base: &str, ca_file: Option<&Path>) -> Result<Client, ErrorReport> {
    // Follow no redirect: the API key is sent to the given address only.
    let mut builder =
        Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(TIMEOUT).redirect(Policy::none());
    if Url::parse(base).is_ok_and(|url| values::is_loopback(&url)) {
        // A proxy would send the API key off this machine, perhaps unencrypted.
        builder = builder.no_proxy();
    }
    if let Some(path) = ca_file.filter(|path| !path.as_os_str().is_empty()) {
        let failed = |error: String| {
            let display_name = sanitize(&path.display().to_string());
            ErrorReport::failed(format!("the certificates of {display_name} cannot be used: {error}"))
        };
        let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(causes(&error)))?;
        if certificates.is_empty() {
            return Err(failed("no certificate in PEM format".to_owned()));
        }
        builder = builder.tls_certs_only(certificates);
    }
    builder
        .build()
        .map_err(|error| ErrorReport::failed(format!("cannot set up the HTTP client: {}", causes(&error))))
}

/// Returns the causes of an error without the URL, which the message names already.
fn causes(error: &reqwest::Error) -> String {
    let texts: Vec<String> = anyhow::Chain::new(error).skip(1).map(ToString::to_string).collect();
    if texts.is_empty() { "the connection failed".to_owned() } else { texts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let header = authorization("twk_hunter2").unwrap();
        assert!(!format!("{header:?}").contains("hunter2"));
        for wrong in ["twk_hunter2\n", "hunter2 hunter2", "hunter2\u{e9}", "hunter2\r\nx: y"] {
            assert!(!format!("{:?}", authorization(wrong).unwrap_err()).contains("hunter2"));
        }
    }
}
