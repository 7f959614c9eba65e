//! The interfaces of this service that accept access tokens.

/// A protected resource of this service. A token for one is refused at the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The interface for agents.
    Mcp,
    /// The API.
    Rest,
}

impl Resource {
    /// Returns the identifier of the resource, its URL (RFC 8707), for the origin under which users reach the service.
    pub(crate) fn url(self, origin: &str) -> String {
        match self {
            Self::Mcp => format!("{origin}/mcp"),
            Self::Rest => format!("{origin}/"),
        }
    }
}
