//! `/roles`.

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracewarden_service::{Policy, Role, RoleDetail, StoredRole};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, check_matches_path, etag};
use crate::problem::Problem;
use crate::query::Path;
use crate::read_only::ReadOnly;

/// Roles.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoleList {
    /// By name.
    roles: Vec<Role>,
}

/// Lists the roles.
#[utoipa::path(get, path = "/roles", tag = "roles", responses((status = 200, description = "Roles", body = RoleList)))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<JsonResponse<RoleList>, Problem> {
    let roles = app.service.roles().list(&caller.require_admin()?).await?;
    Ok(JsonResponse(RoleList { roles }))
}

/// Returns one role.
#[utoipa::path(get, path = "/roles/{name}", tag = "roles", params(("name" = String, Path, description = "The role's name")), responses(
    (status = 200, description = "The role", body = RoleDetail, headers(("ETag" = String, description = "The revision"))),
    (status = 404, description = "`not_found`: no such role"),
))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let detail = app.service.roles().role(&caller.require_admin()?, &name).await?;
    Ok((etag(detail.role.revision), JsonResponse(detail)))
}

/// A role to store: as in a response, or its policies only.
#[serde_with::apply(ReadOnly => #[serde(default)] #[schema(inline, required = false)] #[expect(dead_code, reason = "ignored")])]
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutRequest {
    /// At least one policy; only `admin` may have none.
    policies: Vec<Policy>,
    /// The name in the path.
    name: Option<String>,
    /// The revision to replace; acts as `If-Match` does.
    revision: Option<u64>,
    updated_at: ReadOnly,
    members: ReadOnly,
}

/// Creates or replaces a role. The change takes effect on the next request of each user with the role.
#[utoipa::path(put, path = "/roles/{name}", tag = "roles", request_body = PutRequest, params(
    ("name" = String, Path, description = "1 to 64 of `A-Z a-z 0-9 . _ -`, starting with a letter or digit; names of two roles do not differ only by case"),
    ("If-Match" = Option<String>, Header, description = "The `ETag` of the role that is to be replaced", example = "*")), responses(
    (status = 201, description = "Made", body = StoredRole, headers(("ETag" = String, description = "The revision"))),
    (status = 200, description = "Replaced", body = StoredRole, headers(("ETag" = String, description = "The revision"))),
    (status = 409, description = "`conflict`: the name of another role differs from this one only by case"),
    (status = 412, description = "`precondition_failed`: the role was changed since"),
    (status = 422, description = "`policy_invalid`, or `invalid_value`: a name or text that is not allowed"),
))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    if_match: IfMatch,
    Json(request): Json<PutRequest>,
) -> Result<impl IntoResponse, Problem> {
    check_matches_path("name", request.name.as_deref(), &name)?;
    let if_match = if_match.and(request.revision);
    let admin = caller.require_admin()?;
    let stored = app.service.roles().put_role(&admin, &name, request.policies, if_match).await?;
    let status = if stored.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, etag(stored.revision), JsonResponse(stored)))
}

/// Deletes a role and removes it from all its users.
#[utoipa::path(delete, path = "/roles/{name}", tag = "roles", params(
    ("name" = String, Path, description = "The role's name"),
    ("If-Match" = Option<String>, Header, description = "The `ETag` of the role that is to be deleted", example = "*")), responses(
    (status = 204, description = "Deleted"),
    (status = 409, description = "`conflict`: the role `admin` is built in"),
    (status = 412, description = "`precondition_failed`: the role was changed since"),
    (status = 404, description = "`not_found`: no such role"),
))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    IfMatch(if_match): IfMatch,
) -> Result<StatusCode, Problem> {
    app.service.roles().delete_role(&caller.require_admin()?, &name, if_match).await?;
    Ok(StatusCode::NO_CONTENT)
}
