//! What a caller says to know of the thing that they change.

use crate::error::ServiceError;

/// Which state of a thing the caller means to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Whichever it has, as long as it exists.
    Existing,
    /// One of these entity tags or revisions, of the thing alone.
    Versions(Vec<u64>),
    /// The whole access model is at this version, the number of its last change; and the thing has one of these entity tags, where
    /// any are named.
    AtVersion {
        /// The version.
        version: u64,
        /// The entity tags.
        tags: Option<Vec<u64>>,
    },
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
            // Where the thing is the whole access model, its version is its entity tag.
            (Self::AtVersion { version, tags }, Some(current))
                if version == current && tags.as_ref().is_none_or(|tags| tags.contains(&current)) =>
            {
                Ok(())
            }
            _ => Err(ServiceError::PreconditionFailed),
        }
    }
}
