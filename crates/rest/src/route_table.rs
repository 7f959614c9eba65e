//! The table of all routes, each with the access that it requires, and the router that is built from it.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::{CompressionLayer, DefaultPredicate, Predicate as _};
use tracewarden_service::{Service, SessionOnly, Tool};
use utoipa_axum::routes;

use crate::accept::Representation::{Json, Ndjson, Yaml};
use crate::access::Access::{Account, Administrator, Principal, Public};
use crate::access::CredentialKind::{Any, Session, Tool as ByTool};
use crate::app::App;
use crate::body::BodyLimit;
use crate::headers::WebAppResponse;
use crate::middleware::Middleware;
use crate::nested_interface::NestedInterface;
use crate::protected_resource::{self, MCP_METADATA, METADATA};
use crate::routes::Routes;
use crate::{
    api_keys, audit, explain, filter, health, identity, impact, me, middleware, model, openapi, policies,
    preview, roles, schema, session, stats, traces, user_credentials, users, web,
};

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
pub(crate) fn with_middleware(router: Router, middleware: Arc<Middleware>) -> Router {
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
        .add(Public, routes!(identity::methods))
        .add(Public, routes!(session::login))
        .add(Public, routes!(session::break_glass))
        .add_protocol(METADATA, BodyLimit::AnonymousJson, get(protected_resource::metadata))
        .add_protocol(MCP_METADATA, BodyLimit::AnonymousJson, get(protected_resource::mcp_metadata))
        .add_protocol("/login/{provider}", BodyLimit::AnonymousJson, get(identity::begin))
        .add_protocol("/login/{provider}/callback", BodyLimit::AnonymousJson, get(identity::callback))
        .add_protocol("/logout/{provider}", BodyLimit::AnonymousJson, get(identity::logout))
        .add_protocol("/logout/backchannel/{provider}", BodyLimit::Form, post(identity::backchannel_logout))
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
        .add(Principal(ByTool(Tool::TraceStats)), routes!(stats::count))
        .add(Principal(ByTool(Tool::GetTrace)), routes!(traces::get))
        .add(Principal(ByTool(Tool::ExplainAccess)), routes!(explain::explain))
        .add(Administrator(Any), routes!(explain::viewers))
        .add(Principal(ByTool(Tool::FilterSchema)), routes!(filter::schema))
        .add(Principal(ByTool(Tool::FieldValues)), routes!(filter::values))
        .add(Administrator(Any), routes!(identity::list))
        .add(Administrator(Any), routes!(identity::mapping, identity::put_mapping))
        .add(Administrator(Any), routes!(identity::evaluate))
        .add(Administrator(Any), routes!(users::list, users::create))
        .add(Administrator(Any), routes!(users::get, users::change, users::delete))
        .add(Administrator(Any), routes!(users::rotate_password))
        .add(Administrator(Session(SessionOnly::LinkUser)), routes!(users::link))
        .add(Administrator(Session(SessionOnly::UnlinkUser)), routes!(users::unlink))
        .add(Administrator(Any), routes!(users::access))
        .add(Administrator(Any), routes!(user_credentials::sessions, user_credentials::end_sessions))
        .add(Administrator(Any), routes!(user_credentials::end_session))
        .add(Administrator(Any), routes!(user_credentials::api_keys, user_credentials::revoke_api_keys))
        .add(Administrator(Any), routes!(user_credentials::revoke_api_key))
        .add(Administrator(Session(SessionOnly::CreateServiceKey)), routes!(user_credentials::create_api_key))
        .add(Administrator(Any), routes!(user_credentials::find_api_keys))
        .add(Administrator(Any), routes!(roles::list))
        .add(Administrator(Any), routes!(roles::get, roles::put, roles::delete))
        .add(Administrator(Any), routes!(policies::check))
        .add(Administrator(Any), routes!(policies::evaluate))
        .add(Administrator(Any), routes!(impact::preview))
        .add(Administrator(Any), routes!(impact::collateral_access))
        .add(Administrator(Any), routes!(schema::get))
        .add(Administrator(Any), routes!(schema::tables))
        .add(Administrator(Any), routes!(schema::table))
        .add(Administrator(Any), routes!(schema::ddl))
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
