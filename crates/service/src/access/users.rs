//! Management of users by administrators.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::json;
use tracewarden_appdb::{ADMIN_ROLE, DbError, Logout, Policy, ServiceAccount, User, WriteTx, fold_username};
use tracewarden_identity::CLOCK_LEEWAY_SECONDS;
use tracewarden_model::{AttributeValue, Timestamp};
use utoipa::ToSchema;

use crate::Secret;
use crate::access::service_accounts::{ServiceOwner, owner_detail, resolve_owner};
use crate::access::user_change::UserChange;
use crate::access::user_info::{UserInfo, tag};
use crate::core::{
    Administrator, Core, CursorFault, FieldError, IfMatch, LogoutOf, Result, ServiceError, audit_detail,
    find_user, query_input, tokens, validate, with_members,
};
use crate::policies::{Block, PolicyInputs, UserPolicies, access_summary, policy_requirement};

/// A user to create.
#[derive(Debug, Clone, Default)]
pub struct NewUser {
    /// Name, unique without regard to case.
    pub username: String,
    /// Roles that exist.
    pub roles: BTreeSet<String>,
    /// Attributes.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Whether the user is disabled from the beginning.
    pub disabled: bool,
    /// Who answers for a service account; `None` for a person.
    pub service: Option<ServiceOwner>,
}

/// New user with the generated password, which is never shown again.
#[derive(Debug, Clone)]
pub struct CreatedUser {
    /// The user.
    pub user: UserInfo,
    /// Generated password; `None` for a service account.
    pub initial_password: Option<Secret>,
}

/// A page of users.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = UserList)]
pub struct UserPage {
    /// By name.
    pub users: Vec<UserInfo>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// A policy as it applies to one user.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AccessPolicy {
    /// Title, as in the role.
    pub title: String,
    /// CEL expression, as in the role.
    pub expression: String,
    /// Description, as in the role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// The condition that a span must satisfy, with the user's attributes filled in; absent when the policy can no longer be
    /// applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("SpanAttributes[\"team\"] is \"payments\""))]
    pub requirement: Option<String>,
}

/// A role as it applies to one user.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AccessRole {
    /// Name.
    pub name: String,
    /// Policies of the role. Each grants access independently of the others.
    pub policies: Vec<AccessPolicy>,
    /// Increases with each change and is never reused; the `ETag` of the role.
    pub revision: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A user's current access.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct UserAccess {
    /// The user, with attributes.
    pub user: UserInfo,
    /// The access in one sentence.
    #[schema(examples(
        "`ada` can read a trace when one of its spans matches: SpanAttributes[\"team\"] is \"payments\""
    ))]
    pub summary: String,
    /// The user's roles with their policies.
    pub roles: Vec<AccessRole>,
}

const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 500;

/// Checks that an administrator remains who does not depend on an identity provider; called after the change and before the
/// commit. There is one writer at a time, so two administrators cannot remove each other at the same moment.
pub(super) async fn require_remaining_administrator(tx: &mut WriteTx) -> Result<()> {
    if tx.password_administrators().await? == 0 { Err(ServiceError::LastAdmin) } else { Ok(()) }
}

/// Users and their credentials, for administrators.
#[derive(Clone)]
pub struct Users {
    pub(crate) core: Arc<Core>,
}

