//! `/me`, `/me/password`, `/me/sessions`.

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracewarden_service::{Me, Secret, SessionInfo};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::{Account, Caller};
use crate::problem::Problem;
use crate::query::Path;

/// Returns the caller's identity, roles, preview and account flags.
#[utoipa::path(get, path = "/me", tag = "self", responses((status = 200, description = "The caller", body = Me)))]
pub(crate) async fn get(State(app): State<App>, account: Account) -> JsonResponse<Me> {
    JsonResponse(app.service.account().me(&account))
}

/// A change of the caller's password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordChange {
    /// The current password.
    #[schema(value_type = String, format = Password)]
    current_password: Secret,
    /// The new password: 12 to 256 characters, not a common one, not containing the user name.
    #[schema(value_type = String, format = Password)]
    new_password: Secret,
}

/// Changes the caller's password. All other sessions of the caller end; API keys stay valid.
#[utoipa::path(post, path = "/me/password", tag = "self", request_body = PasswordChange, responses(
    (status = 204, description = "Changed; `must_change_password` is cleared"),
    (status = 401, description = "`invalid_credentials`: the current password is wrong"),
    (status = 409, description = "`conflict`: the user signs in with an identity provider"),
    (status = 422, description = "`password_rejected`: the new password is not good enough"),
    (status = 429, description = "`too_many_attempts`"),
    (status = 503, description = "`overloaded`: too many sign-ins are in progress"),
))]
pub(crate) async fn change_password(
    State(app): State<App>,
    account: Account,
    Json(change): Json<PasswordChange>,
) -> Result<StatusCode, Problem> {
    app.service.account().change_password(&account, change.current_password, change.new_password).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The newest session first.
    pub(crate) sessions: Vec<SessionInfo>,
}

/// Lists the caller's sessions.
#[utoipa::path(get, path = "/me/sessions", tag = "self", responses((status = 200, description = "Sessions", body = SessionList)))]
pub(crate) async fn sessions(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<SessionList>, Problem> {
    Ok(JsonResponse(SessionList { sessions: app.service.account().my_sessions(&caller).await? }))
}

/// Ends one of the caller's sessions.
#[utoipa::path(delete, path = "/me/sessions/{id}", tag = "self", params(("id" = String, Path, description = "The session's id")),
    responses((status = 204, description = "Ended"), (status = 404, description = "`not_found`: the caller has no such session")))]
pub(crate) async fn end_session(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    app.service.account().end_my_session(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
