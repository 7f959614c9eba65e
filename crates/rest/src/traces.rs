//! `/traces`.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use tracewarden_model::Timestamp;
use tracewarden_service::{Limit, QueryRequest, TraceOrder, View};
use utoipa::{IntoParams, ToSchema};

use crate::accept::Representation;
use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::filter_wire::{WireFilter, raw_filter};
use crate::page::{self, Page, SpanPage, TraceSpans};
use crate::problem::Problem;
use crate::progress;
use crate::query::{Path, Query};

/// Selects traces and the form of the response.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceQuery {
    /// Start of the window; 24 hours before `to` when absent.
    from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    to: Option<Timestamp>,
    /// The filter; absent or empty matches everything that the caller may see.
    filter: Option<WireFilter>,
    /// Order of all matching traces. Orders other than `newest` read the spans of every one: those within its bounds in the trace index,
    /// or without an entry within `max_trace_duration` around the window.
    #[serde(default)]
    #[schema(required = false)]
    order: TraceOrder,
    /// Maximum number of traces in the page: 50 when absent, at most 200.
    #[schema(inline)]
    limit: Option<Limit>,
    /// `next_cursor` of the previous page, with the same filter and order.
    cursor: Option<String>,
    /// Columns of the spans in addition to the structural ones; all when absent.
    columns: Option<Vec<String>>,
    /// Content of each trace.
    #[serde(default)]
    #[schema(required = false)]
    view: View,
}

impl TraceQuery {
    fn into_request(self) -> Result<QueryRequest, Problem> {
        let Self { from, to, filter, order, limit, cursor, columns, view } = self;
        let (filter, limit) = (raw_filter(filter)?, limit.map(|limit| limit.0));
        Ok(QueryRequest { from, to, filter, order, limit, cursor, columns, view })
    }
}

/// Returns a page of the matching traces that the caller may read, newest first unless `order` says otherwise, each of them whole.
///
/// The page is complete if and only if the document is closed; if ClickHouse fails midway, the connection is aborted. With
/// `Accept: application/x-ndjson` the page is sent as NDJSON: `{"schema": …}`, while the search runs
/// `{"progress": {"searched_to", "from", "to", "traces", "fraction"?}}`, one `{"span": …}` per line, and last
/// `{"end": {"next_cursor": …, "traces": n, "spans": n}}`. Such a response may begin before the search has ended. If an error
/// occurs after that, the last line is `{"error": …}` with the problem, and then the connection is aborted.
#[utoipa::path(post, path = "/traces/query", tag = "traces", request_body = TraceQuery, responses(
    (status = 200, description = "The page", content((SpanPage = "application/json"), (String = "application/x-ndjson"))),
    (status = 400, description = "`invalid_cursor`, `cursor_filter_mismatch`: a cursor that does not fit"),
    (status = 422, description = "A filter, window or column that is not allowed: `unknown_field`, `not_filterable`, \
        `operator_not_allowed`, `value_type`, `value_count`, `too_many_conditions`, `too_many_values`, `invalid_window`"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn query(
    State(app): State<App>,
    caller: Caller,
    Extension(representation): Extension<Representation>,
    Json(query): Json<TraceQuery>,
) -> Result<Response, Problem> {
    let begun = app.service.traces().begin_query(&caller, query.into_request()?).await?;
    let info = caller.request_info();
    match representation {
        Representation::Ndjson => progress::ndjson_response(begun, info).await,
        Representation::Json | Representation::Yaml => {
            let page = Page::await_first_row(begun.run(None).await?.0).await?;
            Ok(page::respond(page.json(), representation, info))
        }
    }
}

/// Hints from clients. They never change the response.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Hints {
    /// Earliest possible start of the trace.
    #[param(inline)]
    #[serde(rename = "from")]
    _from: Option<Timestamp>,
    /// Time before which the trace began.
    #[param(inline)]
    #[serde(rename = "to")]
    _to: Option<Timestamp>,
}

/// Returns one trace, if the caller may read it. Absent and unauthorised traces give the same response.
#[utoipa::path(get, path = "/traces/{id}", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`"), Hints), responses(
    (status = 200, description = "The trace", body = TraceSpans),
    (status = 404, description = "`trace_not_found`: no such trace that the caller may read"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(_): Query<Hints>,
) -> Result<Response, Problem> {
    let answer = app.service.traces().trace(&caller, &id).await?;
    page::trace(answer, caller.request_info()).await
}
