//! Results of recent searches. They only choose between plans with the same result.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::WindowShare;

/// How long an entry is valid: new data may change what a search finds.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// Results of recent searches.
#[derive(Debug, Default)]
pub(crate) struct SearchHistory {
    /// By hash of the predicate: the length of the window in which too many traces matched to be read first, although few granules
    /// hold them. Such predicates follow the sorting key, such as policies about a team's services.
    pub(crate) frequent_predicates: Recent<i64>,
    /// By [`shape`](crate::search::RequiredPredicates::shape) of the search: the length of the window for each trace that was found.
    pub(crate) lengths_per_trace: Recent<i64>,
    /// By shape: the pass over few traces that an estimate chose; `None` after a search for which it was wrong.
    pub(crate) rare_traces: Recent<Option<RareTraces>>,
    /// By hash of the name of a trace index: it has unusable entries.
    pub(crate) unusable_entries: Recent<()>,
}

/// A pass over the traces of a rare predicate, whatever the value that it compares with.
#[derive(Debug, Clone)]
pub(crate) struct RareTraces {
    /// The predicates that select the traces, as indices of the search's required predicates.
    pub(crate) filters: Vec<usize>,
    /// Length of the window, in nanoseconds.
    pub(crate) window: i64,
    /// Number of wanted traces.
    pub(crate) wanted: usize,
    pub(crate) window_share: WindowShare,
}

/// Recent values by hash. Lengths are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Recent<T>(Mutex<HashMap<u64, (T, Instant)>>);

impl<T: Clone> Recent<T> {
    pub(crate) fn get(&self, hash: u64) -> Option<T> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash).filter(|(_, at)| at.elapsed() < FRESH_FOR).map(|(value, _)| value.clone())
    }

    pub(crate) fn insert(&self, hash: u64, value: T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < FRESH_FOR);
        known.insert(hash, (value, Instant::now()));
    }
}
