//! Traits for time and randomness. Code that needs them takes one of these traits, so that tests control both.

use crate::time::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// A source of cryptographically secure random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    ///
    /// # Errors
    /// When the operating system supplies no random bytes; the caller must not continue without them.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// The operating system could not supply random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system could not supply random bytes")]
pub struct EntropyError;
