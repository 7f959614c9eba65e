//! Predicates that matched too many traces to be read first, although few granules hold them: those that follow the sorting key, such as
//! policies about a team's services. Results do not depend on this cache.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an entry is valid: new data may make a predicate rare.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// By hash of the predicate: the length of the window in which it was frequent, in nanoseconds, and when that was found.
#[derive(Debug, Default)]
pub(crate) struct FrequentPredicates(Mutex<HashMap<u64, (i64, Instant)>>);

impl FrequentPredicates {
    /// Whether the predicate was frequent in a window of at most this length.
    pub(crate) fn contains(&self, predicate: u64, window: i64) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&predicate).is_some_and(|(length, at)| *length <= window && at.elapsed() < FRESH_FOR)
    }

    pub(crate) fn insert(&self, predicate: u64, window: i64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < FRESH_FOR);
        known.insert(predicate, (window, Instant::now()));
    }
}
