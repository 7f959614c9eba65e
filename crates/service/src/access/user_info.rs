//! What administrators see of a user.

use std::collections::BTreeSet;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tracewarden_appdb::User;
use tracewarden_model::Timestamp;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::access::read_only_list::read_only_texts;
use crate::access::service_accounts::ServiceInfo;
use crate::core::{Attributes, Core, NEVER_CONFIRMED};

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = User)]
pub struct UserInfo {
    /// Opaque id.
    pub id: String,
    /// User name.
    pub username: String,
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes that policies may read.
    pub attributes: Attributes,
    /// Whether the user is disabled and can neither sign in nor use API keys.
    pub disabled: bool,
    /// Whether access is suspended: the identity provider has not confirmed the user for `identity_max_age`, or the owner of the
    /// service account does not have the role that the account requires.
    #[schema(read_only)]
    pub suspended: bool,
    /// Whether the password must be changed before anything else.
    #[schema(read_only)]
    pub must_change_password: bool,
    /// When the user was created.
    #[schema(read_only)]
    pub created_at: Timestamp,
    /// When the user last signed in.
    #[schema(required = true, read_only)]
    pub last_login_at: Option<Timestamp>,
    /// The identity provider that the user signs in with; null for a user who signs in with a password.
    #[schema(required = true, read_only)]
    pub provider: Option<UserProvider>,
    /// What makes the user a service account, which has no password and calls with API keys; null for a person.
    #[schema(required = true)]
    pub service: Option<ServiceInfo>,
    /// What administrators assigned. A change of `roles` and `attributes` changes these, and neither the roles nor the attributes
    /// that the mapping of the provider gives.
    #[schema(read_only)]
    pub assigned: AssignedAccess,
    /// Digest of name, roles, attributes and `disabled`, and of what is mapped, which a change leaves out: equal if and only if
    /// these are equal. For [`IfMatch::Versions`].
    #[serde(skip)]
    pub tag: u64,
}

/// Roles and attributes that administrators assigned to a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AssignedAccess {
    /// Roles.
    pub roles: BTreeSet<String>,
    /// Attributes. One that the mapping of the provider sets too has no effect.
    pub attributes: Attributes,
}

/// The identity provider of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UserProvider {
    /// Name of the provider.
    #[schema(examples("company"))]
    pub name: String,
    /// What identifies the person at the provider.
    pub subject: String,
    /// When the provider last confirmed the claims that roles and attributes are mapped from; null if only the next sign-in can do
    /// so.
    #[schema(required = true, read_only)]
    pub confirmed_at: Option<Timestamp>,
    /// Names of the attributes that the mapping sets, with or without a value.
    #[schema(schema_with = mapped_attributes_schema)]
    pub mapped_attributes: BTreeSet<String>,
}

fn mapped_attributes_schema() -> RefOr<Schema> {
    read_only_texts("Names of the attributes that the mapping sets, with or without a value.")
}

impl UserInfo {
    /// Returns what administrators see of a user now.
    pub(crate) fn new(core: &Core, user: User) -> Self {
        let (assigned_roles, assigned_attributes) =
            (user.assigned_roles().clone(), user.assigned_attributes().clone());
        let provider = user.identity.as_ref().map(|identity| UserProvider {
            name: identity.provider.clone(),
            subject: identity.subject.clone(),
            confirmed_at: Some(identity.confirmed_at).filter(|at| *at > NEVER_CONFIRMED),
            mapped_attributes: identity.mapped_attributes.clone(),
        });
        Self {
            tag: tag(&user),
            suspended: core.settings.is_unconfirmed(&user, core.now()),
            provider,
            service: user.service.clone().map(|account| ServiceInfo::from(*account)),
            assigned: AssignedAccess { roles: assigned_roles, attributes: Attributes(assigned_attributes) },
            id: user.id,
            username: user.username,
            roles: user.roles,
            attributes: Attributes(user.attributes),
            disabled: user.disabled,
            must_change_password: user.must_change_password,
            created_at: user.created_at,
            last_login_at: user.last_login_at,
        }
    }
}

/// Computed from the content, so that no counter needs to be stored: if two administrators collide, one of them has read
/// other content than is stored. `Debug` of these types quotes strings, so that different contents have different texts.
pub(crate) fn tag(user: &User) -> u64 {
    let mapped =
        user.identity.as_ref().map(|identity| (&user.roles, &user.attributes, &identity.mapped_attributes));
    let assigned = (user.assigned_roles(), user.assigned_attributes());
    let service = user.service.as_ref().map(|account| (&account.owner_id, &account.owner_role));
    let content = format!("{:?}", (&user.id, assigned, user.disabled, mapped, service));
    let digest = Sha256::digest(content.as_bytes());
    digest.iter().take(8).fold(0, |tag, byte| (tag << 8) | u64::from(*byte))
}
