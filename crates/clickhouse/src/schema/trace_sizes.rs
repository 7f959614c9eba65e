//! Mean trace size of the bound table, from pages read. It only chooses how many traces are read at once.

use std::sync::{Mutex, PoisonError};

/// The table, and its spans and traces, exponentially decayed per page. One suffices: there is one access model, and it binds
/// one table.
#[derive(Debug, Default)]
pub(crate) struct TraceSizes(Mutex<(String, f64, f64)>);

impl TraceSizes {
    /// Mean spans per trace; `None` before the first page.
    pub(crate) fn mean_spans_per_trace(&self, table: &str) -> Option<u64> {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (read.0 == table).then(|| (read.1 / read.2.max(1.0)) as u64)
    }

    /// Records a page.
    pub(crate) fn record(&self, table: &str, spans: u64, traces: usize) {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if read.0 != table {
            *read = (table.to_owned(), 0.0, 0.0);
        }
        (read.1, read.2) = (read.1 / 2.0 + spans as f64, read.2 / 2.0 + traces as f64);
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
