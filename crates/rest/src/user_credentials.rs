//! `/users/{username}/sessions` and `/users/{username}/api-keys`.

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;

use crate::api_keys::ApiKeyList;
use crate::app::App;
use crate::extractors::Caller;
use crate::me::SessionList;
use crate::problem::Problem;
use crate::query::Path;

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
