//! The service as protected resource of OAuth 2.0: what programs read to find the identity provider (RFC 9728).

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Serialize;
use tracewarden_service::{Tool, Transport};

use crate::app::App;
use crate::challenge::Challenge;
use crate::code::Code;
use crate::problem::Problem;

/// Path of the metadata of the API, and prefix of the metadata of other resources.
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";

/// Path of the metadata of the interface for agents.
pub(crate) const MCP_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// Metadata of a protected resource.
#[derive(Serialize)]
pub(crate) struct Metadata {
    resource: String,
    resource_name: &'static str,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<&'static str>,
    bearer_methods_supported: [&'static str; 1],
}

pub(crate) async fn metadata(State(app): State<App>) -> Result<JsonResponse<Metadata>, Problem> {
    describe(&app, Transport::Rest)
}

pub(crate) async fn mcp_metadata(State(app): State<App>) -> Result<JsonResponse<Metadata>, Problem> {
    describe(&app, Transport::Mcp)
}

fn describe(app: &App, via: Transport) -> Result<JsonResponse<Metadata>, Problem> {
    let resource = app.service.identities().protected_resource(via).ok_or_else(|| {
        Problem::new(Code::NotFound, "access tokens of identity providers are not accepted here")
    })?;
    Ok(JsonResponse(Metadata {
        resource: resource.url,
        resource_name: "Tracewarden",
        authorization_servers: resource.issuers,
        scopes_supported: Tool::ALL.map(Tool::name).into(),
        bearer_methods_supported: ["header"],
    }))
}

/// Returns the challenge of a request, if access tokens are accepted.
pub(crate) fn challenge(app: &App, via: Transport, has_token: bool) -> Option<Challenge> {
    app.service.identities().protected_resource(via)?;
    let path = match via {
        Transport::Mcp => MCP_METADATA,
        Transport::Rest => METADATA,
    };
    Some(Challenge::new(format!("{}{path}", app.middleware.public_origin), has_token))
}
