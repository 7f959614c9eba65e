//! Problem details (RFC 9457): the format of every error that the service returns.

use std::sync::Arc;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tracewarden_service::{FieldError, Retry, ServiceError, Tool, bounded};
use utoipa::ToSchema;

use crate::code::Code;

/// The media type of problem details.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Maximum size of the list of invalid members, in bytes of JSON. Further members are only counted.
const MAX_ERRORS_BYTES: usize = 64 * 1024;

/// An error to return. It never contains SQL, another user's data or text from ClickHouse: those are only logged.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    detail: String,
    errors: Vec<InvalidMember>,
    retry_after_seconds: Option<u64>,
    retry: Retry,
    /// Whether the service returned the error, rather than a check before it.
    reported_by_service: bool,
    /// Further detail, for administrators only.
    for_administrators: Option<String>,
    /// Scopes that a program's access token needs.
    needed_scopes: Option<Arc<[Tool]>>,
    /// Value of `WWW-Authenticate`, if not the usual one.
    challenge: Option<Box<HeaderValue>>,
}

/// A member of the input that is not valid.
#[serde_with::apply(Option => #[schema(nullable = false)])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Serialize, ToSchema, Default)]
pub struct InvalidMember {
    /// JSON Pointer to the member within the body, or within the query parameters as an object.
    #[schema(examples("/filter/conditions/0/name"))]
    pub pointer: String,
    /// Machine-readable kind.
    #[schema(examples("unknown_field"))]
    pub code: String,
    /// Description of the problem, as readable text.
    pub detail: String,
    /// Line within a policy's expression, from 1.
    pub line: Option<u32>,
    /// Column within a policy's expression, from 1, in code points.
    pub column: Option<u32>,
    /// Length within a policy's expression, in code points.
    pub length: Option<u32>,
    /// Suggested correction.
    pub hint: Option<String>,
}

impl InvalidMember {
    /// Creates an invalid member.
    pub fn new(pointer: impl Into<String>, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code: code.into(), detail: detail.into(), ..Self::default() }
    }
}

/// Problem details (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemDetails {
    /// A URI for the kind of problem, derived from `code`.
    #[serde(rename = "type")]
    #[schema(examples("urn:tracewarden:problem:unknown_field"))]
    kind: String,
    /// The kind of problem, as readable text.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// Description of this occurrence, as readable text.
    detail: String,
    /// The kind of problem, for programs; never changes.
    #[schema(examples("unknown_field"))]
    code: &'static str,
    /// Identifies the request in the log and in the audit log; also in `X-Request-Id`.
    request_id: String,
    /// Whether the same request may be sent again.
    retry: Retry,
    /// The members of the input that are not valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<InvalidMember>,
    /// Number of further invalid members, when there are too many to list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    more_errors: Option<usize>,
}

impl Problem {
    /// Creates a problem with a description of this occurrence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_seconds: None,
            retry: Retry::from_code(code.as_str()),
            reported_by_service: false,
            for_administrators: None,
            needed_scopes: None,
            challenge: None,
        }
    }

    /// The service is busy; the operation was not started.
    pub(crate) fn overloaded(what: &str) -> Self {
        let detail = format!("the service is busy: {what}; try again in a moment");
        Self { retry_after_seconds: Some(1), ..Self::new(Code::Overloaded, detail) }
    }

    /// A malformed request, with the invalid member.
    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::member(Code::InvalidRequest, pointer, detail)
    }

    /// A problem with one member of the input.
    pub fn member(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::new(code, detail.clone()).with(InvalidMember::new(pointer, code.as_str(), detail))
    }

    /// Adds a member that is not valid.
    #[must_use]
    pub fn with(mut self, member: InvalidMember) -> Self {
        self.errors.push(member);
        self
    }

    /// Marks the problem of a change that failed at an unknown point.
    #[must_use]
    pub(crate) fn after_unfinished_change(self) -> Self {
        Self { retry: self.retry.after_unfinished_change(), ..self }
    }

    /// Returns the public part of an error of the service.
    pub(crate) fn from_service_error(error: &ServiceError) -> Self {
        let code = Code::parse(error.code()).unwrap_or(Code::Internal);
        Self {
            errors: error.errors().iter().map(InvalidMember::from).collect(),
            retry_after_seconds: error.retry_after_seconds(),
            retry: error.retry(),
            reported_by_service: true,
            for_administrators: error.for_administrators(),
            needed_scopes: match error {
                ServiceError::InsufficientScope { needed } => Some(needed.as_slice().into()),
                _ => None,
            },
            ..Self::new(code, error.detail())
        }
    }

    /// Adds the detail for administrators.
    pub(crate) fn append_administrator_detail(&mut self) {
        if let Some(more) = self.for_administrators.take() {
            self.detail = format!("{}: {more}", self.detail);
        }
    }

    pub(crate) fn needed_scopes(&self) -> Option<&[Tool]> {
        self.needed_scopes.as_deref()
    }

    /// Sets the value of `WWW-Authenticate`.
    #[must_use]
    pub(crate) fn with_challenge(self, challenge: &str) -> Self {
        Self { challenge: HeaderValue::from_str(challenge).ok().map(Box::new), ..self }
    }

    /// Whether the service returned the problem.
    pub(crate) fn is_reported_by_service(&self) -> bool {
        self.reported_by_service
    }

    /// Returns the kind of problem.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the problem's wire format. Every error passes through this function, which limits the size of the texts in it.
    pub(crate) fn details(self, request_id: &str) -> ProblemDetails {
        let (errors, more_errors) = within_bounds(self.errors);
        ProblemDetails {
            kind: format!("urn:tracewarden:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: bounded(self.detail),
            code: self.code.as_str(),
            request_id: request_id.to_owned(),
            retry: self.retry,
            errors,
            more_errors,
        }
    }

    /// Renders the response. Only the middleware around all routes calls this, because it alone knows the request id.
    pub(crate) fn render(self, request_id: &str) -> Response {
        let (status, retry_after_seconds) = (self.code.status(), self.retry_after_seconds);
        let challenge = self.challenge.clone();
        let details = self.details(request_id);
        // The details consist of strings and numbers, so serialising cannot fail; an empty body would still have the status.
        let body = serde_json::to_vec(&details).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, *challenge);
        } else if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<ServiceError> for Problem {
    /// Keeps the public part of the error. The cause is logged, where the request id identifies it.
    fn from(error: ServiceError) -> Self {
        let problem = Self::from_service_error(&error);
        let code = problem.code;
        match error.log_cause().as_deref() {
            Some(log_cause) if code.status().is_server_error() => {
                tracing::error!(code = code.as_str(), log_cause, "the request failed");
            }
            // Any client can send a wrong key any number of times: that is not an error of the service.
            Some(log_cause) => tracing::debug!(code = code.as_str(), log_cause, "the request was refused"),
            None => {}
        }
        problem
    }
}

