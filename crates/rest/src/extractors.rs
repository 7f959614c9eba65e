//! Extractors for handlers: the caller of the route. The checks before the handler add it to the request. A handler that
//! requires more than its route's [`Access`](crate::access::Access) provides fails closed: there is no such extension.

use std::sync::Arc;

use axum::Extension;
use tracewarden_service::{Identity, Principal};

/// The caller of a route that is available also while the password must be changed first.
pub(crate) type Account = Extension<Arc<Identity>>;

/// The caller.
pub(crate) type Caller = Extension<Arc<Principal>>;
