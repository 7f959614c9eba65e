//! Limits of a description.

/// Maximum number of parts of a junction that are described. For the rest, their number is given.
pub(super) const MAX_PARTS: usize = 12;
/// Maximum nesting depth of junctions in a description.
pub(super) const MAX_DEPTH: usize = 8;
/// Approximate maximum length of a description, about one screen. After that, only the number of remaining parts is
/// given.
pub(super) const MAX_CHARACTERS: usize = 1_500;
/// Larger predicates are never sent to ClickHouse, so they are not described.
pub(super) const MAX_SIZE: u64 = 100_000;
/// Maximum length of field names, texts and patterns; longer ones are truncated.
pub(super) const MAX_TEXT_CHARS: usize = 80;
/// Maximum number of list elements in a description.
pub(super) const MAX_LIST_ELEMENTS: usize = 10;
