//! The name that the client gives itself, for the audit log.
//!
//! In the newest revision of the protocol every request contains it. In earlier revisions a client sends it once, in
//! `initialize`. This server keeps no state between requests, so it returns the name to the client as session id, and
//! the client sends it with each request. Clients can claim any name, in all revisions, so no decision depends on it.

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue};
use rmcp::model::Implementation;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Prefix of these session ids.
const PREFIX: &str = "client.";
/// Maximum length of the name.
const MAX_CHARACTERS: usize = 100;

/// The client name from the session id of a request.
#[derive(Debug, Clone)]
pub(crate) struct ClientName(pub(crate) String);

/// Slot in which `initialize` stores the name for the session id.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionIdSlot(pub(crate) Arc<OnceLock<String>>);

/// Returns name and version.
pub(crate) fn full_name(client: &Implementation) -> String {
    let name = format!("{} {}", client.name, client.version);
    name.trim().chars().take(MAX_CHARACTERS).collect()
}

/// Reads the name from the session id, and adds a session id to the response if `initialize` stored a name.
pub(crate) async fn carry_client_name(mut request: Request, next: Next) -> Response {
    if let Some(id) = request.headers_mut().remove(SESSION_ID)
        && let Some(name) = client_name_from_id(&id)
    {
        request.extensions_mut().insert(ClientName(name));
    }
    let slot = SessionIdSlot::default();
    request.extensions_mut().insert(slot.clone());
    let mut response = next.run(request).await;
    if let Some(name) = slot.0.get()
        && let Ok(id) = HeaderValue::from_str(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(name)))
    {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

pub(crate) fn client_name_from_id(id: &HeaderValue) -> Option<String> {
    let name = URL_SAFE_NO_PAD.decode(id.to_str().ok()?.strip_prefix(PREFIX)?).ok()?;
    Some(String::from_utf8(name).ok()?.chars().take(MAX_CHARACTERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_client_names_are_read() {
        let id = |text: &str| HeaderValue::from_str(text).unwrap();
        let client = Implementation::new("Ada's agent ☺", "1.0");
        let name = full_name(&client);
        let sent = id(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&name)));
        assert_eq!(client_name_from_id(&sent).as_deref(), Some("Ada's agent ☺ 1.0"));
        for other in
            ["", "client.", "client.!", "7f3a", &format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([255, 0]))]
        {
            assert!(client_name_from_id(&id(other)).is_none_or(|name| name.is_empty()), "{other}");
        }
        assert_eq!(full_name(&Implementation::new("x".repeat(5_000), "1")).chars().count(), MAX_CHARACTERS);
    }
}
