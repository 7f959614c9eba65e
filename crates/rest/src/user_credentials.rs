//! `/users/{username}/sessions`, `/users/{username}/api-keys` and `/api-keys`.

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracewarden_service::ApiKeyOfUser;
use utoipa::{IntoParams, ToSchema};

use crate::api_keys::{ApiKeyList, CreateRequest, CreatedApiKey};
use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::me::SessionList;
use crate::problem::Problem;
use crate::query::{Path, Query};

/// Lists a user's sessions.
#[utoipa::path(get, path = "/users/{username}/sessions", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "Sessions", body = SessionList),
))]
pub(crate) async fn sessions(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<JsonResponse<SessionList>, Problem> {
    let sessions = app.service.users().user_sessions(&caller.require_admin()?, &username).await?;
    Ok(JsonResponse(SessionList { sessions }))
}

/// Ends all sessions of a user.
#[utoipa::path(delete, path = "/users/{username}/sessions", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 204, description = "Ended"),
))]
pub(crate) async fn end_sessions(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service.users().end_user_sessions(&caller.require_admin()?, &username, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends one session of a user.
#[utoipa::path(delete, path = "/users/{username}/sessions/{id}", tag = "users", params(
    ("username" = String, Path, description = "User name"), ("id" = String, Path, description = "The session's id")), responses(
    (status = 204, description = "Ended"),
    (status = 404, description = "`not_found`: no such session"),
))]
pub(crate) async fn end_session(
    State(app): State<App>,
    caller: Caller,
    Path((username, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    app.service.users().end_user_sessions(&caller.require_admin()?, &username, Some(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists a user's API keys.
#[utoipa::path(get, path = "/users/{username}/api-keys", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 200, description = "Keys", body = ApiKeyList),
))]
pub(crate) async fn api_keys(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<JsonResponse<ApiKeyList>, Problem> {
    let api_keys = app.service.users().user_api_keys(&caller.require_admin()?, &username).await?;
    Ok(JsonResponse(ApiKeyList { api_keys }))
}

/// Revokes all keys of a user.
#[utoipa::path(delete, path = "/users/{username}/api-keys", tag = "users", params(("username" = String, Path, description = "User name")), responses(
    (status = 204, description = "Revoked"),
))]
pub(crate) async fn revoke_api_keys(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service.users().revoke_user_api_keys(&caller.require_admin()?, &username, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Revokes one key of a user.
#[utoipa::path(delete, path = "/users/{username}/api-keys/{id}", tag = "users", params(
    ("username" = String, Path, description = "User name"), ("id" = String, Path, description = "The key's id")), responses(
    (status = 204, description = "Revoked"),
    (status = 404, description = "`not_found`: no such key"),
))]
pub(crate) async fn revoke_api_key(
    State(app): State<App>,
    caller: Caller,
    Path((username, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    app.service.users().revoke_user_api_keys(&caller.require_admin()?, &username, Some(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Creates a key for a service account, with the access that the account has at the time of each request.
#[utoipa::path(post, path = "/users/{username}/api-keys", tag = "users", params(("username" = String, Path, description = "User name")),
    request_body = CreateRequest, responses(
    (status = 201, description = "Made", body = CreatedApiKey),
    (status = 404, description = "`not_found`: no such user"),
    (status = 409, description = "`conflict`: the user is a person, or has reached the limit of API keys"),
    (status = 422, description = "`invalid_value`: a name, an expiry or a tool that is not allowed, or no expiry; `policy_invalid`: the policy does not compile"),
    (status = 429, description = "`too_many_queries`: with a policy, when the caller has reached the limit of concurrent queries"),
))]
pub(crate) async fn create_api_key(
    State(app): State<App>,
    caller: Caller,
    Path(username): Path<String>,
    Json(new): Json<CreateRequest>,
) -> Result<(StatusCode, JsonResponse<CreatedApiKey>), Problem> {
    let users = app.service.users();
    let created = users.create_service_key(&caller.require_admin()?, &username, new.into()).await?;
    Ok((StatusCode::CREATED, JsonResponse(created.into())))
}

/// Selects API keys.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FindRequest {
    /// The first 8 characters of a key. Never send a whole key: addresses are logged.
    #[param(example = "twk_4fG8", pattern = "^twk_[0-9A-Za-z]{4}$")]
    prefix: String,
}

/// API keys of several users.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApiKeysOfUsers {
    /// By user name.
    api_keys: Vec<ApiKeyOfUser>,
}

/// Finds the keys of all users with these first characters, to revoke one that was found in public.
#[utoipa::path(get, path = "/api-keys", tag = "users", params(FindRequest), responses(
    (status = 200, description = "Keys", body = ApiKeysOfUsers),
    (status = 400, description = "`invalid_request`: not the first characters of a key"),
))]
pub(crate) async fn find_api_keys(
    State(app): State<App>,
    caller: Caller,
    Query(request): Query<FindRequest>,
) -> Result<JsonResponse<ApiKeysOfUsers>, Problem> {
    let api_keys = app.service.users().find_api_keys(&caller.require_admin()?, &request.prefix).await?;
    Ok(JsonResponse(ApiKeysOfUsers { api_keys }))
}
