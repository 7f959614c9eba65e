//! Query parameters and path segments.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::body::pointer;
use crate::problem::Problem;

/// U+0000 in an address, where it can only stand encoded. Nothing that can be named holds it, and some databases cannot
/// even be asked for it.
const NUL: &str = "%00";

/// Query parameters, read into `T`. `T` refuses unknown parameters; repeated ones are refused for every `T`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let text = parts.uri.query().unwrap_or_default();
        if text.contains(NUL) {
            return Err(Problem::invalid("", "query parameters: text must not hold U+0000"));
        }
        let deserializer = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
        serde_path_to_error::deserialize(deserializer).map(Query).map_err(|error| {
            let at = pointer(error.path());
            Problem::invalid(at, format!("query parameters: {}", error.into_inner()))
        })
    }
}

/// The path's parameters, percent-decoded.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if parts.uri.path().contains(NUL) {
            return Err(Problem::invalid("", "the path: text must not hold U+0000"));
        }
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(error) => Err(Problem::invalid("", format!("the path: {}", error.body_text()))),
        }
    }
}
