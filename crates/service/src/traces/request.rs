//! A query for traces, as sent.

use serde::Deserialize;
use tracewarden_clickhouse::TraceOrder;
use tracewarden_model::{Filter, RawCondition, Timestamp};
use utoipa::ToSchema;

/// Content of each trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// All spans, under `spans`.
    #[default]
    Spans,
    /// One object for each trace, under `traces`.
    Summary,
    /// The trace ids only, under `trace_ids`.
    Ids,
}

/// Query as sent.
#[derive(Debug, Clone, Default)]
pub struct QueryRequest {
    /// Start of the window; 24 hours before `to` when absent.
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    pub to: Option<Timestamp>,
    /// The filter.
    pub filter: Filter<RawCondition>,
    /// Which traces come first.
    pub order: TraceOrder,
    /// Maximum number of traces in a page, at least 1; capped.
    pub limit: Option<i64>,
    /// Cursor from the preceding page.
    pub cursor: Option<String>,
    /// Columns to return; all when absent.
    pub columns: Option<Vec<String>>,
    /// Content of the page.
    pub view: View,
}
