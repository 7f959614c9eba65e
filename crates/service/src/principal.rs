//! Who asks. These types are witnesses: whoever holds one has gone through the check that makes it, and a use case
//! that takes one cannot be called without it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use tracewarden_appdb::{ADMIN_ROLE, ApiKey, Preview, Session, User};
use tracewarden_model::AttributeValue;

use crate::Secret;
use crate::audit::RecordedCall;
use crate::error::ServiceError;
use crate::tools::Tool;

/// What a request presents.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The token of the session cookie.
    Session(Secret),
    /// The token of an `Authorization: Bearer` header.
    ApiKey(Secret),
}

/// The way by which a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The REST API.
    Rest,
    /// The MCP interface.
    Mcp,
}

/// What the audit log says about a request.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// Opaque id, also told to the client.
    pub request_id: String,
    /// Address of the client, as far as it can be trusted.
    pub client_ip: Option<IpAddr>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// The way in.
    pub via: Transport,
    /// The call of a tool that it holds, if any; every record of the request says it.
    pub tool_call: Option<Arc<RecordedCall>>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool's name as it was called, which may be of none that there is.
    pub tool: String,
    /// Arguments as they were sent.
    pub arguments: serde_json::Value,
    /// What the client calls itself, name and version; anybody can say anything.
    pub client: Option<String>,
}

/// How the caller proved who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthKind {
    /// By a browser session.
    Session,
    /// By an API key.
    ApiKey,
}

impl AuthKind {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::ApiKey => "api_key",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Proof {
    Session(Session),
    ApiKey(ApiKey),
}

/// A known, enabled user, whose password may still have to be changed.
#[derive(Debug, Clone)]
pub struct Identity {
    pub(crate) user: User,
    pub(crate) proof: Proof,
    pub(crate) info: RequestInfo,
}

/// A known, enabled user who may use the service.
#[derive(Debug, Clone)]
pub struct Principal(pub(crate) Identity);

/// A principal who holds the role `admin`.
#[derive(Debug, Clone, Copy)]
pub struct Administrator<'a>(&'a Principal);

/// The caller as they see themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// Opaque id.
    pub id: String,
    /// Name.
    pub username: String,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Whether the roles include `admin`, and the credential lets the caller use it.
    pub is_admin: bool,
    /// Whether the password must be changed before anything else.
    pub must_change_password: bool,
    /// The preview that is on, if any.
    pub preview: Option<Preview>,
    /// How the caller proved who they are.
    pub auth: AuthKind,
}

impl Identity {
    /// The user's id.
    pub fn user_id(&self) -> &str {
        &self.user.id
    }

    /// The user's name.
    pub fn username(&self) -> &str {
        &self.user.username
    }

    /// Whether the caller administers: the user holds the role `admin`, and did not come with a narrowed key.
    pub fn is_admin(&self) -> bool {
        self.holds_admin_role() && !self.is_narrowed()
    }

    /// Whether the user holds the role `admin`, whatever they came with.
    pub(crate) fn holds_admin_role(&self) -> bool {
        self.user.roles.contains(ADMIN_ROLE)
    }

