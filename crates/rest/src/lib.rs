//! The REST API: routes, wire types, OpenAPI, cookies, headers. It is a thin layer: the service makes every decision.

mod abort_on_error;
mod accept;
mod api_keys;
mod audit;
mod body;
mod body_memory;
mod client;
mod code;
mod collateral_access;
mod cookies;
mod cross_site;
mod ddl;
pub mod document;
mod error;
mod explain;
mod field_values;
mod filter;
mod filter_wire;
mod framing;
#[cfg(test)]
mod fuzz;
mod headers;
mod health;
mod impact;
pub mod json;
mod json_complexity;
mod limit;
mod me;
mod metrics;
mod middleware;
mod model;
mod model_tests;
mod model_wire;
mod nested_interface;
mod openapi;
mod operations;
mod page;
pub mod policies;
pub mod policy_file;
pub mod policy_suite;
mod preconditions;
mod preview;
mod problem;
mod progress;
mod query;
mod read_only;
mod roles;
mod routes;
mod schema;
mod schema_wire;
mod session;
mod span_wire;
mod strict_objects;
mod traces;
mod unreadable_head;
mod user_credentials;
mod users;
mod web;
mod wire;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::middleware::from_fn_with_state;
use bytes::Bytes;
use http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::{CompressionLayer, DefaultPredicate, Predicate as _};
use tracewarden_service::{Service, SessionOnly, Tool};
use utoipa_axum::routes;

use crate::accept::Representation::{Json, Ndjson, Yaml};
use crate::headers::WebAppResponse;
use crate::routes::Access::{Account, Administrator, Principal, Public};
use crate::routes::CredentialKind::{Any, Session, Tool as ByTool};
use crate::routes::Routes;

pub use client::TrustedProxies;
pub use code::Code;
pub use ddl::WireDdlAdvice as DdlAdviceResponse;
pub use headers::add_security_headers;
pub use metrics::Metrics;
pub use middleware::{Middleware, ShutdownFlag};
pub use nested_interface::NestedInterface;
pub use span_wire::spans;
pub use unreadable_head::UnreadableHeads;

/// State that handlers share.
#[derive(Clone)]
pub(crate) struct App {
    service: Service,
    middleware: Arc<Middleware>,
    /// The OpenAPI document, generated once all routes are declared.
    openapi: Arc<OnceLock<Bytes>>,
}

/// Returns the router of the API with another interface nested in it. The server must add [`axum::extract::ConnectInfo`] with the
/// peer's address to each request.
pub fn router(service: Service, middleware: Middleware, nested_interface: NestedInterface) -> Router {
    let middleware = Arc::new(middleware);
    let app = App { service, middleware: Arc::clone(&middleware), openapi: Arc::default() };
    let (router, openapi) = declare(app.clone()).add_nested_interface(nested_interface).finish();
    app.openapi.get_or_init(|| openapi::to_json(&openapi).into());
    with_middleware(router.with_state(app), middleware)
}

/// Adds the middleware around all routes, innermost first.
fn with_middleware(router: Router, middleware: Arc<Middleware>) -> Router {
    router
        // Files of the web application are already stored compressed.
        .layer(CompressionLayer::new().compress_when(DefaultPredicate::new().and(is_api_response)))
        // Inside `middleware::wrap`, so that a response after a panic gets the same treatment as all others.
        .layer(CatchPanicLayer::custom(middleware::panic_response))
        .layer(from_fn_with_state(middleware, middleware::wrap))
}

fn is_api_response(_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions) -> bool {
    extensions.get::<WebAppResponse>().is_none()
}

/// Declares all routes, each with the access that it requires.
fn declare(app: App) -> Routes {
    let cookie = app.middleware.cookie();
    Routes::new(app, openapi::base_document(cookie))
        .add(Public, routes!(session::login))
        .add(Account(Session(SessionOnly::SignOut)), routes!(session::logout))
        .add(Account(Any), routes!(me::get))
        .add(Account(Session(SessionOnly::ChangePassword)), routes!(me::change_password))
        .add(Principal(Any), routes!(me::sessions))
        .add(Principal(Any), routes!(me::end_session))
        .add(Administrator(Session(SessionOnly::BeginPreview)), routes!(preview::put))
        .add(Administrator(Session(SessionOnly::EndPreview)), routes!(preview::delete))
        .add(Principal(Any), routes!(api_keys::list))
        .add(Principal(Session(SessionOnly::CreateApiKey)), routes!(api_keys::create))
        .add(Principal(Any), routes!(api_keys::revoke))
        .add_with_representations(
            Principal(ByTool(Tool::QueryTraces)),
            &[Json, Ndjson],
            routes!(traces::query),
        )
        .add(Principal(ByTool(Tool::GetTrace)), routes!(traces::get))
        .add(Principal(ByTool(Tool::ExplainAccess)), routes!(explain::explain))
        .add(Administrator(Any), routes!(explain::viewers))
        .add(Principal(ByTool(Tool::FilterSchema)), routes!(filter::schema))
        .add(Principal(ByTool(Tool::FieldValues)), routes!(field_values::list))
        .add(Administrator(Any), routes!(users::list, users::create))
        .add(Administrator(Any), routes!(users::get, users::change, users::delete))
        .add(Administrator(Any), routes!(users::rotate_password))
        .add(Administrator(Any), routes!(users::access))
        .add(Administrator(Any), routes!(user_credentials::sessions, user_credentials::end_sessions))
        .add(Administrator(Any), routes!(user_credentials::end_session))
        .add(Administrator(Any), routes!(user_credentials::api_keys, user_credentials::revoke_api_keys))
        .add(Administrator(Any), routes!(user_credentials::revoke_api_key))
        .add(Administrator(Any), routes!(roles::list))
        .add(Administrator(Any), routes!(roles::get, roles::put, roles::delete))
        .add(Administrator(Any), routes!(policies::check))
        .add(Administrator(Any), routes!(policies::evaluate))
        .add(Administrator(Any), routes!(impact::preview))
        .add(Administrator(Any), routes!(collateral_access::collateral_access))
        .add(Administrator(Any), routes!(schema::get))
        .add(Administrator(Any), routes!(schema::tables))
        .add(Administrator(Any), routes!(schema::table))
        .add(Administrator(Any), routes!(ddl::get))
        .add(Administrator(Any), routes!(schema::put_binding))
        .add(Administrator(Any), routes!(schema::put_fields))
        .add_with_representations(Administrator(Any), &[Json, Yaml], routes!(model::export))
        .add_model_file_route(Administrator(Any), routes!(model::plan))
        .add_model_file_route(Administrator(Any), routes!(model::import))
        .add(Administrator(Any), routes!(model::history))
        .add_with_representations(Administrator(Any), &[Json, Yaml], routes!(model::get_version))
        .add(Administrator(Any), routes!(model::restore))
        .add(Administrator(Any), routes!(audit::list))
        .add_probe(routes!(health::healthz))
        .add_probe(routes!(health::readyz))
        .add(Public, routes!(openapi::get))
        .add_web(&["/", "/ui"], web::redirect)
        .add_web(&["/ui/", "/ui/{*path}"], web::get)
}
