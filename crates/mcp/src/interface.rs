//! The interface over HTTP: stateless, and protected against requests from pages of other sites.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tracewarden_service::Service;

use crate::client_name::carry_client_name;
use crate::digits::quote_inexact_numbers;
use crate::request_id;
use crate::server::Server;

/// Maximum size of a request body, as in the REST API.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Loopback names of this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Configuration of the interface.
#[derive(Debug, Clone)]
pub struct InterfaceConfig {
    /// Scheme, host and port under which users reach the service, without a trailing slash.
    pub public_origin: String,
    /// Additional host names under which agents reach it, with or without a port.
    pub hosts: Vec<String>,
}

/// Returns the router of the interface. The middleware in front must authenticate the caller, add the `Arc<Principal>`
/// to the request's extensions, and check that the client accepts JSON, which is the type of every response.
///
/// DNS rebinding: a page of another site could resolve its own host name to this service's address. So only requests
/// for the host names in `interface` are answered, and only from pages of the service's own origin.
pub fn interface(service: Service, interface: InterfaceConfig) -> Router {
    let origin: Arc<str> = interface.public_origin.as_str().into();
    let host = interface.public_origin.split_once("://").map_or("", |(_, host)| host);
    let hosts = LOOPBACK.into_iter().map(str::to_owned).chain([host.to_owned()]).chain(interface.hosts);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_retry(None)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_allowed_hosts(hosts)
        .with_allowed_origins([with_port(&interface.public_origin)]);
    let server = Server { service, origin };
    let mcp_service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .fallback_service(mcp_service)
        .layer(middleware::from_fn(carry_client_name))
        .layer(middleware::from_fn(explain_rejections))
}

/// Prepares a request for the library, and explains its rejections.
async fn explain_rejections(request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    // The library rejects clients that do not accept event streams, although it sends none here.
    head.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let json = head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 1 MiB").into_response();
    };
    if json && body.trim_ascii_start().starts_with(b"[") {
        return (StatusCode::BAD_REQUEST, BATCHES_UNSUPPORTED).into_response();
    }
    if json && let Some(refusal) = request_id::refusal(&body) {
        return refusal;
    }
    let body = match std::str::from_utf8(&body).map(quote_inexact_numbers) {
        Ok(Cow::Owned(quoted)) => {
            head.headers.remove(header::CONTENT_LENGTH);
            Body::from(quoted)
        }
        _ => Body::from(body),
    };
    let response = next.run(Request::from_parts(head, body)).await;
    match response.status() {
        StatusCode::FORBIDDEN => (StatusCode::FORBIDDEN, WRONG_HOST_OR_ORIGIN).into_response(),
        // The library reports every body that it cannot parse as a wrong media type.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if json => {
            (StatusCode::BAD_REQUEST, NOT_A_MESSAGE).into_response()
        }
        _ => response,
    }
}

const WRONG_HOST_OR_ORIGIN: &str = "`Host` or `Origin` does not belong to this service: agents must use the \
                                   name and port of `public_url`, a loopback name or a name in the setting \
                                   `mcp_hosts`, and pages must use `public_url`; a proxy must forward `Host` \
                                   unchanged, with its port";
const NOT_A_MESSAGE: &str =
    "the body is not a JSON-RPC 2.0 message: one object with `jsonrpc`, `id`, `method` and `params`";
const BATCHES_UNSUPPORTED: &str = "the body is a list of messages: batches exist only in revision 2025-03-26, which is \
                        not supported; send each message in a request of its own";

/// Adds the default port of the scheme to an origin without a port.
fn with_port(origin: &str) -> String {
    let (scheme, host) = origin.split_once("://").unwrap_or(("", origin));
    let has_port =
        host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    match (has_port, scheme) {
        (false, "https") => format!("{origin}:443"),
        (false, "http") => format!("{origin}:80"),
        _ => origin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_its_port() {
        let check = |origin: &str, full: &str| assert_eq!(with_port(origin), full);
        check("https://traces.example.com", "https://traces.example.com:443");
        check("http://[::1]", "http://[::1]:80");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080");
    }
}
