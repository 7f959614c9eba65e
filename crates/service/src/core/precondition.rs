//! Preconditions of changes.

use crate::core::error::{Result, ServiceError};

/// The state that the caller means to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Any state, as long as the resource exists.
    Existing,
    /// One of these entity tags or revisions of the resource.
    Versions(Vec<u64>),
    /// The whole access model is at this version, the number of its last change; and the resource has one of these entity
    /// tags, if any are named.
    AtVersion {
        /// Version of the access model.
        version: u64,
        /// Entity tags of the resource.
        tags: Option<Vec<u64>>,
    },
}

impl IfMatch {
    /// Checks the precondition, if there is one.
    pub(crate) fn check_any(if_match: Option<Self>, current: Option<u64>) -> Result<()> {
        if_match.map_or(Ok(()), |if_match| if_match.check(current))
    }

    /// Checks the precondition; `current` is the version of the resource, if it exists.
    pub(crate) fn check(self, current: Option<u64>) -> Result<()> {
        match (self, current) {
            (Self::Existing, Some(_)) => Ok(()),
            (Self::Versions(meant), Some(current)) if meant.contains(&current) => Ok(()),
            // If the resource is the whole access model, its version is its entity tag.
            (Self::AtVersion { version, tags }, Some(current))
                if version == current && tags.as_ref().is_none_or(|tags| tags.contains(&current)) =>
            {
                Ok(())
            }
            _ => Err(ServiceError::PreconditionFailed),
        }
    }
}
