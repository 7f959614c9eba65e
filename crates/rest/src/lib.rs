//! The REST API: routes, wire types, OpenAPI, cookies, headers. Thin: every decision is the service's.

mod accept;
mod api_keys;
mod audit;
mod body;
mod client;
mod code;
mod cookies;
mod cross_site;
mod document;
mod edge;
mod error;
mod filter;
mod filter_wire;
mod framing;
mod headers;
mod health;
mod limit;
mod me;
mod page;
mod policies;
mod preconditions;
mod preview;
mod problem;
mod query;
mod roles;
mod routes;
mod schema;
mod schema_wire;
mod session;
mod strict_objects;
mod traces;
mod user_credentials;
mod users;
mod wire;

use std::sync::{Arc, OnceLock};

use axum::{Router, middleware};
use bytes::Bytes;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tracewarden_service::Service;
use utoipa_axum::routes;

use crate::accept::Representation::{Json, Lines};
use crate::routes::Access::{Account, Administrator, Principal, Public};
use crate::routes::Routes;

pub use code::Code;
pub use edge::Edge;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    service: Service,
    edge: Arc<Edge>,
    /// The OpenAPI document, made from the routes once they are declared.
    document: Arc<OnceLock<Bytes>>,
}

/// The API as a router. Whoever serves it adds [`axum::extract::ConnectInfo`] with the peer's address to each request.
pub fn router(service: Service, edge: Edge) -> Router {
    let edge = Arc::new(edge);
    let app = App { service, edge: Arc::clone(&edge), document: Arc::default() };
    let (router, document) = declare(app.clone()).finish();
    let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
    app.document.get_or_init(|| text.into());
    wrapped(router.with_state(app), edge)
}

/// What stands around all routes, from the inside outwards.
fn wrapped(router: Router, edge: Arc<Edge>) -> Router {
    router
        .layer(CompressionLayer::new())
        // Inside the wrapper, so that an answer to a panic is an answer like any other.
        .layer(CatchPanicLayer::custom(edge::panicked))
        .layer(middleware::from_fn_with_state(edge, edge::wrap))
}

/// All routes, each with who may call it.
fn declare(app: App) -> Routes {
    Routes::new(app, document::frame())
        .add(Public, routes!(session::login))
        .add(Account, routes!(session::logout))
        .add(Account, routes!(me::get))
        .add(Account, routes!(me::change_password))
        .add(Principal, routes!(me::sessions))
        .add(Principal, routes!(me::end_session))
        .add(Administrator, routes!(preview::put, preview::delete))
        .add(Principal, routes!(api_keys::list, api_keys::create))
        .add(Principal, routes!(api_keys::revoke))
        .add_offering(Principal, &[Json, Lines], routes!(traces::query))
        .add(Principal, routes!(traces::get))
        .add(Principal, routes!(filter::schema))
        .add(Administrator, routes!(users::list, users::create))
        .add(Administrator, routes!(users::get, users::change, users::delete))
        .add(Administrator, routes!(users::rotate_password))
        .add(Administrator, routes!(users::access))
        .add(Administrator, routes!(user_credentials::sessions, user_credentials::end_sessions))
        .add(Administrator, routes!(user_credentials::end_session))
        .add(Administrator, routes!(user_credentials::api_keys, user_credentials::revoke_api_keys))
        .add(Administrator, routes!(user_credentials::revoke_api_key))
        .add(Administrator, routes!(roles::list))
        .add(Administrator, routes!(roles::get, roles::put, roles::delete))
        .add(Administrator, routes!(policies::check))
        .add(Administrator, routes!(schema::get))
        .add(Administrator, routes!(schema::tables))
        .add(Administrator, routes!(schema::table))
        .add(Administrator, routes!(schema::put_binding))
        .add(Administrator, routes!(schema::put_fields))
        .add(Administrator, routes!(audit::list))
        .add(Public, routes!(health::healthz))
        .add(Public, routes!(health::readyz))
        .add(Public, routes!(document::get))
}
