//! What a search that is under way has seen so far.

use std::sync::Arc;

use tracewarden_model::Timestamp;

/// How far a search has come. It tells what the caller could know anyway: nothing in it depends on traces that the
/// scope does not open, but for how long the search takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchProgress {
    /// Everything from here to the window's end has been looked at.
    pub searched_to: Timestamp,
    /// Traces of the page found so far; never more than the page will hold.
    pub traces: u32,
    /// How much of the work is done, from 0 to 1; `None` where nobody knows.
    pub fraction: Option<f64>,
}

/// Whom to tell. Called from within the search: it must return at once, and may drop what nobody can take in time.
pub type OnProgress = Arc<dyn Fn(SearchProgress) + Send + Sync>;
