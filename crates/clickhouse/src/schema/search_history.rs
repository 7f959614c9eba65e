//! Results of recent searches. They only choose between plans with the same result.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an entry is valid: new data may change what a search finds.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// Results of recent searches.
#[derive(Debug, Default)]
pub(crate) struct SearchHistory {
    /// By hash of the predicate: the length of the window in which too many traces matched to be read first, although few granules
    /// hold them. Such predicates follow the sorting key, such as policies about a team's services.
    pub(crate) frequent_predicates: RecentLengths,
    /// By [`shape`](crate::search::RequiredPredicates::shape) of the search: the length of the window for each trace that was found.
    pub(crate) lengths_per_trace: RecentLengths,
}

/// Lengths of time in nanoseconds, by hash.
#[derive(Debug, Default)]
pub(crate) struct RecentLengths(Mutex<HashMap<u64, (i64, Instant)>>);

impl RecentLengths {
    pub(crate) fn get(&self, hash: u64) -> Option<i64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash).filter(|(_, at)| at.elapsed() < FRESH_FOR).map(|(length, _)| *length)
    }

    pub(crate) fn insert(&self, hash: u64, length: i64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < FRESH_FOR);
        known.insert(hash, (length, Instant::now()));
    }
}
