//! Progress of a running search.

use std::sync::Arc;

use tracewarden_model::Timestamp;

/// How far a search has come. It holds only facts that the caller could know anyway: except for the run time of the search,
/// nothing in it depends on traces outside the access scope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchProgress {
    /// Everything from here to the end of the window has been searched.
    pub searched_to: Timestamp,
    /// Traces of the page found so far; never more than the page will hold.
    pub traces: u32,
    /// Fraction of the work that is done, from 0 to 1; `None` where it is unknown.
    pub fraction: Option<f64>,
}

/// Callback for progress. The search calls it: it must return at once, and may drop reports that its receiver cannot take in
/// time.
pub type ProgressCallback = Arc<dyn Fn(SearchProgress) + Send + Sync>;