impl Users {
    /// Creates a person with a generated password that must be changed at the first sign-in, or a service account without one.
    ///
    /// # Errors
    /// [`ServiceError::Conflict`] when the name is taken, [`ServiceError::Refused`] for invalid members, `unknown_role`,
    /// [`ServiceError::SessionRequired`] when a caller with an API key grants `admin`.
    pub async fn create_user(&self, admin: &Administrator<'_>, mut new: NewUser) -> Result<CreatedUser> {
        let username = new.username.clone();
        let result = async {
            let mut errors = Vec::new();
            validate::username(&new.username, &mut errors);
            validate::attributes(&new.attributes, &mut errors);
            validate::no_errors(errors)?;
            if validate::includes_admin(&new.roles) {
                // A leaked key must not create administrators who remain after its revocation.
                admin.require_session()?;
            }
            let initial_password = tokens::password(self.core.entropy.as_ref())?;
            let hash = self.core.passwords.hash(initial_password.clone()).await?;

            let mut tx = self.core.begin_change(admin).await?;
            let mut errors = Vec::new();
            new.roles = validate::roles(&mut tx, new.roles, &mut errors).await?;
            let service = match &new.service {
                Some(owner) => resolve_owner(&mut tx, owner, &mut errors).await?,
                None => None,
            };
            validate::no_errors(errors)?;
            let taken = || ServiceError::Conflict {
                detail: "the user name is taken".to_owned(),
                errors: vec![FieldError::new("/username", "conflict", "the user name is taken")],
            };
            if tx.user_by_name(&new.username).await?.is_some() {
                return Err(taken());
            }
            let user = User {
                id: tokens::id("usr", self.core.entropy.as_ref())?,
                username: new.username,
                password_hash: hash,
                // The hash of a service account's is of a password that no one knows, so that sign-ins take the same time for every name.
                must_change_password: service.is_none(),
                disabled: new.disabled,
                created_at: self.core.now(),
                last_login_at: None,
                attributes: new.attributes,
                roles: new.roles,
                identity: None,
                service: service.map(Box::new),
            };
            tx.insert_user(&user).await.map_err(|error| match error {
                DbError::Conflict(_) => taken(),
                other => other.into(),
            })?;
            let attributes = audit_detail::attributes(&user.attributes);
            let detail = json!({ "id": user.id, "roles": user.roles, "attributes": attributes });
            let service = user.service.as_ref().map(|account| owner_detail(account));
            let initial_password = service.is_none().then_some(initial_password);
            let detail = with_members(
                detail,
                [("disabled", user.disabled.then(|| json!(true))), ("service", service)],
            );
            let user = find_user(&mut tx, &user.username).await?;
            self.core.commit_change(tx, admin, "user.create", Some(&user.username), detail).await?;
            Ok(CreatedUser { user: UserInfo::new(&self.core, user), initial_password })
        };
        self.core.audit_denial(admin, "user.create", Some(&username), result.await).await
    }

    /// Returns a page of users by name: of all, only of service accounts, or only of people.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCursor`], [`ServiceError::InvalidRequest`], or a failure of the application database.
    pub async fn list(
        &self,
        _admin: &Administrator<'_>,
        are_services: Option<bool>,
        cursor: Option<&str>,
        limit: Option<i64>,
    ) -> Result<UserPage> {
        let name = |cursor| String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok();
        let after = match cursor {
            None => String::new(),
            Some(cursor) => name(cursor)
                .filter(|after| validate::is_storable(after))
                .ok_or(CursorFault::OtherList("users"))?,
        };
        let limit = query_input::limit(limit, PAGE_DEFAULT, PAGE_MAX)?;
        let mut users =
            self.core.db.begin_read().await?.users(are_services, &after, limit.saturating_add(1)).await?;
        let more = users.len() > limit as usize;
        users.truncate(limit as usize);
        let last = users.last().filter(|_| more).map(|user| fold_username(&user.username));
        Ok(UserPage {
            users: users.into_iter().map(|user| UserInfo::new(&self.core, user)).collect(),
            next_cursor: last.map(|name| URL_SAFE_NO_PAD.encode(name)),
        })
    }

    /// Returns one user.
    pub async fn user(&self, _admin: &Administrator<'_>, username: &str) -> Result<UserInfo> {
        let user = find_user(&mut self.core.db.begin_read().await?, username).await?;
        Ok(UserInfo::new(&self.core, user))
    }

