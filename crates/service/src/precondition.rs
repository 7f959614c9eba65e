//! What a caller says to know of the thing that they change.

use crate::error::ServiceError;

/// Which state of a thing the caller means to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Whichever it has, as long as it exists.
    Existing,
    /// One of these versions or revisions.
    Versions(Vec<u64>),
}

impl IfMatch {
    /// Whether it holds; `current` is the version of the thing, if there is one.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionFailed`].
    pub(crate) fn check(self, current: Option<u64>) -> Result<(), ServiceError> {
        match (self, current) {
            (Self::Existing, Some(_)) => Ok(()),
            (Self::Versions(meant), Some(current)) if meant.contains(&current) => Ok(()),
            _ => Err(ServiceError::PreconditionFailed),
        }
    }
}
