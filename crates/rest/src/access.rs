//! The access that a route requires.

use tracewarden_service::{SessionOnly, Tool};

/// The access that a route requires, as far as it does not depend on the content of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All clients, also anonymous ones.
    Public,
    /// Any user, even if the password must be changed first.
    Account(CredentialKind),
    /// Any user.
    Principal(CredentialKind),
    /// An administrator.
    Administrator(CredentialKind),
}

/// The credentials that a route accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// A session or an API key. A scoped API key sees its owner's account and nothing else.
    Any,
    /// A session or an API key. A scoped API key is accepted unless it is limited to other tools: the route is the REST form of
    /// the tool.
    Tool(Tool),
    /// A session only: an operation that must not be possible with a stolen key.
    Session(SessionOnly),
    /// An API key only, scoped or not; each operation with it decides whether the key permits it. A cookie is not accepted,
    /// because browsers send cookies by themselves.
    Key,
}

impl Access {
    /// Returns the value for the OpenAPI document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Account(_) => "account",
            Self::Principal(_) => "user",
            Self::Administrator(_) => "administrator",
        }
    }

    /// Returns the tool that corresponds to this route, if any.
    pub(crate) fn tool(self) -> Option<Tool> {
        match self {
            Self::Account(CredentialKind::Tool(tool)) | Self::Principal(CredentialKind::Tool(tool)) => {
                Some(tool)
            }
            _ => None,
        }
    }

    /// Whether the route returns traces.
    pub(crate) fn reads_traces(self) -> bool {
        self.tool().is_some_and(|tool| tool.action().is_some())
    }

    /// Returns the session-only operation of the route, if it is one.
    pub(crate) fn session_only(self) -> Option<SessionOnly> {
        match self {
            Self::Account(CredentialKind::Session(what))
            | Self::Principal(CredentialKind::Session(what))
            | Self::Administrator(CredentialKind::Session(what)) => Some(what),
            _ => None,
        }
    }
}

/// Marks a response to a request that changes nothing, whatever its method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOnlyRoute;
