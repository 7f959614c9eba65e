//! How many queries of a user run at the moment in this replica.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ServiceError;

/// Counts by user: a user cannot have more by opening sessions or making keys. Who runs nothing is not in the map, so
/// that it holds no more entries than queries run.
#[derive(Debug)]
pub(crate) struct Running {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    limit: Option<usize>,
}

/// The leave to run one query, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    user_id: String,
}

impl Running {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { counts: Arc::default(), limit }
    }

    /// # Errors
    /// [`ServiceError::TooManyQueries`].
    pub(crate) fn admit(&self, user_id: &str) -> Result<Arc<Permit>, ServiceError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let running = counts.get(user_id).copied().unwrap_or_default();
        if self.limit.is_some_and(|limit| running >= limit) {
            return Err(ServiceError::TooManyQueries);
        }
        counts.insert(user_id.to_owned(), running.saturating_add(1));
        Ok(Arc::new(Permit { counts: Arc::clone(&self.counts), user_id: user_id.to_owned() }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.user_id) {
            Some(running) if *running > 1 => *running -= 1,
            _ => {
                counts.remove(&self.user_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_by_user_and_leave_nothing_behind() {
        let running = Running::new(Some(2));
        let held = [running.admit("ada").unwrap(), running.admit("ada").unwrap()];
        assert!(matches!(running.admit("ada"), Err(ServiceError::TooManyQueries)));
        let other = running.admit("bob").unwrap();
        let [first, second] = held;
        drop(first);
        let third = running.admit("ada").unwrap();
        assert!(running.admit("ada").is_err());
        drop((second, third, other));
        assert!(running.counts.lock().unwrap().is_empty());
        let unlimited = Running::new(None);
        let many: Vec<_> = (0..1_000).map(|_| unlimited.admit("ada").unwrap()).collect();
        assert_eq!(many.len(), 1_000);
    }
}
