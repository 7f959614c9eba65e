//! `/traces/stats`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::Timestamp;
use tracewarden_service::{
    FacetValue, Limit, SearchedAround, StatsBucket, StatsGroup, StatsNumbers, StatsOrder, StatsUnit,
    TraceStatsAnswer, TraceStatsRequest,
};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::filter_wire::{WireFilter, raw_filter};
use crate::problem::Problem;

/// Selects traces as `POST /traces/query` does, and says how to count them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatsQuery {
    /// Start of the window; 24 hours before `to` when absent.
    from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    to: Option<Timestamp>,
    /// The filter; absent or empty matches everything that the caller may see.
    filter: Option<WireFilter>,
    /// What is counted and measured.
    #[serde(default)]
    #[schema(required = false)]
    per: StatsUnit,
    /// Filterable fields of type string or string_array, as `ref` of the filter schema; at most two.
    #[serde(default)]
    #[schema(required = false, max_items = 2)]
    group_by: Vec<String>,
    /// Order of the groups.
    #[serde(default)]
    #[schema(required = false)]
    measure: StatsOrder,
    /// Maximum number of groups: 10 when absent, at most 100.
    #[schema(inline)]
    limit: Option<Limit>,
    /// Maximum number of buckets of time, 2 to 200; none when absent. They are of a usual width, such as 5 minutes, and begin at
    /// multiples of it in UTC.
    #[schema(inline)]
    buckets: Option<Limit>,
    /// Filterable fields of type string or string_array whose most frequent values are counted; at most 10.
    #[serde(default)]
    #[schema(required = false, max_items = 10)]
    facets: Vec<String>,
}

/// Statistics over all matching traces that the caller may read.
#[derive(Serialize, ToSchema)]
pub(crate) struct TraceStats {
    /// Start of the window.
    from: Timestamp,
    /// End of the window.
    to: Timestamp,
    /// Without a trace index: spans outside of this time were not read when traces were matched. Absent if no such bound applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    searched_around: Option<SearchedAround>,
    /// Whether all matching traces were counted; otherwise the newest million.
    complete: bool,
    /// Statistics of all of them.
    total: StatsNumbers,
    /// The first groups by `measure`; empty without `group_by`. A span without one of the fields is in none.
    groups: Vec<StatsGroup>,
    /// Number of all groups. Those with a value that no filter could use are never listed: longer than 1,024 bytes, or not UTF-8.
    distinct_groups: u64,
    /// The buckets in order of time; they cover the window. A span lies in the bucket of its timestamp, or in none if that is
    /// outside of the window; a trace in the bucket of its newest matching span in the window.
    buckets: Vec<StatsBucket>,
    /// The facets, in the order of the request.
    facets: Vec<Facet>,
}

/// The most frequent values of a field.
#[derive(Serialize, ToSchema)]
struct Facet {
    /// The field.
    #[serde(rename = "ref")]
    reference: String,
    /// The values in most traces, at most 20. A trace may have several values, so that the counts may sum to more than all.
    values: Vec<FacetValue>,
    /// Number of all values.
    distinct: u64,
}

impl TraceStats {
    fn new(answer: TraceStatsAnswer, facets: Vec<String>) -> Self {
        let TraceStatsAnswer { schema, window, stats, .. } = answer;
        let facets = facets.into_iter().zip(stats.facets);
        let facet = |(reference, facet): (String, tracewarden_service::StatsFacet)| Facet {
            reference,
            values: facet.values,
            distinct: facet.distinct,
        };
        Self {
            from: window.from(),
            to: window.to(),
            searched_around: schema.searched_around.map(SearchedAround::from),
            complete: stats.complete,
            total: stats.total,
            groups: stats.groups,
            distinct_groups: stats.distinct,
            buckets: stats.buckets,
            facets: facets.map(facet).collect(),
        }
    }
}

/// Counts and measures all matching traces that the caller may read, or their spans: in total, in groups, over time, and by the
/// values of fields. One statement in ClickHouse computes all of it. Counts are exact. Percentiles are computed from durations
/// rounded to eight significant binary digits: at most 0.79 % too small.
#[utoipa::path(post, path = "/traces/stats", tag = "traces", request_body = StatsQuery, responses(
    (status = 200, description = "The statistics", body = TraceStats),
    (status = 422, description = "A filter, window or field that is not allowed: `unknown_field`, `not_filterable`, \
        `operator_not_allowed`, `value_type`, `value_count`, `too_many_conditions`, `too_many_values`, `invalid_window`"),
    (status = 500, description = "`policy_broken`: a stored policy cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn count(
    State(app): State<App>,
    caller: Caller,
    Json(query): Json<StatsQuery>,
) -> Result<JsonResponse<TraceStats>, Problem> {
    let request = TraceStatsRequest {
        from: query.from,
        to: query.to,
        filter: raw_filter(query.filter)?,
        group_by: query.group_by,
        per: query.per,
        order: query.measure,
        limit: query.limit.map(|limit| limit.0),
        buckets: query.buckets.map(|limit| limit.0),
        facets: query.facets.clone(),
    };
    let answer = app.service.traces().trace_stats(&caller, request).await?;
    Ok(JsonResponse(TraceStats::new(answer, query.facets)))
}
