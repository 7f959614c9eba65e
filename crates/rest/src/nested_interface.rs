//! Another interface of the service, nested behind the same middleware and access checks as the API.

use std::sync::Arc;

use axum::Router;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;
use tower::ServiceExt as _;
use tracewarden_service::{Principal, ServiceError, Tool};

use crate::accept::{Representation, negotiate};
use crate::body::{MAX_BODY_BYTES, read_with_deadline};
use crate::challenge::Challenge;
use crate::code::Code;
use crate::json_complexity;
use crate::problem::Problem;

/// A nested interface and its path. Its requests have been authenticated with an API key: their extensions hold the
/// `Arc<Principal>` of the caller.
#[derive(Clone)]
pub struct NestedInterface {
    /// The path.
    pub path: &'static str,
    /// The router of the interface.
    pub interface: Router,
}

/// Marks a response whose body has the interface's own format, whatever its status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnBody;

/// Maximum length of an error text that is read from the interface.
const MAX_REFUSAL_BYTES: usize = 4 * 1024;

const TOO_MANY_VALUES: &str = "the body has too many lists, objects or values";

impl NestedInterface {
    /// Returns the interface's response. JSON bodies stay unchanged; a plain-text error becomes a problem as on other routes.
    pub(crate) async fn handle(self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        if head.method == Method::POST
            && let Err(problem) = accepts_json(&head.headers)
        {
            return problem.into_response();
        }
        // The body is read here, with a time-out: the interface itself would wait for a slow client without a limit.
        let body = match read_with_deadline(body, MAX_BODY_BYTES).await {
            Ok(bytes) if json_complexity::within_limits(&bytes) => bytes,
            Ok(_) => return Problem::new(Code::PayloadTooLarge, TOO_MANY_VALUES).into_response(),
            Err(problem) => return problem.into_response(),
        };
        if let Some(tool) = called_tool(&body)
            && let Some(principal) = head.extensions.get::<Arc<Principal>>()
            && let Err(error @ ServiceError::InsufficientScope { .. }) = principal.require_tool(Some(tool))
        {
            let problem = Problem::from(error);
            let challenge = head.extensions.get::<Challenge>();
            let problem =
                challenge.map_or_else(|| problem.clone(), |challenge| challenge.add_to(problem.clone()));
            let mut response = problem.into_response();
            response.extensions_mut().insert(DeniedTool(tool));
            return response;
        }
        let Ok(mut response) = self.interface.oneshot(Request::from_parts(head, Body::from(body))).await;
        let status = response.status();
        let refused = status.is_client_error() || status.is_server_error();
        if !refused || is_json(&response) {
            response.extensions_mut().insert(OwnBody);
            return response;
        }
        refusal(response).await
    }
}

/// Marks the response to a call of a tool for which the caller's access token has no scope. Programs can ask the person for more
/// scopes only if the HTTP response says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeniedTool(pub(crate) Tool);

/// Returns the tool that a message calls.
fn called_tool(message: &[u8]) -> Option<Tool> {
    #[derive(Deserialize)]
    struct Call {
        method: String,
        params: Parameters,
    }
    #[derive(Deserialize)]
    struct Parameters {
        name: String,
    }
    let call: Call = serde_json::from_slice(message).ok()?;
    if call.method == "tools/call" { Tool::parse(&call.params.name) } else { None }
}

/// Checks that the client accepts JSON, the only representation. Without a media type in `Accept`, it accepts everything.
fn accepts_json(headers: &HeaderMap) -> Result<(), Problem> {
    let accepts_anything =
        headers.get_all(header::ACCEPT).iter().all(|value| value.as_bytes().trim_ascii().is_empty());
    if accepts_anything { Ok(()) } else { negotiate(headers, &[Representation::Json]).map(drop) }
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(Representation::Json.media_type())
}

