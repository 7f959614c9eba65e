//! Requests whose head the HTTP library cannot parse. The library answers them with a bare status before they reach any route.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use tracewarden_model::Entropy;

use crate::code::Code;
use crate::headers;
use crate::middleware::{Middleware, X_REQUEST_ID};
use crate::problem::Problem;

/// Builds responses to such requests in the same format as other errors.
#[derive(Clone)]
pub struct UnreadableHeads {
    entropy: Arc<dyn Entropy>,
    over_https: bool,
}

impl UnreadableHeads {
    /// Creates the builder for this installation.
    pub fn new(middleware: &Middleware) -> Self {
        Self { entropy: Arc::clone(&middleware.entropy), over_https: middleware.over_https() }
    }

    /// Returns headers and body of the response with this status; `None` for a status that is not about the head of a request.
    pub fn answer(&self, status: StatusCode) -> Option<(HeaderMap, Vec<u8>)> {
        let (code, detail) = match status {
            StatusCode::URI_TOO_LONG => (
                Code::UriTooLong,
                "a path with its query parameters has fewer than 64 KiB; send a long filter in the body",
            ),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                (Code::HeadersTooLarge, "a request has at most 100 headers, and a head of at most 64 KiB")
            }
            StatusCode::BAD_REQUEST => {
                (Code::InvalidRequest, "the head of the request is not valid HTTP/1.1")
            }
            _ => return None,
        };
        let mut id = [0_u8; 16];
        self.entropy.fill(&mut id).ok()?;
        let id = hex::encode(id);
        tracing::info!(request_id = id, status = status.as_u16(), "refused the head of a request");
        let problem = Problem::new(code, detail);
        let body = serde_json::to_vec(&problem.clone().details(&id)).ok()?;
        let mut response = problem.render(&id);
        headers::add_security_headers(&mut response, self.over_https);
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(X_REQUEST_ID, value);
        }
        Some((response.into_parts().0.headers, body))
    }
}
