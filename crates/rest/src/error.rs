//! Conversion of service errors to problem details.

use tracewarden_service::{Diagnostic, ServiceError};

use crate::code::Code;
use crate::problem::{InvalidMember, Problem};

impl From<ServiceError> for Problem {
    /// Keeps the public part of the error. The cause is logged, where the request id identifies it.
    fn from(error: ServiceError) -> Self {
        let code = Code::parse(error.code()).unwrap_or(Code::Internal);
        match error.log_cause().as_deref() {
            Some(log_cause) if code.status().is_server_error() => {
                tracing::error!(code = code.as_str(), log_cause, "the request failed");
            }
            // Any client can send a wrong key any number of times: that is not an error of the service.
            Some(log_cause) => tracing::debug!(code = code.as_str(), log_cause, "the request was refused"),
            None => {}
        }
        Self::from_service_error(&error)
    }
}

impl Problem {
    /// Returns the public part of an error of the service.
    pub(crate) fn from_service_error(error: &ServiceError) -> Self {
        let code = Code::parse(error.code()).unwrap_or(Code::Internal);
        let mut problem = Self::new(code, error.detail());
        for member in error.errors() {
            let mut invalid = InvalidMember::new(&member.pointer, member.code, &member.detail);
            if let Some(diagnostic) = &member.diagnostic {
                locate(&mut invalid, diagnostic);
            }
            problem = problem.with(invalid);
        }
        problem
            .retry_after(error.retry_after_seconds())
            .retry(error.retry())
            .for_administrators(error.for_administrators().as_deref())
            .reported_by_service()
    }
}

/// Adds the position of the fault in a policy's expression, and the hint.
fn locate(invalid: &mut InvalidMember, diagnostic: &Diagnostic) {
    invalid.line = Some(diagnostic.line);
    invalid.column = Some(diagnostic.column);
    invalid.length = Some(diagnostic.length);
    invalid.hint = diagnostic.hint.clone();
}