async fn refusal(response: Response<Body>) -> Response {
    let (head, body) = response.into_parts();
    let code = match head.status {
        StatusCode::FORBIDDEN => Code::CrossSite,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
        StatusCode::NOT_ACCEPTABLE => Code::NotAcceptable,
        StatusCode::PAYLOAD_TOO_LARGE => Code::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        status if status.is_client_error() => Code::InvalidRequest,
        _ => Code::Internal,
    };
    let text = body::to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let problem = match (code, std::str::from_utf8(&text)) {
        (Code::Internal, text) => {
            tracing::error!(?text, "a nested interface failed");
            Problem::new(code, "internal error; see the log entries with this request id")
        }
        (_, Ok(text)) if !text.is_empty() => Problem::new(code, text),
        _ => Problem::new(code, "the request cannot be read"),
    };
    let mut refusal = problem.into_response();
    if let Some(allow) = head.headers.get(header::ALLOW) {
        refusal.headers_mut().insert(header::ALLOW, allow.clone());
    }
    refusal
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use bytes::Bytes;
    use futures::stream;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test]
    async fn json_that_takes_hundreds_of_times_its_size_is_refused() {
        let nested = "[".repeat(100) + &"]".repeat(100);
        for (lists, refused) in [(1, false), (8, false), (11, true), (1_000, true)] {
            let sent = format!("[{}]", vec![nested.as_str(); lists].join(","));
            let interface = Router::new().fallback(async |body: Bytes| body);
            let request = Request::post("/mcp").body(Body::from(sent.clone())).unwrap();
            let response = NestedInterface { path: "/mcp", interface }.handle(request).await;
            let code = response.extensions().get::<Problem>().map(Problem::code);
            assert_eq!(code, refused.then_some(Code::PayloadTooLarge), "{lists}");
            let body = body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert!(refused || body == sent, "{lists}");
        }
    }

    #[test]
    fn any_accept_header_that_admits_json_is_served() {
        let check = |accept: &[&str], admits: bool| {
            let headers = accept.iter().map(|value| (header::ACCEPT, value.parse().unwrap()));
            assert_eq!(accepts_json(&HeaderMap::from_iter(headers)).is_ok(), admits, "{accept:?}");
        };
        for accept in [
            &[][..],
            &[""],
            &["*/*"],
            &["application/json"],
            &["application/*, text/*"],
            &["application/json, text/event-stream"],
            &["text/event-stream", "application/json;q=0.1"],
            &["Application/JSON; charset=utf-8"],
            &["text/event-stream;q=0, */*;q=0.001"],
        ] {
            check(accept, true);
        }
        for accept in [
            "text/event-stream",
            "text/html",
            "application/json;q=0",
            "application/json;q=0.000, */*",
            "*/*;q=0",
            "application/*;q=0, */*",
            "application/json-rpc",
        ] {
            check(&[accept], false);
        }
    }

    /// Sends a body in pieces of one byte, `interval` from each other.
    async fn send(pieces: usize, interval: Duration) -> (StatusCode, Option<Code>, Bytes, Duration) {
        let interface = Router::new().fallback(async |body: Bytes| body);
        let pieces = stream::unfold(pieces, move |left| async move {
            sleep(interval).await;
            left.checked_sub(1).map(|left| (Ok::<_, Infallible>("x"), left))
        });
        let begun = Instant::now();
        let request = Request::post("/mcp").body(Body::from_stream(pieces)).unwrap();
        let response = NestedInterface { path: "/mcp", interface }.handle(request).await;
        let (status, took) = (response.status(), begun.elapsed());
        let code = response.extensions().get::<Problem>().map(Problem::code);
        (status, code, body::to_bytes(response.into_body(), usize::MAX).await.unwrap(), took)
    }

    #[tokio::test(start_paused = true)]
    async fn slow_and_large_bodies_are_refused() {
        let seconds = Duration::from_secs;
        let (status, code, body, _) = send(20, seconds(1)).await;
        assert_eq!((status, code, body.as_ref()), (StatusCode::OK, None, &[b'x'; 20][..]));
        for interval in [seconds(1), seconds(3_600)] {
            let (status, code, _, took) = send(usize::MAX, interval).await;
            assert_eq!((status, code), (StatusCode::REQUEST_TIMEOUT, Some(Code::RequestTimeout)));
            assert!(took < seconds(60), "{took:?}");
        }
        let (status, code, ..) = send(MAX_BODY_BYTES + 1, Duration::ZERO).await;
        assert_eq!((status, code), (StatusCode::PAYLOAD_TOO_LARGE, Some(Code::PayloadTooLarge)));
    }
}
