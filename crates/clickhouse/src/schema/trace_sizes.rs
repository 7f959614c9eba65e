//! Mean trace size per table, from pages read. It only chooses how many traces are read at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Maximum tables tracked.
const MAX_TABLES: usize = 4_096;

/// Spans and traces by table, exponentially decayed per page.
#[derive(Debug, Default)]
pub(crate) struct TraceSizes(Mutex<HashMap<String, (f64, f64)>>);

impl TraceSizes {
    /// Mean spans per trace; `None` before the first page.
    pub(crate) fn mean_spans_per_trace(&self, table: &str) -> Option<u64> {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        read.get(table).map(|(spans, traces)| (spans / traces.max(1.0)) as u64)
    }

    /// Records a page.
    pub(crate) fn record(&self, table: &str, spans: u64, traces: usize) {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= MAX_TABLES && !read.contains_key(table) {
            read.clear();
        }
        let known = read.entry(table.to_owned()).or_default();
        *known = (known.0 / 2.0 + spans as f64, known.1 / 2.0 + traces as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_many_traces_weigh_more_in_size_estimates() {
        let sizes = TraceSizes::default();
        assert_eq!(sizes.mean_spans_per_trace("1"), None);
        sizes.record("1", 2_000, 200);
        assert_eq!(sizes.mean_spans_per_trace("1"), Some(10));
        sizes.record("1", 1_000, 1);
        assert_eq!(sizes.mean_spans_per_trace("1"), Some(19));
        sizes.record("1", 200_000, 200);
        sizes.record("1", 200_000, 200);
        assert!(sizes.mean_spans_per_trace("1").is_some_and(|spans| spans > 800));
        assert_eq!(sizes.mean_spans_per_trace("2"), None);
    }
}
