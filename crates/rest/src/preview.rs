//! `/me/preview`.

use std::collections::BTreeSet;

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use tracewarden_service::PreviewRequest;
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::me::Me;
use crate::problem::{Problem, ProblemDetails};
use crate::routes::Caller;
use crate::wire::{Attributes, to_values};

/// As whom to read traces: with `roles` and `attributes`, or as the user `username`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PreviewRequest)]
pub(crate) struct WirePreviewRequest {
    /// Existing roles.
    roles: Option<BTreeSet<String>>,
    /// Attributes beside the roles; none when absent.
    attributes: Option<Attributes>,
    /// A user, whose roles and attributes as they are now count.
    username: Option<String>,
}

impl WirePreviewRequest {
    fn into_request(self) -> Result<PreviewRequest, Problem> {
        match self {
            Self { roles: Some(roles), attributes, username: None } => {
                Ok(PreviewRequest::As { roles, attributes: attributes.map(to_values) })
            }
            Self { roles: None, attributes: None, username: Some(username) } => {
                Ok(PreviewRequest::User(username))
            }
            Self { username: Some(_), .. } => Err(Problem::invalid(
                "/username",
                "`username` stands alone: it brings roles and attributes along",
            )),
            _ => Err(Problem::invalid("", "expected `roles` or `username`")),
        }
    }
}

/// Begins a preview: until it ends, the caller reads traces with the given roles and attributes, instead of their own.
///
/// Nothing but the access to traces changes. The preview is the session's, shows in `GET /me`, is recorded with each
/// read, and ends with `DELETE`, with the session, or with the role `admin`.
#[utoipa::path(put, path = "/me/preview", tag = "self", request_body = WirePreviewRequest, responses(
    (status = 200, description = "The caller, with the preview", body = Me),
    (status = 403, description = "Not an administrator, or not with a session", body = ProblemDetails, content_type = "application/problem+json"),
    (status = 404, description = "No such user", body = ProblemDetails, content_type = "application/problem+json"),
    (status = 422, description = "No such role, or attributes that are not allowed", body = ProblemDetails, content_type = "application/problem+json"),
))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<WirePreviewRequest>,
) -> Result<Answer<Me>, Problem> {
    let me = app.service.set_preview(&caller.require_admin()?, request.into_request()?).await?;
    Ok(Answer(me.into()))
}

/// Ends the session's preview, if one is on.
#[utoipa::path(delete, path = "/me/preview", tag = "self", responses(
    (status = 204, description = "None is on any more"),
    (status = 403, description = "Not an administrator, or not with a session", body = ProblemDetails, content_type = "application/problem+json"),
))]
pub(crate) async fn delete(State(app): State<App>, caller: Caller) -> Result<StatusCode, Problem> {
    app.service.clear_preview(&caller.require_admin()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
