//! Requests for statistics.

use tracewarden_model::{Binding, Filter, MarkedField, Window};
use tracewarden_policy::AccessScope;

/// Unit of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsUnit {
    /// Spans: each in the groups of its own values.
    Span,
    /// Traces: each in every group that any of its spans is in.
    Trace,
}

/// Order of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsOrder {
    /// Groups with the most spans or traces first.
    Count,
    /// Groups with the most errors first.
    Errors,
    /// Groups with the largest share of errors first.
    ErrorRate,
    /// Groups with the largest 95th percentile of the duration first.
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
    /// Maximum number of traces, the newest first; at least 1.
    pub max_traces: u32,
}