    /// Changes a user's roles or attributes, or disables or enables the user; a user who is disabled loses their sessions.
    /// Two changes of different members both take effect; `if_match` with [`UserInfo::tag`] prevents that two changes of the
    /// same member overwrite each other.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::LastAdmin`], [`ServiceError::Refused`],
    /// [`ServiceError::PreconditionFailed`] when `if_match` does not hold, and [`ServiceError::SessionRequired`] when a
    /// caller with an API key grants `admin` or enables an administrator.
    pub async fn update_user(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        mut change: UserChange,
        if_match: Option<IfMatch>,
    ) -> Result<UserInfo> {
        let result = async {
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            IfMatch::check_any(if_match, Some(tag(&user)))?;
            let mut errors = Vec::new();
            change.require_same_user(&user, &mut errors);
            if let Some(roles) = change.roles.take() {
                change.roles = Some(validate::roles(&mut tx, roles, &mut errors).await?);
            }
            if let Some(attributes) = &mut change.attributes {
                validate::attributes(attributes, &mut errors);
            }
            change.leave_mapped(&user, &mut errors);
            if let (Some(sent), Some(stored)) = (&change.service, &user.service)
                && sent.is_stored(stored)
            {
                change.service = None;
            }
            if change.service.is_some() {
                // A program could remove the condition of its own access.
                admin.require_session()?;
            }
            let service = match &change.service {
                Some(_) if user.service.is_none() => {
                    let detail = "this user is a person, and cannot become a service account";
                    errors.push(FieldError::invalid("/service", detail));
                    None
                }
                Some(owner) => resolve_owner(&mut tx, owner, &mut errors).await?,
                None => None,
            };
            validate::no_errors(errors)?;

            let has_password = user.has_password();
            let administers = |roles: &BTreeSet<String>, disabled: bool| {
                has_password && !disabled && roles.contains(ADMIN_ROLE)
            };
            let (assigned_roles, assigned_attributes) = (user.assigned_roles(), user.assigned_attributes());
            let before = administers(assigned_roles, user.disabled);
            let after = administers(
                change.roles.as_ref().unwrap_or(assigned_roles),
                change.disabled.unwrap_or(user.disabled),
            );
            let grants = change.roles.as_ref().is_some_and(|roles| roles.contains(ADMIN_ROLE))
                && !assigned_roles.contains(ADMIN_ROLE);
            let enables = change.disabled == Some(false) && user.disabled && user.roles.contains(ADMIN_ROLE);
            if grants || enables || (after && !before) {
                admin.require_session()?;
            }

            let mut changed = Vec::new();
            if let Some(roles) = &change.roles {
                tx.set_user_roles(&user.id, roles).await?;
                if !roles.contains(ADMIN_ROLE) {
                    // If the role is granted again later, an old preview must not return.
                    tx.clear_previews_of_user(&user.id).await?;
                }
                changed.push(("roles", json!({ "before": assigned_roles, "after": roles })));
            }
            if let Some(attributes) = &change.attributes {
                tx.set_user_attributes(&user.id, attributes).await?;
                let (before, after) =
                    (audit_detail::attributes(assigned_attributes), audit_detail::attributes(attributes));
                changed.push(("attributes", audit_detail::difference(&before, &after)));
            }
            if let Some(disabled) = change.disabled {
                tx.set_user_disabled(&user.id, disabled).await?;
                changed.push(("disabled", json!({ "before": user.disabled, "after": disabled })));
                if disabled {
                    let ended = tx.delete_sessions_of_user(&user.id, None).await?;
                    changed.push(("sessions_ended", json!(ended)));
                }
            }
            if let Some(ServiceAccount { owner_id: Some(owner_id), owner_role, .. }) = &service {
                tx.set_service_owner(&user.id, owner_id, owner_role.as_deref()).await?;
                let (before, after) =
                    (user.service.as_deref().map(owner_detail), service.as_ref().map(owner_detail));
                changed.push(("service", json!({ "before": before, "after": after })));
            }
            if before && !after {
                require_remaining_administrator(&mut tx).await?;
            }
            let detail = with_members(json!({}), changed);
            let updated = find_user(&mut tx, username).await?;
            self.core.commit_change(tx, admin, "user.update", Some(&user.username), detail).await?;
            Ok(UserInfo::new(&self.core, updated))
        };
        self.core.audit_denial(admin, "user.update", Some(username), result.await).await
    }

