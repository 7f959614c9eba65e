//! `/metrics`, on a separate listener: it requires no authentication, so users must not be able to reach it.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use http::{StatusCode, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tracewarden_model::Timestamp;
use tracewarden_service::Service;

use crate::configuration::Configuration;
use crate::connections::Connections;
use crate::process_metrics::ProcessMetrics;

/// Content type of the text format that `encode` writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Binds the configured address; `None` when metrics are not served.
pub async fn bind(configuration: &Configuration) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = configuration.metrics_listen else { return Ok(None) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for metrics (`metrics_listen`)"))?;
    let address = listener.local_addr().context("no address for metrics")?;
    tracing::info!("metrics on http://{address}/metrics");
    Ok(Some(listener))
}

/// Returns a registry with all metrics. The process started at `started`.
pub fn registry(
    http: &tracewarden_rest::Metrics,
    connections: &Connections,
    service: &Service,
    started: Timestamp,
) -> Registry {
    let mut registry = Registry::default();
    registry.register(
        "tracewarden_build",
        "The version of the program",
        Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
    );
    http.register(&mut registry);
    connections.register(&mut registry);
    service.register_metrics(&mut registry);
    registry.register_collector(Box::new(ProcessMetrics { started }));
    registry
}

/// Returns the router with its only path. The security headers keep browsers from executing or caching the answer.
pub fn routes(registry: Registry) -> Router {
    let secured = map_response(async |mut response: Response| {
        tracewarden_rest::add_security_headers(&mut response, false);
        response
    });
    Router::new().route("/metrics", get(metrics)).layer(secured).with_state(Arc::new(registry))
}

async fn metrics(
    State(registry): State<Arc<Registry>>,
) -> Result<([(header::HeaderName, &'static str); 1], String), StatusCode> {
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, OPENMETRICS)], text))
}
