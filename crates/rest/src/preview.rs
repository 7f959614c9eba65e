//! `/me/preview`.

use std::collections::BTreeSet;

use axum::Json as JsonResponse;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use tracewarden_service::{Administrator, Attributes, Me, PreviewRequest, present};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::problem::Problem;

/// The access to preview: `roles` and `attributes`, or the user `username`.
#[serde_with::apply(Option => #[serde(default, deserialize_with = "present")])]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WirePreviewRequest {
    roles: Option<BTreeSet<String>>,
    attributes: Option<Attributes>,
    username: Option<String>,
}

/// The access to preview. It describes [`WirePreviewRequest`], which is deserialised as one object, so that errors point at
/// members.
#[derive(ToSchema)]
#[schema(as = PreviewRequest)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the accepted format")]
pub(crate) enum PreviewForm {
    /// With roles and attributes.
    As(PreviewAs),
    /// As a user.
    User(PreviewUser),
}

/// Roles and attributes to read traces with.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the accepted format")]
pub(crate) struct PreviewAs {
    /// Existing roles.
    #[schema(value_type = Vec<String>)]
    roles: BTreeSet<String>,
    /// Attributes; none when absent.
    #[schema(nullable = false)]
    attributes: Option<Attributes>,
}

/// A user to read traces as.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the accepted format")]
pub(crate) struct PreviewUser {
    /// Name of a user. During the preview, each request has the user's access at that time; none when the user is disabled or
    /// deleted.
    username: String,
    /// The user's roles, as in `GET /me`.
    #[schema(value_type = Option<Vec<String>>, nullable = false)]
    roles: Option<BTreeSet<String>>,
    /// The user's attributes, as in `GET /me`.
    #[schema(nullable = false)]
    attributes: Option<Attributes>,
}

impl WirePreviewRequest {
    /// Rejects roles and attributes that differ from those of the named user, because the user's own would apply.
    async fn require_matching_user(&self, app: &App, admin: &Administrator<'_>) -> Result<(), Problem> {
        let Some(username) =
            self.username.as_deref().filter(|_| self.roles.is_some() || self.attributes.is_some())
        else {
            return Ok(());
        };
        // A user who does not exist is rejected, and recorded, by `set_preview`.
        let Ok(user) = app.service.users().user(admin, username).await else { return Ok(()) };
        let (roles, attributes) =
            if user.disabled { Default::default() } else { (user.roles, user.attributes) };
        let refuse = |member: &str| {
            let detail = format!("`{username}` has other {member}, which apply; leave `{member}` out");
            Err(Problem::invalid(format!("/{member}"), detail))
        };
        if self.roles.as_ref().is_some_and(|sent| *sent != roles) {
            return refuse("roles");
        }
        if self.attributes.as_ref().is_some_and(|sent| *sent != attributes) {
            return refuse("attributes");
        }
        Ok(())
    }

    fn into_request(self) -> Result<PreviewRequest, Problem> {
        match self {
            Self { roles: Some(roles), attributes, username: None } => {
                Ok(PreviewRequest::RolesAndAttributes { roles, attributes: attributes.map(|sent| sent.0) })
            }
            Self { username: Some(username), .. } => Ok(PreviewRequest::User(username)),
            _ => Err(Problem::invalid("", "expected `roles` or `username`")),
        }
    }
}

/// Begins a preview: until it ends, the caller reads traces with the given roles and attributes instead of their own.
///
/// Only the access to traces changes. The preview belongs to the session, is shown by `GET /me`, and is recorded with each read.
/// It ends with `DELETE`, with the session, or when the caller loses the role `admin`.
#[utoipa::path(put, path = "/me/preview", tag = "self", request_body = PreviewForm, responses(
    (status = 200, description = "The caller, with the preview", body = Me),
    (status = 404, description = "`not_found`: no such user"),
    (status = 422, description = "`unknown_role`, or `invalid_value`: attributes that are not allowed"),
))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<WirePreviewRequest>,
) -> Result<JsonResponse<Me>, Problem> {
    let admin = caller.require_admin()?;
    request.require_matching_user(&app, &admin).await?;
    let me = app.service.account().set_preview(&admin, request.into_request()?).await?;
    Ok(JsonResponse(me))
}

/// Ends the session's preview, if there is one.
#[utoipa::path(delete, path = "/me/preview", tag = "self", responses(
    (status = 204, description = "The preview has ended"),
))]
pub(crate) async fn delete(State(app): State<App>, caller: Caller) -> Result<StatusCode, Problem> {
    app.service.account().clear_preview(&caller.require_admin()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
