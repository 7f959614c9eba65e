//! Tools: what the service does for a caller who reads traces, by the names that agents know. A key may be limited to
//! some of them, whichever way a request comes in: the transport says which tool a call amounts to.

/// Searching traces, in the audit log.
pub(crate) const TRACES_QUERY: &str = "traces.query";

/// Fetching one trace, in the audit log.
pub(crate) const TRACES_GET: &str = "traces.get";

/// Listing values of a field, in the audit log.
pub(crate) const TRACES_VALUES: &str = "traces.values";

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
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FilterSchema, Self::FieldValues, Self::QueryTraces, Self::GetTrace];

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
        }
    }

    /// As the audit log spells a read of traces by this tool; `None` when it reads none.
    pub const fn action(self) -> Option<&'static str> {
        match self {
            Self::FilterSchema => None,
            Self::FieldValues => Some(TRACES_VALUES),
            Self::QueryTraces => Some(TRACES_QUERY),
            Self::GetTrace => Some(TRACES_GET),
        }
    }
}
