//! Time and randomness, passed in: whoever needs them takes one of these traits, so that tests decide both.

use crate::time::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// A source of cryptographically secure random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    ///
    /// # Errors
    /// When the operating system has no randomness to give; the caller must refuse to go on.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// The operating system could not supply random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system could not supply random bytes")]
pub struct EntropyError;
