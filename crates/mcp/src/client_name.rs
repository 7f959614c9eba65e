//! What the client calls itself, for the audit log.
//!
//! The newest revision of the protocol says it in every request. Before, a client said it once, at `initialize`; nothing is
//! kept between requests here, so the name goes back to the client as its session id, and comes again with each request.
//! It is what anybody may say of themselves, before and after, and nothing rests on it.

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue};
use rmcp::model::Implementation;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// What such an id begins with.
const PREFIX: &str = "client.";
/// More of a name is not kept.
const MAX_CHARACTERS: usize = 100;

/// The name that came with a request as its session id.
#[derive(Debug, Clone)]
pub(crate) struct ClientName(pub(crate) String);

/// Where `initialize` leaves the name that goes back as a session id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Introduced(Arc<OnceLock<String>>);

impl Introduced {
    /// A client that said who it is.
    pub(crate) fn say(&self, client: &Implementation) {
        // Said once a request.
        let _ = self.0.set(full_name(client));
    }
}

/// Name and version.
pub(crate) fn full_name(client: &Implementation) -> String {
    let name = format!("{} {}", client.name, client.version);
    name.trim().chars().take(MAX_CHARACTERS).collect()
}

/// Takes the name out of the session id, and gives a session id for a name that was said.
pub(crate) async fn carry(mut request: Request, next: Next) -> Response {
    if let Some(id) = request.headers_mut().remove(SESSION_ID)
        && let Some(name) = named(&id)
    {
        request.extensions_mut().insert(ClientName(name));
    }
    let introduced = Introduced::default();
    request.extensions_mut().insert(introduced.clone());
    let mut response = next.run(request).await;
    if let Some(name) = introduced.0.get()
        && let Ok(id) = HeaderValue::from_str(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(name)))
    {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

pub(crate) fn named(id: &HeaderValue) -> Option<String> {
    let name = URL_SAFE_NO_PAD.decode(id.to_str().ok()?.strip_prefix(PREFIX)?).ok()?;
    Some(String::from_utf8(name).ok()?.chars().take(MAX_CHARACTERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_and_anything_else_is_nobodys() {
        let id = |text: &str| HeaderValue::from_str(text).unwrap();
        let client = Implementation::new("Ada's agent ☺", "1.0");
        let name = full_name(&client);
        let sent = id(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(&name)));
        assert_eq!(named(&sent).as_deref(), Some("Ada's agent ☺ 1.0"));
        for other in
            ["", "client.", "client.!", "7f3a", &format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([255, 0]))]
        {
            assert!(named(&id(other)).is_none_or(|name| name.is_empty()), "{other}");
        }
        assert_eq!(full_name(&Implementation::new("x".repeat(5_000), "1")).chars().count(), MAX_CHARACTERS);
    }
}
