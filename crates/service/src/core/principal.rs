//! The caller. These types are witnesses: each value was created by the check that it stands for, and a use case that takes
//! one cannot be called without that check.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use tracewarden_appdb::{ADMIN_ROLE, ApiKey, Preview, Session, User};
use utoipa::ToSchema;

use crate::core::access_token::TokenCredential;
use crate::core::error::{Result, ServiceError};
use crate::core::tool_call::RecordedCall;
use crate::core::tools::Tool;
use crate::core::wire::Attributes;
use crate::{Secret, ToolCall};

/// Credential of a request.
#[derive(Debug, Clone)]
pub enum Credential {
    /// Token of the session cookie.
    Session(Secret),
    /// API key of an `Authorization: Bearer` header.
    ApiKey(Secret),
    /// Access token of an identity provider, of the same header.
    AccessToken(Secret),
}

/// Interface that received a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The REST API.
    Rest,
    /// The MCP interface.
    Mcp,
}

/// Data about a request for the audit log.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// Opaque id, which the client gets too.
    pub request_id: String,
    /// Address of the client, as far as it can be trusted.
    pub client_ip: Option<IpAddr>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// Interface that received the request.
    pub via: Transport,
    /// Tool call in the request, if any; every record of the request contains it.
    pub tool_call: Option<Arc<RecordedCall>>,
}

/// How a caller authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[schema(as = Auth)]
pub enum AuthKind {
    /// With a session cookie.
    Session,
    /// With an API key.
    ApiKey,
    /// With an access token of an identity provider.
    AccessToken,
}

#[derive(Debug, Clone)]
pub(crate) enum VerifiedCredential {
    Session(Session),
    ApiKey(ApiKey),
    AccessToken(Arc<TokenCredential>),
}

/// Known, enabled user, who may still have to change the password.
#[derive(Debug, Clone)]
pub struct Identity {
    pub(crate) user: User,
    pub(crate) verified_credential: VerifiedCredential,
    pub(crate) info: RequestInfo,
}

/// Known, enabled user who may use the service.
#[derive(Debug, Clone)]
pub struct Principal(pub(crate) Identity);

/// Principal with the role `admin`.
#[derive(Debug, Clone, Copy)]
pub struct Administrator<'a>(&'a Principal);

/// The caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Me {
    /// Opaque id.
    pub id: String,
    /// User name.
    pub username: String,
    /// Roles of the caller.
    pub roles: BTreeSet<String>,
    /// Attributes that policies may read.
    pub attributes: Attributes,
    /// Whether the caller is an administrator.
    pub is_admin: bool,
    /// While this is set, only `/me`, `/me/password` and `/logout` are available.
    pub must_change_password: bool,
    /// The roles and attributes with which the caller currently reads traces; null when these are the caller's own.
    #[schema(required = true)]
    pub preview: Option<PreviewInfo>,
    /// Name of the identity provider that the user signs in with; absent for a user who signs in with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub provider: Option<String>,
    /// How the caller authenticated.
    pub auth: AuthKind,
}

/// Roles and attributes with which an administrator temporarily reads traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Preview)]
pub struct PreviewInfo {
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: Attributes,
    /// The user whose access is previewed, when the preview is of a user. Roles and attributes are the user's current ones, and
    /// empty when the user is disabled or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub username: Option<String>,
}

impl From<Preview> for PreviewInfo {
    fn from(Preview { roles, attributes, username, .. }: Preview) -> Self {
        Self { roles, attributes: Attributes(attributes), username }
    }
}

impl Identity {
    /// Id of the user.
    pub fn user_id(&self) -> &str {
        &self.user.id
    }

    /// Name of the user.
    pub fn username(&self) -> &str {
        &self.user.username
    }

    /// Whether the caller is an administrator: the user has the role `admin`, and does not use a limited credential.
    pub fn is_admin(&self) -> bool {
        self.has_admin_role() && !self.is_limited()
    }

    /// Whether the user has the role `admin`, with any credential.
    pub(crate) fn has_admin_role(&self) -> bool {
        self.user.roles.contains(ADMIN_ROLE)
    }

    /// Whether the caller's credential grants less than the user's roles: a scoped API key, or an access token, which never
    /// administers.
    pub(crate) fn is_limited(&self) -> bool {
        match &self.verified_credential {
            VerifiedCredential::Session(_) => false,
            VerifiedCredential::ApiKey(key) => key.policy.is_some() || key.tools.is_some(),
            VerifiedCredential::AccessToken(_) => true,
        }
    }

    /// Policy of the caller's API key, which a trace must satisfy in addition to those of the roles.
    pub(crate) fn key_policy(&self) -> Option<&str> {
        self.api_key().and_then(|key| key.policy.as_deref())
    }

    /// Names of the tools to which the caller's credential is limited.
    pub(crate) fn credential_tools(&self) -> Option<Vec<String>> {
        match &self.verified_credential {
            VerifiedCredential::Session(_) => None,
            VerifiedCredential::ApiKey(key) => key.tools.clone(),
            VerifiedCredential::AccessToken(token) => Some(token.tools()),
        }
    }

    fn api_key(&self) -> Option<&ApiKey> {
        match &self.verified_credential {
            VerifiedCredential::ApiKey(key) => Some(key),
            VerifiedCredential::Session(_) | VerifiedCredential::AccessToken(_) => None,
        }
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.verified_credential {
            VerifiedCredential::Session(session) => Some(session),
            VerifiedCredential::ApiKey(_) | VerifiedCredential::AccessToken(_) => None,
        }
    }

