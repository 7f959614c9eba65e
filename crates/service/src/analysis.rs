//! What changes of roles do: previews, collateral access, and the viewers of a trace.

mod change;
mod collateral_access;
mod counted_traces;
mod estimate;
mod failure;
mod hash;
mod impact;
mod request;
mod subjects;
mod viewers;

use std::sync::Arc;

use crate::core::Core;

pub(crate) use change::ModelSide;
pub use collateral_access::{CollateralAnswer, CollateralRequest};
pub use counted_traces::CountedTraces;
pub(crate) use impact::ImpactInput;
pub use impact::{ImpactAnswer, PolicyPreview, PolicyPreviewRequest, SearchCosts, TraceChange, UserImpact};
pub(crate) use request::timeout;
pub use viewers::{GrantingPolicy, PolicyFailure, Viewer, Viewers};

/// What changes of roles and policies do.
#[derive(Clone)]
pub struct Analysis {
    pub(crate) core: Arc<Core>,
}

impl Analysis {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}
