//! Extractors for handlers: the caller of the route and the representation of the response. The checks before the handler add
//! both to the request.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use tracewarden_service::{Identity, Principal};

use crate::accept::Representation;
use crate::code::Code;
use crate::problem::Problem;

/// The result of the authentication.
pub(crate) struct Authenticated<T>(Arc<T>);

/// The caller of a route that is available also while the password must be changed first.
pub(crate) type Account = Authenticated<Identity>;

/// The caller.
pub(crate) type Caller = Authenticated<Principal>;

impl<T> Deref for Authenticated<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static, S: Send + Sync> FromRequestParts<S> for Authenticated<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Representation {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts)
    }
}

/// Returns the result of the authentication. A handler that requires more than its route's [`Access`](crate::access::Access)
/// provides fails closed.
fn extension<T: Clone + Send + Sync + 'static>(parts: &Parts) -> Result<T, Problem> {
    let found = parts.extensions.get::<T>().cloned();
    found.ok_or_else(|| Problem::new(Code::Internal, "the route does not declare its callers"))
}
