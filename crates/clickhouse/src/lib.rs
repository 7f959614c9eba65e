//! The only crate that talks to ClickHouse.
//!
//! No span leaves this crate without an [`AccessScope`](tracewarden_policy::AccessScope): [`ClickHouse::select`] and
//! [`ClickHouse::find`] take one, and the functions that read spans take what these two return. Values travel as
//! server-side parameters (`sql`), which is also the one place that quotes identifiers. `client/settings.rs` lists every
//! setting that is sent.

mod advice;
mod aggregate;
#[cfg(test)]
mod agreement;
mod catalogue;
mod clickhouse;
mod client;
#[cfg(test)]
mod fuzz;
mod inspect;
mod read;
mod schema;
mod search;
mod sql;

pub use clickhouse::ClickHouse;
pub use inspect::{EndpointInspection, Grant, PrivilegeKind, ProfileLimit, UserInspection};
pub use read::{MAX_SPANS_BYTES, MAX_SPANS_PER_ID, SpanChunk, SpanLine, SpanStream};

pub use advice::{DdlAdvice, DdlKind, DdlState, DdlSuggestion, ExistingAddition, Reads};
pub use aggregate::{
    Buckets, CollateralGrouping, CollateralQuery, CollateralValues, Comparison, CoveredTraces, Difference,
    FacetValue, FieldValues, Impact, ImpactRequest, MAX_FACET_VALUES, MAX_FIRST_SPANS, MAX_IMPACT_PREDICATES,
    MAX_PREDICATE_SETS, MAX_PREDICATES, MAX_VALUE_BYTES, MatchingSpans, NearestSpan, PolicyCoverage,
    PolicyCoverageRequest, SharedValue, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers, StatsOrder,
    StatsRequest, StatsUnit, TraceCounts, ValueCount, ValuesRequest,
};
pub use catalogue::{
    Catalogue, KeyColumnComparison, SYSTEM_DATABASE_REASON, SampledColumn, SampledKey, TableSummary,
    Unsuitability,
};
pub(crate) use client::Result;
pub use client::{ChangedField, ClickHouseConfig, ClickHouseError, Cost, SharedWork};
pub use read::{SpanIdentity, SpanSummary, Summary};
pub use schema::{
    Column, FieldLookupError, MapKey, PairedMap, PhysicalField, adoption_error, key_logical_types, members,
    paired_maps, physical_field,
};
pub use search::{
    Position, ProgressCallback, SearchProgress, SelectRequest, Selection, TableProperties, TraceOrder,
};
pub use sql::display_sql;
