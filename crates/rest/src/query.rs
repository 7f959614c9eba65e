//! Query parameters and path segments.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Method, Uri};
use serde::de::DeserializeOwned;
use tracewarden_documents::{escape, pointer};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use crate::problem::Problem;

/// U+0000 in a URI, where it can only be percent-encoded. No name contains it, and some databases reject it in queries.
const NUL: &str = "%00";

/// The query parameters that the operations of a path declare, by method. Every route rejects others, so a parameter that the
/// route does not know, such as `dry_run`, never lets a change through.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(Arc<Vec<(&'static str, Vec<String>)>>);

impl Parameters {
    /// Adds the parameters of an operation.
    pub(crate) fn declare(&mut self, method: &'static str, operation: &Operation) {
        let names = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
                Some(parameter.name.clone())
            }
            _ => None,
        });
        let names = names.collect();
        Arc::make_mut(&mut self.0).push((method, names));
    }

    /// Checks that each parameter is declared and occurs once.
    ///
    /// # Errors
    /// `invalid_request` with a pointer to the first one that is not.
    pub(crate) fn check(&self, method: &Method, uri: &Uri) -> Result<(), Problem> {
        let Some(query) = uri.query() else { return Ok(()) };
        // `HEAD` is handled as `GET`.
        let method = if method == Method::HEAD { "get" } else { method.as_str() };
        let operation = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(method));
        let known = operation.map(|(_, names)| names.as_slice()).unwrap_or_default();
        let mut seen = HashSet::new();
        for (name, _) in form_urlencoded::parse(query.as_bytes()) {
            let refuse = |what: &str| {
                let detail = format!("query parameters: {what}");
                Err(Problem::invalid(format!("/{}", escape(&name)), detail))
            };
            if !known.iter().any(|known| *known == name) {
                return refuse(&format!("unknown parameter `{name}`, {}", expected(known)));
            }
            if !seen.insert(name.clone()) {
                return refuse(&format!("`{name}` appears twice"));
            }
        }
        Ok(())
    }
}

fn expected(known: &[String]) -> String {
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "expected none".to_owned() } else { format!("expected {}", names.join(", ")) }
}

/// Query parameters, deserialised into `T`. `T` rejects unknown parameters; repeated ones are rejected for every `T`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let text = parts.uri.query().unwrap_or_default();
        if text.contains(NUL) {
            return Err(Problem::invalid("", "query parameters: text must not contain U+0000"));
        }
        let deserializer = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
        serde_path_to_error::deserialize(deserializer).map(Query).map_err(|error| {
            let at = pointer(error.path());
            Problem::invalid(at, format!("query parameters: {}", error.into_inner()))
        })
    }
}

/// Path parameters, percent-decoded.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if parts.uri.path().contains(NUL) {
            return Err(Problem::invalid("", "the path: text must not contain U+0000"));
        }
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(error) => Err(Problem::invalid("", format!("the path: {}", error.body_text()))),
        }
    }
}
