//! `/login` and `/logout`.

use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json as JsonResponse};
use http::{HeaderName, HeaderValue, StatusCode, header};
use secrecy::ExposeSecret;
use tracewarden_service::{BreakGlassRequest, Me, PasswordCredentials, RequestInfo, SignInAnswer};

use crate::app::App;
use crate::body::Json;
use crate::code::Code;
use crate::extractors::Account;
use crate::problem::Problem;

/// Signs in a browser user. The session is valid until sign-out or password change.
#[utoipa::path(post, path = "/login", tag = "self", request_body = PasswordCredentials, responses(
    (status = 200, description = "Signed in; the cookie carries the session", body = Me,
        headers(("Set-Cookie" = String, description = "The session"))),
    (status = 401, description = "`invalid_credentials`: user name or password is wrong"),
    (status = 403, description = "`sign_in_refused`: sign-in with a password is turned off for this user"),
    (status = 429, description = "`too_many_attempts`"),
    (status = 503, description = "`overloaded`: too many sign-ins are in progress; `unavailable`: the application database cannot be reached"),
))]
pub(crate) async fn login(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Json(credentials): Json<PasswordCredentials>,
) -> Result<impl IntoResponse, Problem> {
    signed_in(&app, app.service.account().sign_in(credentials, info).await?)
}

/// Signs in with a link from `tracewarden break-glass`, which works once within ten minutes.
#[utoipa::path(post, path = "/identity/break-glass", tag = "self", request_body = BreakGlassRequest, responses(
    (status = 200, description = "Signed in; the cookie carries the session", body = Me,
        headers(("Set-Cookie" = String, description = "The session"))),
    (status = 400, description = "`sign_in_expired`: the link has expired, was used before, or does not exist"),
    (status = 503, description = "`overloaded`: too many sign-ins are in progress; `unavailable`: the application database cannot be reached"),
))]
pub(crate) async fn break_glass(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Json(request): Json<BreakGlassRequest>,
) -> Result<impl IntoResponse, Problem> {
    signed_in(&app, app.service.account().sign_in_with_link(request, info).await?)
}

fn signed_in(app: &App, answer: SignInAnswer) -> Result<impl IntoResponse + use<>, Problem> {
    let cookie = set_cookie(app.middleware.cookie().set(answer.token.expose_secret()))?;
    Ok((cookie, JsonResponse(answer.me)))
}

/// Signs out: ends the session of the request.
#[utoipa::path(post, path = "/logout", tag = "self", responses((status = 204, description = "Signed out")))]
pub(crate) async fn logout(State(app): State<App>, account: Account) -> Result<impl IntoResponse, Problem> {
    app.service.account().sign_out(&account).await?;
    Ok((StatusCode::NO_CONTENT, set_cookie(app.middleware.cookie().clear())?))
}

fn set_cookie(value: Option<HeaderValue>) -> Result<AppendHeaders<[(HeaderName, HeaderValue); 1]>, Problem> {
    let value = value.ok_or_else(|| Problem::new(Code::Internal, "the session cookie cannot be set"))?;
    Ok(AppendHeaders([(header::SET_COOKIE, value)]))
}
