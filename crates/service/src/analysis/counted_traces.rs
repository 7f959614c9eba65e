//! The set of traces that an administrator may count.

use crate::analysis::Analysis;

/// The set of traces that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedTraces {
    /// All traces of the window.
    All,
    /// Only traces that the caller may read, because the operator has disabled counts of others.
    Readable,
}

impl CountedTraces {
    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Readable => "readable",
        }
    }
}

impl Analysis {
    /// Returns the set of traces that administrators may count.
    pub(crate) fn counted_traces(&self) -> CountedTraces {
        if self.core.settings.discovery_samples { CountedTraces::All } else { CountedTraces::Readable }
    }
}
