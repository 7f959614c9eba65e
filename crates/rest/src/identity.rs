//! `/login` with identity providers, and `/identity`: their mappings.

use std::collections::BTreeMap;

use axum::Extension;
use axum::Json as JsonResponse;
use axum::extract::{Request, State};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracewarden_model::ClaimsMapping;
use tracewarden_service::{
    AuthorizationResponse, MappingAnswer, MappingEvaluation, ProviderInfo, RequestInfo, ServiceError,
    SignInMethods,
};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{BodyLimit, Json, read_with_deadline};
use crate::code::Code;
use crate::cookies::HostCookie;
use crate::extractors::Caller;
use crate::preconditions::{IfMatch, etag};
use crate::problem::Problem;
use crate::query::Path;
use crate::web::BASE;

/// Longest path to which the browser returns.
const RETURN_TO_MAX_BYTES: usize = 2_000;

/// Returns the ways to sign in.
#[utoipa::path(get, path = "/identity/methods", tag = "self", responses(
    (status = 200, description = "The ways to sign in", body = SignInMethods),
))]
pub(crate) async fn methods(State(app): State<App>) -> JsonResponse<SignInMethods> {
    JsonResponse(app.service.identities().sign_in_methods())
}

/// Sends the browser to the provider.
pub(crate) async fn begin(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let result = async {
        let return_to = return_to(&uri)?;
        let redirect = app
            .service
            .identities()
            .begin_sign_in(&provider, return_to, &redirect_uri(&app, &provider))
            .await?;
        let cookie = set_cookie(sign_in_cookie(&app).set(&redirect.cookie))?;
        Ok((cookie, Redirect::to(&redirect.url)).into_response())
    };
    result.await.unwrap_or_else(|failure| failed(failure, return_to(&uri).ok().flatten(), &headers, &info))
}

/// Receives the browser from the provider. Unknown parameters are ignored (RFC 6749, 4.1.2).
pub(crate) async fn callback(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let result = async {
        let response = AuthorizationResponse {
            code: parameter(&uri, "code")?,
            state: parameter(&uri, "state")?,
            iss: parameter(&uri, "iss")?,
            error: parameter(&uri, "error")?,
        };
        let cookie = sign_in_cookie(&app).read(&headers);
        let signed_in = app
            .service
            .identities()
            .complete_sign_in(&provider, cookie, response, &redirect_uri(&app, &provider), info.clone())
            .await?;
        let session = set_cookie(app.middleware.cookie().set(signed_in.token.expose_secret()))?;
        let sign_in = set_cookie(sign_in_cookie(&app).clear())?;
        let page = signed_in.return_to.as_deref().unwrap_or(BASE);
        Ok((session, sign_in, Redirect::to(page)).into_response())
    };
    result.await.unwrap_or_else(|failure| {
        let state = parameter(&uri, "state").ok().flatten();
        let cookie = sign_in_cookie(&app).read(&headers);
        let return_to = app.service.identities().return_to(&provider, cookie, state.as_deref());
        failed(failure, return_to, &headers, &info)
    })
}

/// Sends a browser that has signed out here to the provider, to sign out there.
pub(crate) async fn logout(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Path(provider): Path<String>,
    headers: HeaderMap,
) -> Response {
    let return_uri = format!("{}{BASE}login", app.middleware.public_origin);
    match app.service.identities().end_session_url(&provider, &return_uri).await {
        Ok(url) => Redirect::to(url.as_deref().unwrap_or(&return_uri)).into_response(),
        Err(failure) => failed(failure, None, &headers, &info),
    }
}

/// Ends sessions for a provider (OpenID Connect Back-Channel Logout 1.0).
pub(crate) async fn backchannel_logout(
    State(app): State<App>,
    Extension(info): Extension<RequestInfo>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let body = read_with_deadline(request.into_body(), BodyLimit::Form.limit()).await?;
    let mut tokens = form_urlencoded::parse(&body).filter(|(name, _)| name == "logout_token");
    let (Some((_, token)), None) = (tokens.next(), tokens.next()) else {
        return Err(Problem::invalid("", "the form must have one `logout_token`"));
    };
    match app.service.identities().end_sessions(&provider, &token, &info).await {
        Ok(()) => Ok(StatusCode::OK),
        Err(error) => {
            log(&error);
            // As the specification requires. Anyone can send a token, so that an invalid one is no failure of the provider.
            match &error {
                ServiceError::IdentityProvider(cause) if cause.is_invalid_answer() => {
                    Err(Problem::new(Code::InvalidRequest, "the logout token is not valid"))
                }
                _ => Err(error.into()),
            }
        }
    }
}