    /// Id of the OAuth client that calls with an access token.
    pub(crate) fn oauth_client(&self) -> Option<&str> {
        match &self.verified_credential {
            VerifiedCredential::AccessToken(token) => token.token.client.as_deref(),
            VerifiedCredential::Session(_) | VerifiedCredential::ApiKey(_) => None,
        }
    }

    /// Checks that the caller's credential permits this tool. `None` stands for a call outside the tools, which no limited
    /// credential permits: its holder must not get access to the owner's sessions and other keys.
    ///
    /// # Errors
    /// [`ServiceError::ToolNotPermitted`], [`ServiceError::InsufficientScope`].
    pub fn require_tool(&self, tool: Option<Tool>) -> Result<()> {
        if !self.is_limited() {
            return Ok(());
        }
        let names = self.credential_tools();
        let allows =
            |tool: &Tool| names.as_ref().is_none_or(|names| names.iter().any(|name| name == tool.name()));
        match (tool, self.auth()) {
            (Some(tool), _) if allows(&tool) => Ok(()),
            (Some(tool), AuthKind::AccessToken) => Err(ServiceError::InsufficientScope {
                needed: Tool::ALL.into_iter().filter(|other| *other == tool || allows(other)).collect(),
            }),
            _ => Err(ServiceError::ToolNotPermitted),
        }
    }

    /// Checks that the caller's credential permits a tool at all.
    ///
    /// # Errors
    /// [`ServiceError::InsufficientScope`].
    pub fn require_any_tool(&self) -> Result<()> {
        let has_none = self.auth() == AuthKind::AccessToken
            && self.credential_tools().is_none_or(|names| names.is_empty());
        if has_none { Err(ServiceError::InsufficientScope { needed: Tool::ALL.to_vec() }) } else { Ok(()) }
    }

    /// Data about the request.
    pub fn request_info(&self) -> &RequestInfo {
        &self.info
    }

    /// Kind of the caller's credential.
    pub fn auth(&self) -> AuthKind {
        match self.verified_credential {
            VerifiedCredential::Session(_) => AuthKind::Session,
            VerifiedCredential::ApiKey(_) => AuthKind::ApiKey,
            VerifiedCredential::AccessToken(_) => AuthKind::AccessToken,
        }
    }

    /// Id of the session, API key or access token.
    pub fn credential_id(&self) -> &str {
        match &self.verified_credential {
            VerifiedCredential::Session(session) => &session.id,
            VerifiedCredential::ApiKey(key) => &key.id,
            VerifiedCredential::AccessToken(token) => &token.id,
        }
    }

    /// Active preview. Only an administrator has one: the loss of the role ends it within the same request, whatever the
    /// session's row contains.
    pub fn preview(&self) -> Option<&Preview> {
        self.session().filter(|_| self.is_admin())?.preview.as_ref()
    }

    /// Whether the session's row previews a user, whose roles and attributes must be read separately.
    pub(crate) fn previews_user(&self) -> bool {
        let preview = self.session().and_then(|session| session.preview.as_ref());
        preview.is_some_and(|preview| preview.user_id.is_some())
    }

    /// Checks that no password change is pending.
    ///
    /// # Errors
    /// [`ServiceError::PasswordChangeRequired`].
    pub fn require_no_pending_password_change(&self) -> Result<()> {
        if self.user.must_change_password { Err(ServiceError::PasswordChangeRequired) } else { Ok(()) }
    }

    /// Checks that the caller is an administrator; [`Principal::require_admin`] returns the permission as a value.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`] without the role `admin`, [`ServiceError::ScopedKey`] with it.
    pub fn require_admin_role(&self) -> Result<()> {
        if self.is_admin() {
            Ok(())
        } else if self.has_admin_role() {
            Err(ServiceError::ScopedKey)
        } else {
            Err(ServiceError::Forbidden)
        }
    }

    /// Converts the caller into one who may use the service.
    ///
    /// # Errors
    /// [`ServiceError::PasswordChangeRequired`].
    pub fn into_principal(self) -> Result<Principal> {
        self.require_no_pending_password_change()?;
        Ok(Principal(self))
    }

    /// Returns the session, which actions require that a stolen API key must not be able to do.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] if the caller uses an API key.
    pub fn require_session(&self) -> Result<&Session> {
        self.session().ok_or(ServiceError::SessionRequired)
    }

    pub(crate) fn me(&self) -> Me {
        Me {
            id: self.user.id.clone(),
            username: self.user.username.clone(),
            roles: self.user.roles.clone(),
            attributes: Attributes(self.user.attributes.clone()),
            is_admin: self.is_admin(),
            must_change_password: self.user.must_change_password,
            preview: self.preview().cloned().map(PreviewInfo::from),
            provider: self.user.identity.as_ref().map(|identity| identity.provider.clone()),
            auth: self.auth(),
        }
    }
}

impl Principal {
    /// Returns the same caller with this tool call.
    #[must_use]
    pub fn with_tool_call(&self, call: ToolCall) -> Self {
        let mut identity = self.0.clone();
        identity.info.tool_call = Some(Arc::new(RecordedCall::new(&call)));
        Self(identity)
    }

    /// Returns the permission to administer; fails as [`Identity::require_admin_role`] does.
    pub fn require_admin(&self) -> Result<Administrator<'_>> {
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
