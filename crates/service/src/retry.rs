//! What a client can do after a failure.

/// Whether a request that failed may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It was refused, nothing changed, and the same request will be refused again.
    Never,
    /// Nothing changed, and the same request can succeed later.
    Safe,
    /// A change may have been made: read the resource before sending the request again.
    Unknown,
}

impl Retry {
    /// What follows from a stable code alone.
    pub fn of(code: &str) -> Self {
        match code {
            "internal" | "overloaded" | "query_memory" | "query_timeout" | "request_timeout"
            | "too_many_attempts" | "too_many_queries" | "trace_store_error" | "unavailable" => Self::Safe,
            _ => Self::Never,
        }
    }

    /// The same for a change that failed at an unknown point.
    #[must_use]
    pub fn after_unfinished_change(self) -> Self {
        if self == Self::Safe { Self::Unknown } else { self }
    }

    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Safe => "safe",
            Self::Unknown => "unknown",
        }
    }
}
