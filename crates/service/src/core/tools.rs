//! Tools: the service's functions for reading traces, under the names that agents use. An API key may be limited to some of
//! them, for every interface: the transport maps each call to a tool.

// Actions in the audit log.
pub(crate) const TRACES_QUERY: &str = "traces.query";
pub(crate) const TRACES_GET: &str = "traces.get";
pub(crate) const TRACES_VALUES: &str = "traces.values";
pub(crate) const TRACES_STATS: &str = "traces.stats";
pub(crate) const TRACES_EXPLAIN: &str = "traces.explain";
/// Listing of the filter fields; recorded only for agents.
const FILTER_SCHEMA: &str = "filter.schema";
/// Call of an unknown tool, or one that could not be parsed.
const UNKNOWN_TOOL: &str = "tools.call";

/// A tool for agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", prefix = "svc_")]
pub enum Tool {
    /// Lists the fields that filters may use.
    FilterSchema,
    /// Lists the values of a field.
    FieldValues,
    /// Searches traces.
    QueryTraces,
    /// Fetches one trace by its id.
    GetTrace,
    /// Fetches some spans of one trace.
    GetSpans,
    /// Computes the critical path of one trace.
    CriticalPath,
    /// Compares two traces.
    CompareTraces,
    /// Counts and measures traces.
    TraceStats,
    /// Describes the caller's own access, and explains why one trace is visible.
    ExplainAccess,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 9] = [
        Self::FilterSchema,
        Self::FieldValues,
        Self::TraceStats,
        Self::QueryTraces,
        Self::GetTrace,
        Self::GetSpans,
        Self::CriticalPath,
        Self::CompareTraces,
        Self::ExplainAccess,
    ];

    /// Returns the tool of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Name of the tool, which never changes its meaning: keys are stored with it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Action in the audit log for a read of traces by this tool; `None` if it reads none.
    pub const fn action(self) -> Option<&'static str> {
        match self {
            Self::FilterSchema => None,
            Self::FieldValues => Some(TRACES_VALUES),
            Self::QueryTraces => Some(TRACES_QUERY),
            Self::GetTrace | Self::GetSpans | Self::CriticalPath | Self::CompareTraces => Some(TRACES_GET),
            Self::TraceStats => Some(TRACES_STATS),
            Self::ExplainAccess => Some(TRACES_EXPLAIN),
        }
    }

    /// Action in the audit log for a call that reads no traces; `None` stands for an unknown tool.
    pub(crate) fn call_action(tool: Option<Self>) -> &'static str {
        match tool {
            None => UNKNOWN_TOOL,
            Some(tool) => tool.action().unwrap_or(FILTER_SCHEMA),
        }
    }
}
