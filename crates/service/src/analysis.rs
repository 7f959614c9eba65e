//! What changes of roles do: previews, collateral access, and the viewers of a trace.

mod collateral_access;
mod impact;
mod viewers;

pub use collateral_access::{CollateralAnswer, CollateralRequest};
pub use impact::{
    Analysis, CountedTraces, ImpactAnswer, PolicyPreview, PolicyPreviewRequest, SearchCosts, TraceChange,
    UserImpact,
};
pub(crate) use impact::{ImpactInput, ModelSide, timeout};
pub use viewers::{GrantingPolicy, PolicyFailure, Viewer, Viewers};
