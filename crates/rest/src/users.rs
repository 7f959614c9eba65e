//! `/users`.

use std::collections::BTreeSet;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tracewarden_service::{
    Attributes, Limit, NewUser, ServiceOwner, UserAccess, UserChange, UserInfo, UserPage, limit_in_query,
};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, etag};
use crate::problem::Problem;
use crate::query::{Path, Query};
use crate::read_only::ReadOnly;

/// Who answers for a service account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ServiceOwner)]
pub(crate) struct ServiceOwnerWire {
    /// Name of a user who is not a service account. Null only where it is null already.
    #[schema(required = true, examples("ada"))]
    owner: Option<String>,
    /// The role that this user must have for the account to have access; absent or null for none.
    owner_role: Option<String>,
}

impl From<ServiceOwnerWire> for ServiceOwner {
    fn from(wire: ServiceOwnerWire) -> Self {
        Self { owner: wire.owner, owner_role: wire.owner_role }
    }
}

/// A user to create.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewUser)]
pub(crate) struct CreateRequest {
    /// User name, unique regardless of case: at most 128 visible characters in Unicode normalization form C, with spaces between
    /// them; no slashes.
    #[schema(examples("grace"))]
    username: String,
    /// Existing roles.
    #[serde(default)]
    #[schema(required = false)]
    roles: BTreeSet<String>,
    /// Attributes that policies may read.
    #[serde(default)]
    #[schema(required = false)]
    attributes: Attributes,
    /// Whether the user is disabled and can neither sign in nor use API keys.
    #[serde(default)]
    #[schema(required = false)]
    disabled: bool,
    /// Makes the user a service account: a program, without a password.
    service: Option<ServiceOwnerWire>,
    id: ReadOnly,
    must_change_password: ReadOnly,
    suspended: ReadOnly,
    created_at: ReadOnly,
    last_login_at: ReadOnly,
    provider: ReadOnly,
    assigned: ReadOnly,
}

/// Returns a user with the `ETag` of the properties that administrators set.
fn tagged(user: UserInfo) -> impl IntoResponse {
    (etag(user.tag), JsonResponse(user))
}

/// A new user. The password is returned only in this response.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedUser {
    /// The user.
    #[serde(flatten)]
    user: UserInfo,
    /// The generated password, which must be changed at the first sign-in; absent for a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    initial_password: Option<String>,
}

/// Creates a person with a generated password, or a service account.
#[utoipa::path(post, path = "/users", tag = "users", request_body = CreateRequest, responses(
    (status = 201, description = "Made", body = CreatedUser),
    (status = 403, description = "`session_required`: an API key cannot grant `admin`"),
    (status = 409, description = "`conflict`: the name is taken"),
    (status = 422, description = "`unknown_role`, or `invalid_value`: a name or attributes that are not allowed"),
))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<CreateRequest>,
) -> Result<(StatusCode, JsonResponse<CreatedUser>), Problem> {
    let CreateRequest { username, roles, attributes, disabled, service, .. } = new;
    let service = service.map(ServiceOwner::from);
    let new = NewUser { username, roles, attributes: attributes.0, disabled, service };
    let created = app.service.users().create_user(&caller.require_admin()?, new).await?;
    let initial_password = created.initial_password.map(|password| password.expose_secret().to_owned());
    Ok((StatusCode::CREATED, JsonResponse(CreatedUser { user: created.user, initial_password })))
}

/// Kind of a user.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserKind {
    /// A person.
    Person,
    /// A service account.
    Service,
}

/// Selects a page of users.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListRequest {
    /// Only people, or only service accounts.
    #[param(inline)]
    kind: Option<UserKind>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of users in a page: 100 when absent, at most 500.
    #[param(value_type = Option<Limit>, inline)]
    #[serde(default, deserialize_with = "limit_in_query")]
    limit: Option<i64>,
}

/// Lists the users.
#[utoipa::path(get, path = "/users", tag = "users", params(ListRequest), responses(
    (status = 200, description = "Users", body = UserPage),
    (status = 400, description = "`invalid_cursor`: not a cursor of users"),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<ListRequest>,
) -> Result<JsonResponse<UserPage>, Problem> {
    let admin = caller.require_admin()?;
    let ListRequest { kind, cursor, limit } = request;
    let are_services = kind.map(|kind| kind == UserKind::Service);
    Ok(JsonResponse(app.service.users().list(&admin, are_services, cursor.as_deref(), limit).await?))
}

/// Returns one user.
#[utoipa::path(get, path = "/users/{username}", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "The user", body = UserInfo, headers(("ETag" = String, description = "Changes with everything that administrators set"))),
))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    Ok(tagged(app.service.users().user(&caller.require_admin()?, &username).await?))
}

/// Changes to a user; absent members stay unchanged.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserChange)]
pub(crate) struct ChangeRequest {
    /// The complete set of assigned roles. Roles that only the mapping of the identity provider gives stay as they are.
    roles: Option<BTreeSet<String>>,
    /// The complete set of assigned attributes. Those that the mapping of the identity provider sets cannot be changed.
    attributes: Option<Attributes>,
    /// Whether the user is disabled and can neither sign in nor use API keys.
    disabled: Option<bool>,
    /// Who answers for the service account.
    service: Option<ServiceOwnerWire>,
    /// The user's name, unchanged.
    username: Option<String>,
    /// The user's id, unchanged.
    id: Option<String>,
    must_change_password: ReadOnly,
    suspended: ReadOnly,
    created_at: ReadOnly,
    last_login_at: ReadOnly,
    provider: ReadOnly,
    assigned: ReadOnly,
}

