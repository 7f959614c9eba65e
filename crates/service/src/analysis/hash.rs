//! Hash by which equal predicates are found.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Returns a hash for use within this process. Different values may have the same one.
pub(crate) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
