//! ClickHouse's HTTP protocol, as far as reading needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use tracewarden_model::Entropy;
use url::Url;

use crate::metrics::{Measured, Metrics};
use crate::settings::{Bounds, READONLY, READONLY_OF_PROFILE, settings};
use crate::sql::Statement;
use crate::{StoreConfig, StoreError};

/// How long connecting may take before the next endpoint is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How much longer than its time limit a statement may keep silent before it is given up: the store enforces the
/// limit itself, so this only catches a store that hangs.
const SILENCE_GRACE: Duration = Duration::from_secs(15);
/// Most of an error's text that is kept.
const MAX_ERROR_BYTES: usize = 16 * 1024;
/// Most of an answer that is collected rather than streamed.
const MAX_COLLECTED_BYTES: usize = 256 * 1024 * 1024;

/// Most that a statement and its values may take. Policies and filters have limits of their own, well below.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// Rows as JSON arrays, one a line.
const ROWS: &str = "JSONCompactEachRow";

/// Which settings go with a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// All of ours.
    Settings,
    /// None.
    Nothing,
}

/// A statement and its values as a form, in one piece. The HTTP client's own forms nest one stream in another for each
/// part, which with a thousand values overflows the stack. The boundary is random, so that no value can hold it.
fn form(statement: &Statement, boundary: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(statement.text.len() + statement.parameters.len() * 128 + 512);
    let mut part = |name: &str, value: &str| {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    };
    part("query", &statement.text);
    for (at, value) in statement.parameters.iter().enumerate() {
        part(&format!("param_p{at}"), value);
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    endpoints: Arc<[Url]>,
    /// The endpoint that answered last.
    preferred: Arc<AtomicUsize>,
    /// Whether the user's own profile fixes `readonly`.
    readonly_fixed: Arc<AtomicBool>,
    pub(crate) metrics: Metrics,
    bounds: Bounds,
    config: Arc<StoreConfig>,
    entropy: Arc<dyn Entropy>,
}

/// An answer that is still arriving.
pub(crate) struct Answer {
    response: reqwest::Response,
    measured: Measured,
}

impl Client {
    pub(crate) fn new(config: Arc<StoreConfig>, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let endpoints = config
            .endpoints
            .iter()
            .map(|endpoint| {
                Url::parse(endpoint)
                    .map_err(|error| StoreError::Internal(format!("`{endpoint}` is not an address: {error}")))
            })
            .collect::<Result<Arc<[Url]>, _>>()?;
        if endpoints.is_empty() {
            return Err(StoreError::Internal("no endpoint of the trace store is configured".to_owned()));
        }
        let silence = Duration::from_secs(u64::from(config.max_execution_time_seconds)) + SILENCE_GRACE;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(silence)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| StoreError::Internal(format!("no HTTP client: {error}")))?;
        Ok(Self {
            http,
            endpoints,
            preferred: Arc::default(),
            readonly_fixed: Arc::default(),
            metrics: Metrics::default(),
            bounds: Bounds::of(&config),
            config,
            entropy,
        })
    }

    /// Sends a statement and waits for the head of its answer. An endpoint that cannot be reached is passed over; one
    /// that has taken the statement is not.
    pub(crate) async fn send(&self, statement: Statement, format: &str) -> Result<Answer, StoreError> {
        let fixed = self.readonly_fixed.load(Ordering::Relaxed);
        match self.send_once(&statement, format, Sent::Settings).await {
            // The server refused the setting, so it has not begun the statement.
            Err(error) if !fixed && error.refuses_readonly() => {
                self.readonly_fixed.store(true, Ordering::Relaxed);
                self.send_once(&statement, format, Sent::Settings).await
            }
            answer => answer,
        }
    }

    async fn send_once(&self, statement: &Statement, format: &str, sent: Sent) -> Result<Answer, StoreError> {
        let mut measured = self.metrics.begin();
        match self.deliver(statement, format, sent).await {
            Ok(response) => Answer { response, measured }.checked().await,
            Err(error) => {
                measured.failed(&error);
                Err(error)
            }
        }
    }

    async fn deliver(
        &self,
        statement: &Statement,
        format: &str,
        sent: Sent,
    ) -> Result<reqwest::Response, StoreError> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = None;
        for step in 0..self.endpoints.len() {
            let at = (first + step) % self.endpoints.len();
            let Some(endpoint) = self.endpoints.get(at) else { continue };
            match self.request(endpoint, statement, format, sent)?.send().await {
                Ok(response) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) if error.is_connect() => failure = Some(text(&error)),
                Err(error) if error.is_timeout() => return Err(StoreError::Timeout(text(&error))),
                Err(error) => return Err(StoreError::Unavailable(text(&error))),
            }
        }
        Err(StoreError::Unavailable(failure.unwrap_or_default()))
    }

    fn request(
        &self,
        endpoint: &Url,
        statement: &Statement,
        format: &str,
        sent: Sent,
    ) -> Result<reqwest::RequestBuilder, StoreError> {
        let mut id = [0_u8; 16];
        self.entropy.fill(&mut id).map_err(|error| StoreError::Internal(error.to_string()))?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut url = endpoint.clone();
        url.query_pairs_mut()
            .append_pair("query_id", &format!("tracewarden-{id}"))
            .append_pair("default_format", format);
        if sent == Sent::Settings {
            let fixed = self.readonly_fixed.load(Ordering::Relaxed);
            let readonly = if fixed { READONLY_OF_PROFILE } else { READONLY };
            url.query_pairs_mut().extend_pairs(settings(&self.config, self.bounds, readonly));
        }
        // Values can be long, and addresses are logged: both speak for the body.
        let boundary = format!("tracewarden-{id}");
        let body = form(statement, &boundary);
        if body.len() > MAX_REQUEST_BYTES {
            let message = format!("the statement is too large: {} bytes", body.len());
            return Err(StoreError::Store { code: None, message });
        }
        Ok(self
            .http
            .post(url)
            .header("X-ClickHouse-User", &self.config.user)
            .header("X-ClickHouse-Key", self.config.password.expose_secret())
            .header("Content-Type", format!("multipart/form-data; boundary={boundary}"))
            .body(body))
    }

    /// All rows of a small answer, each a JSON array.
    pub(crate) async fn rows<T: DeserializeOwned>(&self, statement: Statement) -> Result<Vec<T>, StoreError> {
        self.send(statement, ROWS).await?.rows().await
    }

    /// The configured endpoints.
    pub(crate) fn endpoints(&self) -> &[Url] {
        &self.endpoints
    }

    /// All rows of a small answer to a statement that looks at the user's own profile: without any setting of ours. Never
    /// for span data.
    pub(crate) async fn rows_of_profile<T: DeserializeOwned>(
        &self,
        statement: &str,
    ) -> Result<Vec<T>, StoreError> {
        self.send_once(&Statement::new(statement), ROWS, Sent::Nothing).await?.rows().await
    }

    /// The same client for statements that must cost less than others.
    pub(crate) fn within(&self, bounds: Bounds) -> Self {
        let seconds = bounds.seconds.min(self.config.max_execution_time_seconds);
        Self { bounds: Bounds { seconds, ..bounds }, ..self.clone() }
    }

    /// A client of this endpoint alone.
    pub(crate) fn only(&self, endpoint: &Url) -> Self {
        Self {
            endpoints: Arc::from([endpoint.clone()]),
            preferred: Arc::default(),
            readonly_fixed: Arc::default(),
            ..self.clone()
        }
    }
}

