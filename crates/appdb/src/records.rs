//! The records as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tracewarden_model::{AttributeKind, AttributeValue, Timestamp};

/// The built-in role that gives administration; it exists always.
pub const ADMIN_ROLE: &str = "admin";

/// The form under which a user name is unique.
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

/// SHA-256 of a session's or key's token. Tokens are random, so that an unsalted digest gives nothing away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest(pub [u8; 32]);

impl TokenDigest {
    pub(crate) fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}

/// A user with the roles that are assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Opaque id.
    pub id: String,
    /// The name as it was written at creation; unique without regard to case.
    pub username: String,
    /// The password's PHC string.
    pub password_hash: PasswordHash,
    /// Whether the password must be changed before anything else.
    pub must_change_password: bool,
    /// Whether the user may not log in nor use keys.
    pub disabled: bool,
    /// When the user was created.
    pub created_at: Timestamp,
    /// When the user last logged in with the password.
    pub last_login_at: Option<Timestamp>,
    /// Attributes that policies read.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Names of the assigned roles.
    pub roles: BTreeSet<String>,
}

/// The attributes that users have, without their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownAttributes {
    /// By the attribute's name.
    pub kinds: BTreeMap<String, AttributeKinds>,
    /// Users who hold the role that was asked about.
    pub holders: u64,
}

/// The kinds of value that an attribute has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeKinds {
    /// Of any user.
    pub all: BTreeSet<AttributeKind>,
    /// Of the users who hold the role that was asked about.
    pub of_holders: BTreeSet<AttributeKind>,
}

/// What a new user needs.
#[derive(Debug, Clone)]
pub struct NewUser<'a> {
    /// Opaque id.
    pub id: &'a str,
    /// Name.
    pub username: &'a str,
    /// The password's PHC string.
    pub password_hash: &'a PasswordHash,
    /// Whether the password must be changed first.
    pub must_change_password: bool,
    /// Now.
    pub created_at: Timestamp,
    /// Attributes.
    pub attributes: &'a BTreeMap<String, AttributeValue>,
    /// Existing roles.
    pub roles: &'a BTreeSet<String>,
}

/// One policy of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Title.
    pub title: String,
    /// CEL expression.
    pub expression: String,
    /// Description.
    pub description: Option<String>,
}

/// A role with its policies in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Name.
    pub name: String,
    /// Policies, in the administrator's order.
    pub policies: Vec<Policy>,
    /// Increases with each change.
    pub revision: u64,
    /// Creation.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Roles and attributes under which an administrator reads traces for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    /// Roles. Stored as empty when a user is previewed, whose roles they are at each request.
    pub roles: BTreeSet<String>,
    /// Attributes, as the roles.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Name of the user whose access is previewed, when it is one user's.
    pub username: Option<String>,
    /// That user's id: somebody else may get the name later.
    pub user_id: Option<String>,
}

/// A browser session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Opaque id, not the token.
    pub id: String,
    /// The user.
    pub user_id: String,
    /// Log-in.
    pub created_at: Timestamp,
    /// Last request, to about a minute.
    pub last_seen_at: Timestamp,
    /// Address at log-in.
    pub client_ip: Option<String>,
    /// User agent at log-in.
    pub user_agent: Option<String>,
    /// Preview, if one is set.
    pub preview: Option<Preview>,
}

/// What a new session needs.
#[derive(Debug, Clone)]
pub struct NewSession<'a> {
    /// Opaque id.
    pub id: &'a str,
    /// Digest of the token.
    pub token: TokenDigest,
    /// The user.
    pub user_id: &'a str,
    /// Now.
    pub created_at: Timestamp,
    /// Address.
    pub client_ip: Option<&'a str>,
    /// User agent.
    pub user_agent: Option<&'a str>,
}

/// A personal API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Opaque id.
    pub id: String,
    /// First characters of the token, for recognition.
    pub hint: String,
    /// Name that the owner chose.
    pub name: String,
    /// The owner.
    pub user_id: String,
    /// Creation.
    pub created_at: Timestamp,
    /// From when the key is dead, if ever.
    pub expires_at: Option<Timestamp>,
    /// Last use, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// CEL expression that a trace must satisfy besides the owner's policies, if the key is narrowed.
    pub policy: Option<String>,
    /// Names of the only tools that the key may use, if it is narrowed.
    pub tools: Option<Vec<String>>,
}

/// What a new key needs.
#[derive(Debug, Clone)]
pub struct NewApiKey<'a> {
    /// Opaque id.
    pub id: &'a str,
    /// Digest of the token.
    pub token: TokenDigest,
    /// First characters of the token.
    pub hint: &'a str,
    /// Name.
    pub name: &'a str,
    /// Owner.
    pub user_id: &'a str,
    /// Now.
    pub created_at: Timestamp,
    /// Expiry.
    pub expires_at: Option<Timestamp>,
    /// CEL expression that a trace must satisfy besides the owner's policies.
    pub policy: Option<&'a str>,
    /// Names of the only tools that the key may use.
    pub tools: Option<&'a [String]>,
}

/// Failed log-ins counted for one bucket (an address, or an account at an address).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Attempts counted within the window.
    pub failures: u32,
    /// When the window began.
    pub window_start: Timestamp,
    /// Until when attempts are refused.
    pub blocked_until: Timestamp,
}
