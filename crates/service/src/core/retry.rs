//! Advice to clients on retries.

use serde::Serialize;
use utoipa::ToSchema;

/// Whether the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The request was rejected and nothing changed; the same request will be rejected again.
    Never,
    /// Nothing changed; the same request can succeed later, after `Retry-After` if that header is present.
    Safe,
    /// A change may have been made; read the resource before sending the request again.
    Unknown,
}

impl Retry {
    /// Returns the advice that follows from an error code alone.
    pub fn from_code(code: &str) -> Self {
        match code {
            "clickhouse_error" | "identity_provider" | "internal" | "overloaded" | "query_memory"
            | "query_timeout" | "request_timeout" | "too_many_attempts" | "too_many_queries"
            | "unavailable" => Self::Safe,
            _ => Self::Never,
        }
    }

    /// Returns the advice for a change that failed at an unknown point.
    #[must_use]
    pub fn after_unfinished_change(self) -> Self {
        if self == Self::Safe { Self::Unknown } else { self }
    }
}
