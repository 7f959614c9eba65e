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

/// The caller of a route that is available also while the password must be changed first.
pub(crate) struct Account(Arc<Identity>);

/// The caller.
pub(crate) struct Caller(Arc<Principal>);

impl Deref for Account {
    type Target = Identity;
    fn deref(&self) -> &Identity {
        &self.0
    }
}

impl Deref for Caller {
    type Target = Principal;
    fn deref(&self) -> &Principal {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
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