    /// Whether the caller came with a key that opens less than its owner's roles.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.api_key().is_some_and(|key| key.policy.is_some() || key.tools.is_some())
    }

    /// The policy that a trace must satisfy besides those of the roles, when the caller came with such a key.
    pub(crate) fn key_policy(&self) -> Option<&str> {
        self.api_key().and_then(|key| key.policy.as_deref())
    }

    /// The tools that the caller's key is limited to, by name.
    pub(crate) fn key_tools(&self) -> Option<Vec<String>> {
        self.api_key().and_then(|key| key.tools.clone())
    }

    fn api_key(&self) -> Option<&ApiKey> {
        match &self.proof {
            Proof::Session(_) => None,
            Proof::ApiKey(key) => Some(key),
        }
    }

    /// That the caller's credential is good for this tool; `None` for what belongs to no tool, which no narrowed key is
    /// good for: whoever it was handed to must not get at its owner's sessions and other keys.
    ///
    /// # Errors
    /// [`ServiceError::OutsideTools`].
    pub fn require_tool(&self, tool: Option<Tool>) -> Result<(), ServiceError> {
        let Some(key) = self.api_key().filter(|_| self.is_narrowed()) else { return Ok(()) };
        let allows = |tool: Tool| match &key.tools {
            None => true,
            Some(names) => names.iter().any(|name| name == tool.name()),
        };
        if tool.is_some_and(allows) { Ok(()) } else { Err(ServiceError::OutsideTools) }
    }

    /// The request.
    pub fn request_info(&self) -> &RequestInfo {
        &self.info
    }

    /// How the caller proved who they are.
    pub fn auth(&self) -> AuthKind {
        match self.proof {
            Proof::Session(_) => AuthKind::Session,
            Proof::ApiKey(_) => AuthKind::ApiKey,
        }
    }

    /// Id of the session or key.
    pub fn credential_id(&self) -> &str {
        match &self.proof {
            Proof::Session(session) => &session.id,
            Proof::ApiKey(key) => &key.id,
        }
    }

    /// The preview that is on. Only an administrator has one: losing the role ends it at the same request, whatever
    /// the session's row still says.
    pub fn preview(&self) -> Option<&Preview> {
        match &self.proof {
            Proof::Session(session) if self.is_admin() => session.preview.as_ref(),
            _ => None,
        }
    }

    /// Whether the session's row says that it previews a user, whose roles and attributes stand elsewhere.
    pub(crate) fn follows_user(&self) -> bool {
        match &self.proof {
            Proof::Session(session) => {
                session.preview.as_ref().is_some_and(|preview| preview.user_id.is_some())
            }
            Proof::ApiKey(_) => false,
        }
    }

    /// That the password need not be changed first.
    ///
    /// # Errors
    /// [`ServiceError::PasswordChangeRequired`].
    pub fn require_settled_password(&self) -> Result<(), ServiceError> {
        if self.user.must_change_password { Err(ServiceError::PasswordChangeRequired) } else { Ok(()) }
    }

    /// That this caller administers; [`Principal::require_admin`] gives the right itself.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`] without the role `admin`, [`ServiceError::NarrowedKey`] with it.
    pub fn require_admin_role(&self) -> Result<(), ServiceError> {
        if self.is_admin() {
            Ok(())
        } else if self.holds_admin_role() {
            Err(ServiceError::NarrowedKey)
        } else {
            Err(ServiceError::Forbidden)
        }
    }

    /// The caller as one who may use the service.
    ///
    /// # Errors
    /// [`ServiceError::PasswordChangeRequired`].
    pub fn into_principal(self) -> Result<Principal, ServiceError> {
        self.require_settled_password()?;
        Ok(Principal(self))
    }

    /// That the caller is here by a session.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] for a key.
    pub fn require_own_session(&self) -> Result<(), ServiceError> {
        self.require_session().map(drop)
    }

    /// What a stolen key must not be able to do asks for a session.
    pub(crate) fn require_session(&self) -> Result<&Session, ServiceError> {
        match &self.proof {
            Proof::Session(session) => Ok(session),
            Proof::ApiKey(_) => Err(ServiceError::SessionRequired),
        }
    }

    pub(crate) fn me(&self) -> Me {
        Me {
            id: self.user.id.clone(),
            username: self.user.username.clone(),
            roles: self.user.roles.clone(),
            attributes: self.user.attributes.clone(),
            is_admin: self.is_admin(),
            must_change_password: self.user.must_change_password,
            preview: self.preview().cloned(),
            auth: self.auth(),
        }
    }
}

impl Principal {
    /// The same caller, calling a tool.
    #[must_use]
    pub fn calling(&self, call: ToolCall) -> Self {
        let mut identity = self.0.clone();
        identity.info.tool_call = Some(Arc::new(RecordedCall::of(&call)));
        Self(identity)
    }

    /// The right to administer.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`] without the role `admin`, [`ServiceError::NarrowedKey`] with it.
    pub fn require_admin(&self) -> Result<Administrator<'_>, ServiceError> {
        self.require_admin_role()?;
        Ok(Administrator(self))
    }
}

impl Deref for Principal {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.0
    }
}

impl Deref for Administrator<'_> {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        self.0
    }
}
