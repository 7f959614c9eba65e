//! The frame of the OpenAPI document. The routes add their operations to it.

use axum::extract::State;
use http::{HeaderValue, header};
use serde_json::Value;
use tracewarden_service::Retry;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{Components, Info, License, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::app::App;
use crate::cookies::HostCookie;
use crate::filter_wire::ComparisonValue;
use crate::problem::{InvalidMember, ProblemDetails};

/// Returns the document with title, version, security schemes and shared schemas. The cookie name is the one that this
/// installation uses.
pub(crate) fn base_document(cookie: HostCookie) -> OpenApi {
    let mut info = Info::new("Tracewarden", env!("CARGO_PKG_VERSION"));
    info.description = Some("Policy-controlled read access to OpenTelemetry traces.".to_owned());
    info.license = Some(License::new("Apache-2.0"));
    let mut components = Components::new();
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            cookie.name(),
            "Set by `POST /login`; `__Host-tracewarden` over https, `tracewarden` over http on a loopback name.",
        ))),
    );
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A personal API key, which begins with `twk_`.".to_owned());
    components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    components.schemas.insert(ProblemDetails::name().into_owned(), ProblemDetails::schema());
    components.schemas.insert(InvalidMember::name().into_owned(), InvalidMember::schema());
    components.schemas.insert(ComparisonValue::name().into_owned(), ComparisonValue::schema());
    components.schemas.insert(Retry::name().into_owned(), Retry::schema());
    let tags = [
        ("self", "The caller: sign-in, password, sessions, API keys"),
        ("traces", "Reading traces"),
        ("users", "Users (administrators)"),
        ("roles", "Roles and policies (administrators)"),
        ("identity", "Identity providers and the mappings of their claims (administrators)"),
        ("trace source", "The bound table and its marked fields (administrators)"),
        (
            "access model",
            "The binding, fields, roles and tests as one file, and its history (administrators)",
        ),
        ("audit", "The audit log (administrators)"),
        ("operation", "Health and this document"),
    ];
    let tags = tags.map(|(name, description)| {
        let mut tag = Tag::new(name);
        tag.description = Some(description.to_owned());
        tag
    });
    OpenApiBuilder::new().info(info).components(Some(components)).tags(Some(tags)).build()
}

/// Serialises the document as it is served. The bytes are the same at every start, so the document can be committed and compared:
/// the extensions of an operation come from a hash map and are sorted.
pub(crate) fn to_json(openapi: &OpenApi) -> Vec<u8> {
    let mut openapi = serde_json::to_value(openapi).unwrap_or_default();
    let paths = openapi.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(|paths| paths.values_mut()).filter_map(Value::as_object_mut);
    for operation in items.flat_map(|item| item.values_mut()).filter_map(Value::as_object_mut) {
        operation.sort_keys();
    }
    serde_json::to_vec_pretty(&openapi).unwrap_or_default()
}

/// Returns this document.
#[utoipa::path(get, path = "/openapi.json", tag = "operation", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(crate) async fn get(State(app): State<App>) -> impl axum::response::IntoResponse {
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        app.openapi.get().cloned().unwrap_or_default(),
    )
}
