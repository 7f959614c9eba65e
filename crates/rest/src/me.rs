//! `/me`, `/me/password`, `/me/sessions`.

use std::collections::BTreeSet;

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracewarden_service::{AuthKind, Preview, Secret, SessionInfo};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::{Account, Caller};
use crate::problem::Problem;
use crate::query::Path;
use crate::wire::{Attributes, Time, to_wire};

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// Opaque id.
    id: String,
    /// User name.
    username: String,
    /// Roles of the caller.
    roles: BTreeSet<String>,
    /// Attributes that policies may read.
    attributes: Attributes,
    /// Whether the caller is an administrator.
    is_admin: bool,
    /// While this is set, only `/me`, `/me/password` and `/logout` are available.
    must_change_password: bool,
    /// The roles and attributes with which the caller currently reads traces; null when these are the caller's own.
    #[schema(required = true)]
    preview: Option<WirePreview>,
    /// How the caller authenticated.
    auth: Auth,
}

/// Roles and attributes with which an administrator temporarily reads traces.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Preview)]
pub(crate) struct WirePreview {
    /// Roles.
    roles: BTreeSet<String>,
    /// Attributes.
    attributes: Attributes,
    /// The user whose access is previewed, when the preview is of a user. Roles and attributes are the user's current ones, and
    /// empty when the user is disabled or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    username: Option<String>,
}

/// How a caller authenticated.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Auth {
    /// With a session cookie.
    Session,
    /// With an API key.
    ApiKey,
}

impl From<tracewarden_service::Me> for Me {
    fn from(me: tracewarden_service::Me) -> Self {
        Self {
            id: me.id,
            username: me.username,
            roles: me.roles,
            attributes: to_wire(me.attributes),
            is_admin: me.is_admin,
            must_change_password: me.must_change_password,
            preview: me.preview.map(|Preview { roles, attributes, username, .. }| WirePreview {
                roles,
                attributes: to_wire(attributes),
                username,
            }),
            auth: match me.auth {
                AuthKind::Session => Auth::Session,
                AuthKind::ApiKey => Auth::ApiKey,
            },
        }
    }
}

/// Returns the caller's identity, roles, preview and account flags.
#[utoipa::path(get, path = "/me", tag = "self", responses((status = 200, description = "The caller", body = Me)))]
pub(crate) async fn get(State(app): State<App>, account: Account) -> JsonResponse<Me> {
    JsonResponse(app.service.account().me(&account).into())
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

/// A session, without its token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct WireSession {
    /// Opaque id.
    id: String,
    /// When the user signed in.
    created_at: Time,
    /// When the session was last used, accurate to about a minute.
    last_used_at: Time,
    /// Address of the client at sign-in.
    #[schema(required = true)]
    client_ip: Option<String>,
    /// `User-Agent` at sign-in.
    #[schema(required = true)]
    user_agent: Option<String>,
    /// Whether this request used the session.
    current: bool,
}

impl From<SessionInfo> for WireSession {
    fn from(session: SessionInfo) -> Self {
        Self {
            id: session.id,
            created_at: session.created_at.into(),
            last_used_at: session.last_seen_at.into(),
            client_ip: session.client_ip,
            user_agent: session.user_agent,
            current: session.current,
        }
    }
}

/// Sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// The newest session first.
    sessions: Vec<WireSession>,
}

impl From<Vec<SessionInfo>> for SessionList {
    fn from(sessions: Vec<SessionInfo>) -> Self {
        Self { sessions: sessions.into_iter().map(WireSession::from).collect() }
    }
}

/// Lists the caller's sessions.
#[utoipa::path(get, path = "/me/sessions", tag = "self", responses((status = 200, description = "Sessions", body = SessionList)))]
pub(crate) async fn sessions(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<SessionList>, Problem> {
    Ok(JsonResponse(app.service.account().my_sessions(&caller).await?.into()))
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
