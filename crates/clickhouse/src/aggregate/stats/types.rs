//! Requests for statistics, and their results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracewarden_model::{Binding, Filter, MarkedField, Timestamp, Window};
use tracewarden_policy::AccessScope;
use utoipa::ToSchema;

use super::buckets::Buckets;

/// Maximum number of values of a facet in an answer.
pub const MAX_FACET_VALUES: usize = 20;

/// Unit of the statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatsUnit {
    /// Spans, with their own durations. A group contains the spans with its value.
    #[default]
    Span,
    /// Traces, with their whole durations. A trace counts in each group that contains any of its spans.
    Trace,
}

/// Order of the groups, descending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatsOrder {
    /// Number of spans or traces.
    #[default]
    Count,
    /// Number of errors.
    Errors,
    /// Share of errors.
    ErrorRate,
    /// 95th percentile of the duration.
    Duration,
}

/// A request for statistics.
#[derive(Clone, Copy)]
pub struct StatsRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// The caller's access.
    pub scope: &'a AccessScope,
    /// The caller's filter.
    pub filter: &'a Filter,
    /// Time range.
    pub window: Window,
    /// Fields to group by, of type string or string_array: none, one or two.
    pub group: &'a [MarkedField],
    /// Unit of the counts.
    pub per: StatsUnit,
    /// Order of groups.
    pub order: StatsOrder,
    /// Maximum number of groups.
    pub limit: u32,
    /// Buckets of time. A span lies in the bucket of its timestamp, if that is in the window; a trace in the bucket of the
    /// time that orders pages: its newest matching span in the window.
    pub buckets: Option<Buckets>,
    /// Fields whose most frequent values are counted, of type string or string_array; at most 100.
    pub facets: &'a [MarkedField],
    /// Maximum number of traces, the newest first; at least 1.
    pub max_traces: u32,
}

/// Statistics of some spans or traces.
#[serde_with::apply(Option => #[schema(nullable = false)])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct StatsNumbers {
    /// Number of distinct traces.
    pub traces: u64,
    /// Number of spans; per trace, of all spans of those traces.
    pub spans: u64,
    /// Number of spans whose status is an error; per trace, of traces with such a span. `None` without a status column.
    pub errors: Option<u64>,
    /// Median duration in nanoseconds: of spans; per trace, from the earliest start to the latest end of its spans. Absent
    /// without a duration column, and without spans.
    ///
    /// Percentiles are computed from durations rounded to eight significant binary digits: they are up to 0.79 % too small,
    /// however many durations there are, and are reproducible.
    pub p50_nanos: Option<i64>,
    /// 95th percentile.
    pub p95_nanos: Option<i64>,
    /// 99th percentile.
    pub p99_nanos: Option<i64>,
    /// Maximum, exact.
    pub max_nanos: Option<i64>,
    /// Whether a duration is invalid, such as one that wrapped around below zero: it counts as 0.
    pub duration_invalid: bool,
}

/// Statistics of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StatsGroup {
    /// The value of each field, in the order of the request.
    pub values: Vec<String>,
    /// Its statistics.
    #[serde(flatten)]
    pub numbers: StatsNumbers,
}

/// Statistics of a bucket of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StatsBucket {
    /// Start.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// End, exclusive.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    /// Its statistics.
    #[serde(flatten)]
    pub numbers: StatsNumbers,
}

/// The most frequent values of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatsFacet {
    /// Sorted by number of traces, descending, then by value; at most [`MAX_FACET_VALUES`].
    pub values: Vec<FacetValue>,
    /// Number of distinct values, listed or not; see [`Stats::distinct`].
    pub distinct: u64,
}

/// A value of a facet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FacetValue {
    /// The value, or an element of an array.
    pub value: String,
    /// Number of traces with a span that has this value.
    pub traces: u64,
}

/// Statistics of traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Statistics of all traces, whatever groups they are in.
    pub total: StatsNumbers,
    /// The first groups.
    pub groups: Vec<StatsGroup>,
    /// The buckets that were asked for, also those without spans, in the order of time.
    pub buckets: Vec<StatsBucket>,
    /// The facets in the order of the request.
    pub facets: Vec<StatsFacet>,
    /// Number of distinct groups, listed or not. Groups with a value that no filter could use are never listed: longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES), or not UTF-8.
    pub distinct: u64,
    /// Whether every matching trace was counted; otherwise only the newest `max_traces`.
    pub complete: bool,
}
