//! Records as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use tracewarden_model::{AttributeKind, AttributeValue, Timestamp};
use utoipa::ToSchema;

/// The built-in role that grants administration. It always exists.
pub const ADMIN_ROLE: &str = "admin";

/// Returns the form under which a user name is unique.
pub fn fold_username(username: &str) -> String {
    username.to_lowercase()
}

/// A password's PHC string; not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

/// SHA-256 of a session's or API key's token. Tokens are random, so an unsalted digest reveals nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest(pub [u8; 32]);

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}

/// A user with roles and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Opaque id.
    pub id: String,
    /// The name as written at creation; unique regardless of case.
    pub username: String,
    /// The password's PHC string.
    pub password_hash: PasswordHash,
    /// Whether the user must change the password before any other request.
    pub must_change_password: bool,
    /// Whether the user is barred from signing in and from using API keys.
    pub disabled: bool,
    /// When the user was created.
    pub created_at: Timestamp,
    /// When the user last signed in.
    pub last_login_at: Option<Timestamp>,
    /// Attributes that policies read: the mapped ones, and those that administrators assigned under other names.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Names of the roles, mapped and assigned.
    pub roles: BTreeSet<String>,
    /// The person authenticated by an identity provider; `None` for a user who signs in with a password.
    pub identity: Option<Box<UserIdentity>>,
    /// What makes the user a service account; `None` for a person.
    pub service: Option<Box<ServiceAccount>>,
}

/// A user who is a program, and has no password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Id of the user who answers for it; `None` after that user was deleted.
    pub owner_id: Option<String>,
    /// Name of that user.
    pub owner: Option<String>,
    /// The role that the owner must have for the account to have access; `None` for none.
    pub owner_role: Option<String>,
    /// Whether the owner, not disabled, has this role by assignment.
    pub owner_is_assigned: bool,
    /// When the identity provider last confirmed the claims by which the owner, not disabled, has this role.
    pub owner_confirmed_at: Option<Timestamp>,
}

/// Attributes that a mapping sets, by name; `None` for those without a value.
pub type MappedAttributes = BTreeMap<String, Option<AttributeValue>>;

/// What the service knows of a user from an identity provider, and apart from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// Name of the provider.
    pub provider: String,
    /// Issuer identifier of the provider.
    pub issuer: String,
    /// Immutable identifier of the person at the issuer.
    pub subject: String,
    /// When the provider last confirmed the claims.
    pub confirmed_at: Timestamp,
    /// Names of all attributes that the mapping sets, with or without a value.
    pub mapped_attributes: BTreeSet<String>,
    /// Names of the roles that administrators assigned.
    pub assigned_roles: BTreeSet<String>,
    /// Attributes that administrators assigned.
    pub assigned_attributes: BTreeMap<String, AttributeValue>,
}

impl User {
    /// Whether the user is one who can have a password: neither signs in with an identity provider nor is a program.
    pub fn has_password(&self) -> bool {
        self.identity.is_none() && self.service.is_none()
    }

    /// Names of the roles that administrators assigned.
    pub fn assigned_roles(&self) -> &BTreeSet<String> {
        self.identity.as_ref().map_or(&self.roles, |identity| &identity.assigned_roles)
    }

    /// Attributes that administrators assigned.
    pub fn assigned_attributes(&self) -> &BTreeMap<String, AttributeValue> {
        self.identity.as_ref().map_or(&self.attributes, |identity| &identity.assigned_attributes)
    }
}

/// The attributes that users have, without their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownAttributes {
    /// Kinds of each attribute, by the attribute's name.
    pub kinds: BTreeMap<String, AttributeKinds>,
    /// Number of users who hold the given role.
    pub holders: u64,
}

/// The kinds of values of an attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeKinds {
    /// Kinds among all users.
    pub all: BTreeSet<AttributeKind>,
    /// Kinds among the users who hold the given role.
    pub with_role: BTreeSet<AttributeKind>,
}

/// A policy: a CEL expression over the fields of a span and the attributes of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Policy {
    /// Title.
    #[schema(examples("Own team"))]
    pub title: String,
    /// The CEL expression; a trace is readable when the expression is true for any of its spans.
    #[schema(examples("SpanAttributes[\"team\"] == user.attributes.team"))]
    pub expression: String,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Role {
    /// Name.
    pub name: String,
    // In the administrator's order.
    /// Policies of the role. Each grants access independently of the others.
    pub policies: Vec<Policy>,
    /// Increases with each change and is never reused; the `ETag` of the role.
    pub revision: u64,
    /// Time of creation.
    #[serde(skip)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(read_only)]
    pub updated_at: Timestamp,
}

/// Roles and attributes with which an administrator temporarily reads traces ("view as").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preview {
    /// Roles. Stored as empty for a preview of a user, whose current roles apply at each request.
    pub roles: BTreeSet<String>,
    /// Attributes; stored as empty like the roles.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Name of the previewed user, if the preview is of a user.
    pub username: Option<String>,
    /// Id of that user: another user may have the name later.
    pub user_id: Option<String>,
}

/// A browser session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Opaque id, not the token.
    pub id: String,
    /// The user.
    pub user_id: String,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Time of the last request, accurate to about a minute.
    pub last_seen_at: Timestamp,
    /// Client address at sign-in.
    pub client_ip: Option<String>,
    /// User agent at sign-in.
    pub user_agent: Option<String>,
    /// Current preview.
    pub preview: Option<Preview>,
    /// Name of the identity provider that the user signed in with; `None` after a sign-in with a password.
    pub provider: Option<String>,
    /// Id of the session at the provider, if the provider has told it.
    pub provider_session: Option<String>,
}

/// A personal API key, without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiKey {
    /// Opaque id.
    #[schema(read_only)]
    pub id: String,
    /// Purpose of the key.
    pub name: String,
    /// First characters of the token, to recognise the key.
    #[serde(rename = "token_hint")]
    #[schema(examples("twk_4fG8"), read_only)]
    pub hint: String,
    /// The owner.
    #[serde(skip)]
    pub user_id: String,
    /// When the key was created.
    #[schema(read_only)]
    pub created_at: Timestamp,
    /// Time from which the key is invalid; null if it does not expire.
    #[schema(required = true)]
    pub expires_at: Option<Timestamp>,
    /// When the key was last used, accurate to about a minute.
    #[schema(required = true, read_only)]
    pub last_used_at: Option<Timestamp>,
    /// Address of the client that used it then.
    #[schema(required = true, read_only, examples("192.0.2.7"))]
    pub last_client_ip: Option<String>,
    /// `User-Agent` of that client.
    #[schema(required = true, read_only, examples("curl/8.10.1"))]
    pub last_user_agent: Option<String>,
    /// The policy that the key is limited to; null if there is none.
    #[schema(required = true)]
    pub policy: Option<String>,
    /// The tools that the key is limited to; null if it is not limited to tools.
    #[schema(required = true)]
    pub tools: Option<Vec<String>>,
}

/// Counter of failed sign-ins for one bucket (an address, or an account at an address).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Attempts within the window.
    pub failures: u32,
    /// Start of the window.
    pub window_start: Timestamp,
    /// Time until which attempts are rejected.
    pub blocked_until: Timestamp,
}