/// An identity provider.
#[derive(Serialize, ToSchema)]
#[schema(as = IdentityProvider)]
pub(crate) struct Provider {
    /// The provider and its mapping.
    #[serde(flatten)]
    info: ProviderInfo,
    /// Redirect URI to register at the provider.
    #[schema(examples("https://traces.example.com/login/company/callback"))]
    redirect_uri: String,
    /// Address for back-channel logout to register at the provider.
    #[schema(examples("https://traces.example.com/logout/backchannel/company"))]
    backchannel_logout_uri: String,
}

/// Identity providers.
#[derive(Serialize, ToSchema)]
#[schema(as = IdentityProviderList)]
pub(crate) struct ProviderList {
    /// All that are configured or have a mapping, by name.
    providers: Vec<Provider>,
}

/// Lists the identity providers that are configured or have a mapping.
#[utoipa::path(get, path = "/identity/providers", tag = "identity", responses(
    (status = 200, description = "Identity providers", body = ProviderList),
))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<ProviderList>, Problem> {
    let found = app.service.identities().list(&caller.require_admin()?).await?;
    let origin = &app.middleware.public_origin;
    let provider = |info: ProviderInfo| Provider {
        redirect_uri: redirect_uri(&app, &info.name),
        backchannel_logout_uri: format!("{origin}/logout/backchannel/{}", info.name),
        info,
    };
    Ok(JsonResponse(ProviderList { providers: found.into_iter().map(provider).collect() }))
}

/// Returns the mapping of a provider.
#[utoipa::path(get, path = "/identity/providers/{provider}/mapping", tag = "identity",
    params(("provider" = String, Path, description = "Name of the provider")), responses(
    (status = 200, description = "The mapping", body = ClaimsMapping, headers(("ETag" = String, description = "Changes with the mapping"))),
    (status = 404, description = "`not_found`: no such provider"),
))]
pub(crate) async fn mapping(
    State(app): State<App>,
    caller: Caller,
    Path(provider): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let (mapping, tag) = app.service.identities().mapping(&caller.require_admin()?, &provider).await?;
    Ok((etag(tag), JsonResponse(mapping)))
}

/// Replaces the mapping of a provider. The change takes effect on the next request of each person; an empty mapping removes it.
#[utoipa::path(put, path = "/identity/providers/{provider}/mapping", tag = "identity", request_body = ClaimsMapping, params(
    ("provider" = String, Path, description = "Name of the provider"),
    ("If-Match" = Option<String>, Header, description = "The `ETag` of the mapping that is to be replaced", example = "*")), responses(
    (status = 200, description = "The mapping as stored", body = MappingAnswer, headers(("ETag" = String, description = "Changes with the mapping"))),
    (status = 403, description = "`session_required`: an API key cannot map claims to `admin`"),
    (status = 404, description = "`not_found`: no such provider"),
    (status = 412, description = "`precondition_failed`: the mapping was changed since"),
    (status = 422, description = "`policy_invalid`, `unknown_role`, or `invalid_value`: a name or an expression that is not allowed"),
))]
pub(crate) async fn put_mapping(
    State(app): State<App>,
    caller: Caller,
    Path(provider): Path<String>,
    IfMatch(if_match): IfMatch,
    Json(mapping): Json<ClaimsMapping>,
) -> Result<impl IntoResponse, Problem> {
    let admin = caller.require_admin()?;
    let answer = app.service.identities().put_mapping(&admin, &provider, mapping, if_match).await?;
    Ok((etag(answer.tag), JsonResponse(answer)))
}

/// Claims to try a mapping on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EvaluateMapping)]
pub(crate) struct EvaluateRequest {
    /// Claims, as in an ID token.
    // Not a `Map`, which would read `null` as an empty object.
    #[schema(value_type = Object, example = json!({ "sub": "1", "groups": ["/payments"] }))]
    claims: BTreeMap<String, Value>,
    /// The mapping; the stored one when absent.
    mapping: Option<ClaimsMapping>,
}

