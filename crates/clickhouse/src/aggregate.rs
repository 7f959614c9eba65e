//! Counts and values over the traces that a caller may read.

mod codes;
mod impact;
mod matching_spans;
mod policy_coverage;
mod stats;
mod values;

#[cfg(test)]
pub(crate) use impact::SamplingPlan;
pub use impact::{
    CollateralGrouping, CollateralQuery, CollateralValues, Comparison, Difference, Impact, ImpactRequest,
    MAX_IMPACT_PREDICATES, MAX_PREDICATE_SETS, SharedValue,
};
pub use matching_spans::{MAX_FIRST_SPANS, MAX_PREDICATES, MatchingSpans, NearestSpan, TraceCounts};
pub use policy_coverage::{CoveredTraces, PolicyCoverage, PolicyCoverageRequest};
pub use stats::{
    Buckets, FacetValue, MAX_FACET_VALUES, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers,
    StatsOrder, StatsRequest, StatsUnit,
};
pub use values::{FieldValues, MAX_VALUE_BYTES, ValueCount, ValuesRequest};
