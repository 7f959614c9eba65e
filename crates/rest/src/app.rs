//! State that all handlers share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tracewarden_service::Service;

use crate::middleware::Middleware;

/// State that handlers share.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Service,
    pub(crate) middleware: Arc<Middleware>,
    /// The OpenAPI document, generated once all routes are declared.
    pub(crate) openapi: Arc<OnceLock<Bytes>>,
}