/// Returns the roles and attributes that a person with these claims would get. Stores nothing.
#[utoipa::path(post, path = "/identity/providers/{provider}/evaluate", tag = "identity", request_body = EvaluateRequest,
    params(("provider" = String, Path, description = "Name of the provider")), responses(
    (status = 200, description = "Roles and attributes", body = MappingEvaluation),
    (status = 404, description = "`not_found`: no such provider"),
    (status = 422, description = "`policy_invalid`, `unknown_role`, or `invalid_value`: a mapping that is not allowed"),
))]
pub(crate) async fn evaluate(
    State(app): State<App>,
    caller: Caller,
    Path(provider): Path<String>,
    Json(request): Json<EvaluateRequest>,
) -> Result<JsonResponse<MappingEvaluation>, Problem> {
    let admin = caller.require_admin()?;
    let EvaluateRequest { claims, mapping } = request;
    let claims = claims.into_iter().collect();
    Ok(JsonResponse(app.service.identities().evaluate_mapping(&admin, &provider, claims, mapping).await?))
}

fn redirect_uri(app: &App, provider: &str) -> String {
    format!("{}/login/{provider}/callback", app.middleware.public_origin)
}

fn sign_in_cookie(app: &App) -> HostCookie {
    HostCookie::sign_in(app.middleware.over_https())
}

fn set_cookie(
    value: Option<HeaderValue>,
) -> Result<AppendHeaders<[(HeaderName, HeaderValue); 1]>, ServiceError> {
    let value = value.ok_or_else(|| ServiceError::internal("the cookie cannot be set"))?;
    Ok(AppendHeaders([(header::SET_COOKIE, value)]))
}

/// Returns a query parameter. One that occurs twice belongs to no response of a provider.
fn parameter(uri: &Uri, name: &str) -> Result<Option<String>, ServiceError> {
    let query = uri.query().unwrap_or_default();
    let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
    let value = found.next().map(|(_, value)| value.into_owned());
    if found.next().is_some() { Err(ServiceError::SignInExpired) } else { Ok(value) }
}

/// Returns the page to return to after a sign-in. Any other text than the path of a page is ignored.
fn return_to(uri: &Uri) -> Result<Option<String>, ServiceError> {
    Ok(parameter(uri, "return_to")?.filter(|path| is_page(path)))
}

/// Whether the browser may be sent to this path after the sign-in: a page of the web application, never another site.
fn is_page(path: &str) -> bool {
    path.len() <= RETURN_TO_MAX_BYTES
        && path.starts_with(BASE)
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !has_dot_segment(path)
}

/// Whether a browser would leave the application: it removes such segments, also encoded ones.
fn has_dot_segment(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// Returns the response to a failed sign-in: the sign-in page, which explains it, for a browser that shows pages, and problem
/// details otherwise. `return_to` is the page that the person wanted to see.
fn failed(
    error: ServiceError,
    return_to: Option<String>,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Response {
    log(&error);
    if !is_navigation(headers) {
        return Problem::from(error).into_response();
    }
    let reason = match &error {
        ServiceError::SignInRefused(refusal) => refusal.into(),
        other => other.code(),
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("failed", reason).append_pair("request", &info.request_id);
    if let Some(page) = return_to.as_deref().and_then(|path| path.strip_prefix(BASE)) {
        query.append_pair("to", &format!("/{page}"));
    }
    Redirect::to(&format!("{BASE}login?{}", query.finish())).into_response()
}

fn log(error: &ServiceError) {
    let (code, log_cause) = (error.code(), error.log_cause().unwrap_or_else(|| error.detail()));
    tracing::warn!(code, log_cause, "a sign-in or a response of an identity provider was rejected");
}

fn is_navigation(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => {
            let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
            accepted.flat_map(|value| value.split(',')).any(|range| range.trim().starts_with("text/html"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_returns_to_pages_of_the_application_only() {
        for good in
            ["/ui/", "/ui/traces/0af7?x=1#span", "/ui/users/a%20b", "/ui//evil.example", "/ui/a?b=../c"]
        {
            assert!(is_page(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "//evil.example/ui/",
            "https://evil.example/ui/",
            "/ui",
            "/uix/",
            "/ui/\\evil.example",
            "/ui/\r\nX: y",
            "/ui/ä",
            "javascript:alert(1)",
            "/\\evil.example/ui/",
            "/ui/../login/company/logout",
            "/ui/a/%2E%2e/../x",
            "/ui/.",
        ] {
            assert!(!is_page(bad), "{bad:?}");
        }
        assert!(!is_page(&format!("/ui/{}", "a".repeat(2_000))));
    }
}