impl From<&FieldError> for InvalidMember {
    fn from(FieldError { pointer, code, detail, diagnostic }: &FieldError) -> Self {
        let diagnostic = diagnostic.as_ref();
        Self {
            line: diagnostic.map(|found| found.line),
            column: diagnostic.map(|found| found.column),
            length: diagnostic.map(|found| found.length),
            hint: diagnostic.and_then(|found| found.hint.clone()),
            ..Self::new(pointer, *code, detail)
        }
    }
}

/// Returns the first invalid members with their texts truncated, and the number of the others.
fn within_bounds(errors: Vec<InvalidMember>) -> (Vec<InvalidMember>, Option<usize>) {
    let found = errors.len();
    let mut bytes = 0_usize;
    let mut kept = Vec::new();
    for member in errors {
        let InvalidMember { pointer, code, detail, hint, .. } = member;
        let (pointer, detail, hint) = (bounded(pointer), bounded(detail), hint.map(bounded));
        let member = InvalidMember { pointer, code, detail, hint, ..member };
        bytes = bytes.saturating_add(serde_json::to_vec(&member).map_or(0, |json| json.len()));
        if bytes > MAX_ERRORS_BYTES && !kept.is_empty() {
            break;
        }
        kept.push(member);
    }
    let more = found - kept.len();
    (kept, (more > 0).then_some(more))
}

impl IntoResponse for Problem {
    /// Returns the status with the problem in the extensions; the middleware around all routes renders the body.
    fn into_response(self) -> Response {
        (self.code.status(), Extension(self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_input_in_problems_is_bounded() {
        for (length, count) in [(1, 1), (1 << 20, 1), (1 << 20, 100), (10, 50_000)] {
            for text in ["x", "\u{1}", "🦀", "\""] {
                let text = text.repeat(length);
                let mut problem = Problem::new(Code::UnknownField, text.as_str());
                for _ in 0..count {
                    let mut member = InvalidMember::new(text.as_str(), "unknown_field", text.as_str());
                    member.hint = Some(text.clone());
                    problem = problem.with(member);
                }
                let details = serde_json::to_value(problem.details("id")).unwrap();
                assert!(details.to_string().len() <= 160 * 1024, "{}", details.to_string().len());
                let listed = details["errors"].as_array().unwrap().len();
                let more = details["more_errors"].as_u64().unwrap_or_default();
                assert!(listed >= 1 && listed as u64 + more == count, "{listed} of {count}, {more} more");
            }
        }
    }

    #[test]
    fn a_failure_during_a_change_is_not_safe_to_retry() {
        let retry = |problem: Problem| serde_json::to_value(problem.details("id")).unwrap()["retry"].clone();
        let internal = || Problem::new(Code::Internal, "");
        assert_eq!(retry(internal()), "safe");
        assert_eq!(retry(internal().after_unfinished_change()), "unknown");
        assert_eq!(retry(Problem::new(Code::Conflict, "").after_unfinished_change()), "never");
        assert_eq!(retry(Problem::overloaded("x")), "safe");
    }
}
