//! Tools: what the service does for a caller who reads traces, by the names that agents know. A key may be limited to
//! some of them, whichever way a request comes in: the transport says which tool a call amounts to.

/// Searching traces, in the audit log.
pub(crate) const TRACES_QUERY: &str = "traces.query";

/// Fetching one trace, in the audit log.
pub(crate) const TRACES_GET: &str = "traces.get";

/// Listing values of a field, in the audit log.
pub(crate) const TRACES_VALUES: &str = "traces.values";

/// Counting and measuring traces, in the audit log.
pub(crate) const TRACES_STATS: &str = "traces.stats";

/// Explaining who sees one trace and why, in the audit log.
pub(crate) const TRACES_EXPLAIN: &str = "traces.explain";

/// Listing the fields of filters, in the audit log: of interest where an agent does it.
const FILTER_SCHEMA: &str = "filter.schema";

/// A call of a tool that there is not, or one that could not be read.
const UNKNOWN_TOOL: &str = "tools.call";

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Listing the fields that filters may name.
    FilterSchema,
    /// Listing the values that a field has.
    FieldValues,
    /// Searching traces.
    QueryTraces,
    /// Fetching one trace by its id.
    GetTrace,
    /// Fetching some spans of one trace.
    GetSpans,
    /// What the duration of one trace was made of.
    CriticalPath,
    /// How two traces differ.
    CompareTraces,
    /// Counting and measuring traces.
    TraceStats,
    /// Saying what one's own access is made of, and why one trace is open.
    ExplainAccess,
}

impl Tool {
    /// All of them.
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

    /// The tool of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The name, which never changes its meaning: keys are stored with it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FilterSchema => "svc_filter_schema",
            Self::FieldValues => "svc_field_values",
            Self::QueryTraces => "svc_query_traces",
            Self::GetTrace => "svc_get_trace",
            Self::GetSpans => "svc_get_spans",
            Self::CriticalPath => "svc_critical_path",
            Self::CompareTraces => "svc_compare_traces",
            Self::TraceStats => "svc_trace_stats",
            Self::ExplainAccess => "svc_explain_access",
        }
    }

    /// As the audit log spells a read of traces by this tool; `None` when it reads none.
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

    /// As the audit log spells a call that is no read of traces; `None` for a tool that there is not.
    pub(crate) fn call_action(tool: Option<Self>) -> &'static str {
        match tool {
            None => UNKNOWN_TOOL,
            Some(tool) => tool.action().unwrap_or(FILTER_SCHEMA),
        }
    }
}