/// Changes a user. Roles and attributes take effect on the user's next request.
#[utoipa::path(patch, path = "/users/{username}", tag = "users", params(
    ("username" = String, Path, description = "User name"),
    ("If-Match" = Option<String>, Header, description = "The `ETag` of the user that is to be changed", example = "*")),
    request_body = ChangeRequest, responses(
    (status = 200, description = "The user as changed", body = UserInfo, headers(("ETag" = String, description = "Changes with everything that administrators set"))),
    (status = 403, description = "`session_required`: an API key can neither grant `admin` nor enable an administrator, nor change `service`"),
    (status = 409, description = "`last_admin`: the last enabled administrator must remain one"),
    (status = 412, description = "`precondition_failed`: the user was changed since"),
    (status = 422, description = "`unknown_role`, or `invalid_value`: attributes that are not allowed, or the name or id of another user"),
))]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
    IfMatch(if_match): IfMatch,
    Json(change): Json<ChangeRequest>,
) -> Result<impl IntoResponse, Problem> {
    let ChangeRequest { roles, attributes, disabled, service, username: sent, id, .. } = change;
    let (attributes, service) = (attributes.map(|sent| sent.0), service.map(ServiceOwner::from));
    let change = UserChange { username: sent, id, roles, attributes, disabled, service };
    Ok(tagged(app.service.users().update_user(&caller.require_admin()?, &username, change, if_match).await?))
}

/// Deletes a user with all sessions and API keys.
#[utoipa::path(delete, path = "/users/{username}", tag = "users", params(
    ("username" = String, Path, description = "User name"),
    ("If-Match" = Option<String>, Header, description = "The `ETag` of the user that is to be deleted", example = "*")), responses(
    (status = 204, description = "Deleted"),
    (status = 409, description = "`last_admin`: the last enabled administrator must remain"),
    (status = 412, description = "`precondition_failed`: the user was changed since"),
))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
    IfMatch(if_match): IfMatch,
) -> Result<StatusCode, Problem> {
    app.service.users().delete_user(&caller.require_admin()?, &username, if_match).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A generated password, returned only in this response.
#[derive(Serialize, ToSchema)]
pub(crate) struct GeneratedPassword {
    /// The password, which must be changed at the next sign-in.
    initial_password: String,
}

/// Generates a new password for a user and ends all sessions of the user.
#[utoipa::path(post, path = "/users/{username}/password", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "The new password", body = GeneratedPassword),
    (status = 403, description = "`session_required`: an API key cannot reset the password of an administrator"),
    (status = 409, description = "`conflict`: the user signs in with an identity provider, or is a service account"),
))]
pub(crate) async fn rotate_password(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<JsonResponse<GeneratedPassword>, Problem> {
    let password = app.service.users().rotate_password(&caller.require_admin()?, &username).await?;
    Ok(JsonResponse(GeneratedPassword { initial_password: password.expose_secret().to_owned() }))
}

/// A person at an identity provider.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkRequest {
    /// Name of the provider.
    #[schema(examples("company"))]
    name: String,
    /// What identifies the person there, as the audit record of a refused sign-in shows it: the value of the claim `sub`, or of the
    /// claims that the configuration names, as a JSON array.
    subject: String,
    confirmed_at: ReadOnly,
    mapped_attributes: ReadOnly,
}

/// Makes a user sign in with an identity provider from now on, instead of a password.
#[utoipa::path(put, path = "/users/{username}/provider", tag = "users", params(("username" = String, Path, description = "User name")),
    request_body = LinkRequest, responses(
    (status = 200, description = "The user as changed", body = UserInfo),
    (status = 409, description = "`conflict`: the person has another user, or the user is a service account; `last_admin`: an administrator with a password must remain"),
    (status = 422, description = "`invalid_value`: no such provider, or no subject"),
))]
pub(crate) async fn link(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
    Json(request): Json<LinkRequest>,
) -> Result<JsonResponse<UserInfo>, Problem> {
    let LinkRequest { name, subject, .. } = request;
    let users = app.service.users();
    Ok(JsonResponse(users.link_user(&caller.require_admin()?, &username, &name, &subject).await?))
}

/// Makes a user sign in with a generated password from now on, instead of an identity provider.
#[utoipa::path(delete, path = "/users/{username}/provider", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "The new password", body = GeneratedPassword),
    (status = 409, description = "`conflict`: the user does not sign in with an identity provider"),
))]
pub(crate) async fn unlink(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<JsonResponse<GeneratedPassword>, Problem> {
    let password = app.service.users().unlink_user(&caller.require_admin()?, &username).await?;
    Ok(JsonResponse(GeneratedPassword { initial_password: password.expose_secret().to_owned() }))
}

/// Returns a user's current access: roles, policies and attributes.
#[utoipa::path(get, path = "/users/{username}/access", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "Roles, policies, attributes as they apply now", body = UserAccess),
))]
pub(crate) async fn access(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<JsonResponse<UserAccess>, Problem> {
    Ok(JsonResponse(app.service.users().user_access(&caller.require_admin()?, &username).await?))
}
