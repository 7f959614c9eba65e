//! Another interface of the service, served behind the same wrapper and the same gate as the API.

use axum::Router;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tower::ServiceExt as _;

use crate::code::Code;
use crate::problem::Problem;

/// An interface and where it is. Its requests have been authenticated, by an API key: their extensions hold the
/// `Arc<Principal>` who calls.
#[derive(Clone)]
pub struct Mount {
    /// The path.
    pub path: &'static str,
    /// What answers there.
    pub interface: Router,
}

/// Marks an answer whose body is the interface's own, whatever its status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnBody;

/// How the library of the agents' protocol says that a body did not come to its end.
const BODY_BROKE_OFF: &str = "Failed to read request body";

/// More of a refusal's text is of no use to anybody.
const MAX_REFUSAL_BYTES: usize = 4 * 1024;

impl Mount {
    /// The interface's answer. What it says in a form of its own stays as it is; a refusal in bare text becomes a problem
    /// like any other.
    pub(crate) async fn answer(self, request: Request) -> Response {
        let Ok(mut response) = self.interface.oneshot(request).await;
        let status = response.status();
        let refused = status.is_client_error() || status.is_server_error();
        if !refused || is_json(&response) {
            response.extensions_mut().insert(OwnBody);
            return response;
        }
        refusal(response).await
    }
}

fn is_json(response: &Response) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
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
        // Whoever goes away in the middle of a request is no fault of ours.
        (Code::Internal, Ok(text)) if text.contains(BODY_BROKE_OFF) => {
            Problem::new(Code::InvalidRequest, "the body broke off")
        }
        (Code::Internal, text) => {
            tracing::error!(?text, "an interface failed");
            Problem::new(code, "something went wrong; the log has more under the request's id")
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