impl Answer {
    /// All rows, each a JSON array.
    async fn rows<T: DeserializeOwned>(self) -> Result<Vec<T>, StoreError> {
        let mut body = Vec::new();
        let mut stream = Box::pin(self.into_stream());
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk?);
            if body.len() > MAX_COLLECTED_BYTES {
                return Err(StoreError::Internal("an answer is too large to be collected".to_owned()));
            }
        }
        body.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                // An exception after the first byte stands where a row should.
                serde_json::from_slice(line).map_err(|error| {
                    let shown = quotable(line, b'[');
                    StoreError::Store { code: None, message: format!("unexpected row ({error}): {shown}") }
                })
            })
            .collect()
    }

    async fn checked(mut self) -> Result<Self, StoreError> {
        let header = |name: &str| self.response.headers().get(name).and_then(|value| value.to_str().ok());
        let code = header("X-ClickHouse-Exception-Code").and_then(|code| code.parse::<i32>().ok());
        if self.response.status().is_success() && code.is_none() {
            return Ok(self);
        }
        let status = self.response.status();
        let mut message = Vec::new();
        let mut body = self.response.bytes_stream();
        while let Some(Ok(chunk)) = body.next().await {
            message.extend_from_slice(&chunk);
            if message.len() > MAX_ERROR_BYTES {
                message.truncate(MAX_ERROR_BYTES);
                break;
            }
        }
        let message = format!("status {status}: {}", String::from_utf8_lossy(&message));
        let error = match code {
            None if matches!(status.as_u16(), 502..=504) => StoreError::Unavailable(message),
            code => StoreError::from_exception(code, message),
        };
        self.measured.failed(&error);
        Err(error)
    }

    /// The body. A connection that breaks off is an error: ClickHouse ends a failed answer without its final chunk.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + use<> {
        let mut measured = self.measured;
        let chunks = self.response.bytes_stream().map(Some).chain(stream::iter([None]));
        chunks.filter_map(move |chunk| {
            let chunk = match chunk {
                Some(Ok(bytes)) => Some(Ok(bytes)),
                Some(Err(error)) => {
                    let error = if error.is_timeout() {
                        StoreError::Timeout(text(&error))
                    } else {
                        StoreError::Short(text(&error))
                    };
                    measured.failed(&error);
                    Some(Err(error))
                }
                None => {
                    measured.complete();
                    None
                }
            };
            future::ready(chunk)
        })
    }
}

/// What a line that should not be there says, for the log; nothing when it begins like the rows that were asked for,
/// since those hold span data.
pub(crate) fn quotable(line: &[u8], row_begin: u8) -> String {
    if line.first() == Some(&row_begin) {
        return "(not shown, it may hold span data)".to_owned();
    }
    String::from_utf8_lossy(line).chars().take(300).collect()
}

/// An error with its causes and without the address, which holds every setting.
fn text(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}
