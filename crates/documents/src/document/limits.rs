//! Limits on the depth of a document and on the number of its values.

use std::cell::Cell;

use super::fault::{Fault, SourcePosition};

/// Maximum nesting depth of a document.
const MAX_DEPTH: usize = 64;
/// Maximum number of values, without names, in a document whose notation is declared. A value of a few bytes uses a hundred bytes
/// of memory, and more in the types that are built from it.
pub const MAX_VALUES: usize = 500_000;

/// Limit on the number of values in a document, and the number left.
#[derive(Debug, Clone)]
pub(super) struct ValueBudget {
    limit: usize,
    remaining: Cell<usize>,
}

impl ValueBudget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, remaining: Cell::new(limit) }
    }

    /// Takes one value at this depth from the limit.
    ///
    /// # Errors
    /// When none is left, or the value is too deep.
    pub(super) fn take(&self, position: SourcePosition, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            let message = format!("documents are at most {MAX_DEPTH} levels deep, this is deeper");
            return Err(Fault::new(position, message));
        }
        let limit = self.limit;
        let none = || Fault::new(position, format!("documents have at most {limit} values, this has more"));
        self.remaining.set(self.remaining.get().checked_sub(1).ok_or_else(none)?);
        Ok(())
    }
}
