//! Concurrent work in this replica, limited by user or by credential.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of running tasks by name. A name without running tasks has no entry, so the map never has more entries than there
/// are running tasks.
#[derive(Debug)]
pub(crate) struct KeyedLimiter {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    limit: Option<usize>,
}

/// Permit to run one task, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    name: String,
}

impl KeyedLimiter {
    /// Allows at most `limit` concurrent tasks of one name; any number if it is `None`.
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { counts: Arc::default(), limit }
    }

    /// Returns a permit for one more task, unless the limit is reached.
    pub(crate) fn try_acquire(&self, name: &str) -> Option<Permit> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let active = counts.get(name).copied().unwrap_or_default();
        if self.limit.is_some_and(|limit| active >= limit) {
            return None;
        }
        counts.insert(name.to_owned(), active.saturating_add(1));
        Some(Permit { counts: Arc::clone(&self.counts), name: name.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.name) {
            Some(active) if *active > 1 => *active -= 1,
            _ => {
                counts.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_by_name_and_released() {
        let limiter = KeyedLimiter::new(Some(2));
        let first = limiter.try_acquire("ada").unwrap();
        let second = limiter.try_acquire("ada").unwrap();
        assert!(limiter.try_acquire("ada").is_none());
        let other = limiter.try_acquire("bob").unwrap();
        drop(first);
        let third = limiter.try_acquire("ada").unwrap();
        assert!(limiter.try_acquire("ada").is_none());
        drop((second, third, other));
        assert!(limiter.counts.lock().unwrap().is_empty());
        let unlimited = KeyedLimiter::new(None);
        let many: Vec<_> = (0..1_000).map(|_| unlimited.try_acquire("ada").unwrap()).collect();
        assert_eq!(many.len(), 1_000);
    }
}