    /// Gives a user a new generated password that must be changed at the next sign-in, and ends all their sessions.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`]; [`ServiceError::SessionRequired`] when a caller with an API key does it to an
    /// administrator.
    pub async fn rotate_password(&self, admin: &Administrator<'_>, username: &str) -> Result<Secret> {
        let result = async {
            let password = tokens::password(self.core.entropy.as_ref())?;
            let hash = self.core.passwords.hash(password.clone()).await?;
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            if user.roles.contains(ADMIN_ROLE) {
                admin.require_session()?;
            }
            refuse_without_password(&user)?;
            tx.set_user_password(&user.id, &hash, true).await?;
            let ended = tx.delete_sessions_of_user(&user.id, None).await?;
            let detail = json!({ "sessions_ended": ended });
            self.core.commit_change(tx, admin, "user.rotate_password", Some(&user.username), detail).await?;
            Ok(password)
        };
        self.core.audit_denial(admin, "user.rotate_password", Some(username), result.await).await
    }

    /// Deletes a user with their sessions and keys.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::LastAdmin`], [`ServiceError::PreconditionFailed`] when `if_match`
    /// does not hold.
    pub async fn delete_user(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        if_match: Option<IfMatch>,
    ) -> Result<()> {
        let result = async {
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            IfMatch::check_any(if_match, Some(tag(&user)))?;
            // Their next sign-in would create them again, enabled.
            if user.disabled && user.identity.is_some() && user.roles.contains(ADMIN_ROLE) {
                admin.require_session()?;
            }
            if let Some(identity) = &user.identity {
                // The next call with an access token would create them again, too. Only a later sign-in may.
                let Self { core } = self;
                let now = core.now();
                let oldest = now.saturating_sub(core.settings.identity_max_age_nanos);
                // A provider whose clock is ahead dates tokens later than it issues them.
                let logout = Logout {
                    ended_at: now,
                    tokens_until: now.saturating_add(CLOCK_LEEWAY_SECONDS * 1_000_000_000),
                };
                let of = LogoutOf::Person(&identity.subject).digest(&identity.issuer);
                tx.identities_mut().put_logout(of, logout, oldest).await?;
            }
            tx.delete_user(&user.id).await?;
            if !user.disabled && user.has_password() && user.roles.contains(ADMIN_ROLE) {
                require_remaining_administrator(&mut tx).await?;
            }
            let attributes = audit_detail::attributes(&user.attributes);
            let detail = json!({ "id": user.id, "roles": user.roles, "attributes": attributes });
            self.core.commit_change(tx, admin, "user.delete", Some(&user.username), detail).await
        };
        self.core.audit_denial(admin, "user.delete", Some(username), result.await).await
    }

    /// Returns a user's access, as it applies now.
    pub async fn user_access(&self, _admin: &Administrator<'_>, username: &str) -> Result<UserAccess> {
        let mut tx = self.core.db.begin_read().await?;
        let user = find_user(&mut tx, username).await?;
        let roles = tx.roles_named(&user.roles).await?;
        let model = tx.access_model().await?;
        drop(tx);
        let inputs = PolicyInputs::user(&user, Block::of(&user, &self.core), roles, model);
        let applied = self.core.compile_user_policies(inputs, None).await?;
        let summary = access_summary(&applied);
        let UserPolicies { inputs, policies } = applied;
        let mut requirements =
            policies.policies.iter().map(|policy| policy_requirement(policy.as_ref().ok(), true));
        let mut access_policy = |Policy { title, expression, description }| AccessPolicy {
            title,
            expression,
            description,
            requirement: requirements.next().flatten(),
        };
        let roles = inputs.roles.into_iter().map(|role| AccessRole {
            name: role.name,
            policies: role.policies.into_iter().map(&mut access_policy).collect(),
            revision: role.revision,
            updated_at: role.updated_at,
        });
        Ok(UserAccess { user: UserInfo::new(&self.core, user), summary, roles: roles.collect() })
    }
}

/// Refuses to give a password to a service account, and to a user who signs in with an identity provider: the provider could not take
/// it away again.
pub(crate) fn refuse_without_password(user: &User) -> Result<()> {
    match &user.identity {
        None if user.service.is_some() => {
            Err(ServiceError::conflict("a service account has no password: make an API key for it"))
        }
        None => Ok(()),
        Some(identity) => {
            let detail = format!(
                "this user signs in with the identity provider `{}`, and has no password",
                identity.provider
            );
            Err(ServiceError::conflict(detail))
        }
    }
}
