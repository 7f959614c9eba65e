//! Errors of the service as problem details.

use tracewarden_service::{Diagnostic, ServiceError};

use crate::code::Code;
use crate::problem::{InvalidMember, Problem};

impl From<ServiceError> for Problem {
    /// What may leave goes out; the rest goes to the log, where the request's id finds it.
    fn from(error: ServiceError) -> Self {
        let code = Code::parse(error.code()).unwrap_or(Code::Internal);
        match error.inside().as_deref() {
            Some(inside) if code.status().is_server_error() => {
                tracing::error!(code = code.as_str(), inside, "the request failed");
            }
            // Anybody can send a wrong key as often as they like: that is no error of the service.
            Some(inside) => tracing::debug!(code = code.as_str(), inside, "the request was refused"),
            None => {}
        }
        Self::of(&error)
    }
}

impl Problem {
    /// What may leave of an error of the service.
    pub(crate) fn of(error: &ServiceError) -> Self {
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
            .for_administrators(error.for_administrators())
            .of_service()
    }
}

/// Where in a policy's expression the fault is, and what to do about it.
fn locate(invalid: &mut InvalidMember, diagnostic: &Diagnostic) {
    invalid.line = Some(diagnostic.line);
    invalid.column = Some(diagnostic.column);
    invalid.length = Some(diagnostic.length);
    invalid.hint = diagnostic.hint.clone();
}
