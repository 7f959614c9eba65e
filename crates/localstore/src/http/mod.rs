//! ClickHouse's HTTP protocol.

mod answer;
mod body;
pub mod compression;
pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod guard;
pub(crate) mod output;
pub(crate) mod request;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Multipart, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use self::answer::ResponseHead;
use self::connection::Flushes;
use self::credentials::Credentials;
use self::output::{Output, State as OutputState};
use self::request::{Parameter, Request};
use crate::error::{EngineError, code};
use crate::execute::Job;
use crate::running::{Registry, StopReason};

/// Maximum length of a form field: ClickHouse's default of `http_max_field_value_size`, which a server takes from its
/// default profile and never from a request.
const MAX_FIELD_BYTES: usize = 128 << 10;
/// Maximum length of a form with a query and its parameters.
const MAX_FORM_BYTES: usize = 64 << 20;
/// Maximum number of buffered parts of a response; the engine waits when the client is behind.
const ANSWER_PARTS: usize = 4;
/// The engine stops a query at `max_execution_time` itself; this process does so after this additional time.
const TIMEOUT_GRACE: Duration = Duration::from_millis(500);

pub(crate) struct Server {
    pub credentials: Credentials,
    pub registry: Arc<Registry>,
    pub version: String,
    /// The engine's time zone.
    pub timezone: String,
}

pub(crate) fn router(server: Arc<Server>, listen: SocketAddr) -> Router {
    Router::new()
        .route("/ping", any(async || "Ok.\n"))
        .route("/", any(statement))
        .fallback(async || (StatusCode::NOT_FOUND, "There is no handle for this path\n"))
        .with_state(server)
        .layer(middleware::from_fn_with_state(listen, guard::refuse_browsers))
}

async fn statement(
    State(server): State<Arc<Server>>,
    ConnectInfo(flushes): ConnectInfo<Flushes>,
    http_request: axum::extract::Request,
) -> Response {
    let started = Instant::now();
    let (parts, body) = http_request.into_parts();
    if !matches!(parts.method, Method::GET | Method::POST | Method::HEAD) {
        return (StatusCode::NOT_IMPLEMENTED, "Only GET and POST are supported\n").into_response();
    }
    let mut parameters = request::url_parameters(&parts.uri);
    let mut head = ResponseHead {
        query_id: String::new(),
        tag: crate::entropy::random_name(),
        version: server.version.clone(),
        timezone: server.timezone.clone(),
        wait_end_of_query: false,
        started,
    };
    if parts.method != Method::POST && !parameters.iter().any(|(name, _)| name == "query") {
        return "Ok.\n".into_response();
    }
    // Checked before the body: bodies of unauthenticated clients are not parsed.
    if let Err(error) = server.credentials.check(&parts.headers, &parameters) {
        return answer::failure(&error, &head);
    }
    let is_form = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"multipart/form-data"));
    let headers = parts.headers.clone();
    let method = parts.method.clone();
    let body = if is_form {
        match form_parameters(axum::extract::Request::from_parts(parts, body)).await {
            Ok(form) => parameters.extend(form),
            Err(error) => return answer::failure(&error, &head),
        }
        Body::empty()
    } else {
        body
    };
    let request = Request::read(&method, &headers, parameters);
    match request.and_then(|request| start(&server, request, body, &mut head)) {
        Ok((frames, guard)) => answer::answer(frames, head, guard, flushes).await,
        Err(error) => answer::failure(&error, &head),
    }
}

fn start(
    server: &Server,
    request: Request,
    body: Body,
    head: &mut ResponseHead,
) -> Result<(mpsc::Receiver<output::Frame>, CancelOnDrop), EngineError> {
    head.query_id.clone_from(&request.query_id);
    head.wait_end_of_query = request.wait_end_of_query;
    let entry = server.registry.register(&request.query_id)?;
    let (sender, frames) = mpsc::channel(ANSWER_PARTS);
    let output = Output {
        frames: sender,
        compress: request.compress,
        tag: head.tag.clone(),
        engine_version: server.version.clone(),
        state: OutputState::default(),
    };
    let mark = entry.running.mark.clone();
    let timeout_task = start_timeout(&server.registry, mark.clone(), request.setting("max_execution_time"));
    let cancels = request.cancels_on_disconnect();
    let guard =
        CancelOnDrop { cancels, registry: Arc::clone(&server.registry), marks: vec![mark], timeout_task };
    let body = body::blocking_reader(body, Arc::clone(&entry.running));
    tokio::task::spawn_blocking(move || Job { request, entry }.run(body, output));
    Ok((frames, guard))
}

/// Stops a query that the engine does not stop in time.
fn start_timeout(registry: &Arc<Registry>, mark: String, limit: Option<&[u8]>) -> Option<AbortHandle> {
    let seconds: f64 = std::str::from_utf8(limit?).ok()?.trim().parse().ok()?;
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero())?;
    let registry = Arc::clone(registry);
    let task = tokio::spawn(async move {
        tokio::time::sleep(limit.saturating_add(TIMEOUT_GRACE)).await;
        registry.stop(&[mark], StopReason::TimedOut);
    });
    Some(task.abort_handle())
}

/// Cancels the query when the client disconnects, if the client requested that. The task of the connection drops this
/// with the response.
struct CancelOnDrop {
    /// False for a query that may change data, and for a client that did not request it. As in ClickHouse, such queries
    /// continue.
    cancels: bool,
    registry: Arc<Registry>,
    marks: Vec<String>,
    timeout_task: Option<AbortHandle>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.cancels {
            return;
        }
        self.registry.stop(&self.marks, StopReason::Cancelled);
        if let Some(task) = &self.timeout_task {
            task.abort();
        }
    }
}

async fn form_parameters(mut request: axum::extract::Request) -> Result<Vec<Parameter>, EngineError> {
    let bad =
        |text: String| EngineError::new(code::BAD_ARGUMENTS, format_args!("Cannot read the form: {text}"));
    // The extractor's own limit of 2 MB is far below that of ClickHouse.
    DefaultBodyLimit::max(MAX_FORM_BYTES).apply(&mut request);
    let mut form = Multipart::from_request(request, &()).await.map_err(|error| bad(error.body_text()))?;
    let mut parameters = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| bad(error.body_text()))? {
        let name = field.name().unwrap_or_default().to_owned();
        let value = field.bytes().await.map_err(|error| bad(error.body_text()))?;
        if value.len() > MAX_FIELD_BYTES {
            let text = "HTML Form Exception: Field value too long";
            return Err(EngineError::new(code::POCO_EXCEPTION, text));
        }
        parameters.push((name, value.to_vec()));
    }
    Ok(parameters)
}
