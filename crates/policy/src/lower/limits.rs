//! Limits of the size of predicates and of the work to create them.

/// Maximum size of one policy's predicate, in nodes as written. An ordinary policy has fewer than 50.
pub(crate) const MAX_PREDICATE_SIZE: u64 = 10_000;
/// Maximum work of lowering and simplifying one policy: enough for a list of ten thousand elements, with some reserve.
/// Nested macros and lists of conditionals multiply.
pub(crate) const MAX_WORK: u64 = 1_250_000;
/// The same limit for the checker's synthetic callers together. Their lists are small.
pub(crate) const MAX_WORK_OF_SMALL_LISTS: u64 = 150_000;

/// The predicate would be too large to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;
