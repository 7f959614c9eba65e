//! Counts, error rates and durations over all traces in a window that the caller may see, not over one page.

use futures::FutureExt as _;
use serde_json::{Value, json};
use tracewarden_clickhouse::{Buckets, Stats, StatsOrder, StatsRequest, StatsUnit};
use tracewarden_model::{FieldRef, Filter, LogicalType, MarkedField, RawCondition, Timestamp, Window};

use crate::core::{
    Limits, Outcome, PreparedRead, Principal, ServiceError, TRACES_STATS, filter_detail, query_input,
    with_members,
};
use crate::traces::field_values::listable_field;
use crate::traces::{SchemaEcho, Traces};

/// Maximum number of traces that are evaluated; of more, the newest. A decision about this many takes some hundred megabytes
/// in ClickHouse.
const MAX_TRACES: u32 = 1_000_000;
/// Maximum number of fields by which traces are grouped.
const MAX_FIELDS: usize = 2;
/// Default and maximum number of groups in an answer.
const DEFAULT_GROUPS: u32 = 10;
const MAX_GROUPS: u32 = 100;
/// Maximum number of buckets in an answer.
const MAX_BUCKETS: u32 = 200;
/// Maximum number of facets in an answer.
const MAX_FACETS: usize = 10;

/// Request for statistics.
#[derive(Debug, Clone)]
pub struct TraceStatsRequest {
    /// Start of the window; 24 hours before `to` when absent.
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    pub to: Option<Timestamp>,
    /// The filter.
    pub filter: Filter<RawCondition>,
    /// Fields to group by, as `GET /filter/schema` writes them; none, one or two.
    pub group_by: Vec<String>,
    /// Unit that is counted in each group.
    pub per: StatsUnit,
    /// Order of the groups.
    pub order: StatsOrder,
    /// Maximum number of groups in the answer, at least 1; capped.
    pub limit: Option<i64>,
    /// Maximum number of buckets of time, at least 1; capped. None when absent.
    pub buckets: Option<i64>,
    /// Fields whose most frequent values are counted.
    pub facets: Vec<String>,
}

/// Statistics of traces.
#[derive(Debug, Clone)]
pub struct TraceStatsAnswer {
    /// Binding under which the answer was made.
    pub schema: SchemaEcho,
    /// Time window.
    pub window: Window,
    /// Statistics over all traces and by group.
    pub stats: Stats,
    /// Types of the fields to group by.
    pub types: Vec<LogicalType>,
    /// Limits on the conditions of a filter and their values.
    pub limits: Limits,
    /// Name in filters of the column that contains the status of a span, if the caller may use it, and its values for errors.
    pub status: Option<(String, Vec<String>)>,
}

struct Plan {
    filter: Filter,
    window: Window,
    group: Vec<MarkedField>,
    limit: u32,
    buckets: Option<Buckets>,
    facets: Vec<MarkedField>,
    status: Option<(String, Vec<String>)>,
}

impl Traces {
    /// Counts and measures the matching traces that the caller may see.
    ///
    /// # Errors
    /// Those of [`Self::begin_query`], and for a field to group by those of [`Self::field_values`].
    pub async fn trace_stats(
        &self,
        principal: &Principal,
        request: TraceStatsRequest,
    ) -> Result<TraceStatsAnswer, ServiceError> {
        let prepare = || self.prepare_stats(principal, &request).boxed();
        let (access, plan, mut record) = self.core.begin_read(principal, TRACES_STATS, None, prepare).await?;
        record.set_query(&access, plan.window, &plan.filter);
        let stats_request = StatsRequest {
            binding: &access.binding,
            scope: &access.scope,
            filter: &plan.filter,
            window: plan.window,
            group: &plan.group,
            per: request.per,
            order: request.order,
            limit: plan.limit,
            max_traces: MAX_TRACES,
            buckets: plan.buckets,
            facets: &plan.facets,
        };
        let stats = record.check(access.store.stats(stats_request).await).await?;
        (record.returned.traces, record.returned.spans) = (stats.total.traces, stats.total.spans);
        // The answer is sent in one piece, so the completing record can also precede the first byte.
        record.complete(Outcome::Success, None).await?;
        let types = plan.group.iter().map(|field| field.logical).collect();
        let limits = self.core.settings.limits;
        let (window, status) = (plan.window, plan.status);
        let schema = SchemaEcho { searched_around: access.searched_around(window), ..access.echo() };
        Ok(TraceStatsAnswer { schema, window, stats, types, limits, status })
    }

    async fn prepare_stats(
        &self,
        principal: &Principal,
        request: &TraceStatsRequest,
    ) -> Result<PreparedRead<Plan>, ServiceError> {
        let limits = self.core.settings.limits;
        let limit = query_input::limit(request.limit, DEFAULT_GROUPS, MAX_GROUPS)?;
        let window = query_input::first_window(request.from, request.to, self.core.now())?;
        let buckets = query_input::capped_count("buckets", request.buckets, MAX_BUCKETS)?;
        let buckets = buckets.map(|most| Buckets::covering(window, most));
        let access = self.core.access(principal).await?;
        let authority = access.authority.as_ref();
        let (model, admin) = (&authority.model, authority.principal.is_admin());
        let filter = query_input::filter(&request.filter, model, admin, &limits)?;
        let fields = |member: &str, references: &[String], most: usize| {
            if references.len() > most {
                let detail = format!("at most {most} fields in `{member}`");
                return Err(ServiceError::refused(format!("/{member}"), "too_many_values", detail));
            }
            let fields = references.iter().enumerate().map(|(at, reference)| {
                listable_field(&format!("/{member}/{at}"), reference, model, admin).cloned()
            });
            fields.collect::<Result<Vec<_>, _>>()
        };
        let group = fields("group_by", &request.group_by, MAX_FIELDS)?;
        let facets = fields("facets", &request.facets, MAX_FACETS)?;
        let display = &access.binding.display;
        let status = display.status.as_deref().and_then(|name| {
            let marked = model.field(&FieldRef::column(name))?;
            let is_usable = marked.filterable && marked.logical == LogicalType::String;
            is_usable.then(|| (marked.field.to_string(), display.statuses_of_errors()))
        });
        let detail = access.detail([
            ("filter", filter_detail(&request.filter)),
            ("group_by", json!(request.group_by)),
            ("from", json!(window.from().to_string())),
            ("to", json!(window.to().to_string())),
        ]);
        let facet_names = (!request.facets.is_empty()).then(|| json!(request.facets));
        let detail =
            with_members(detail, [("buckets", request.buckets.map(Value::from)), ("facets", facet_names)]);
        Ok(PreparedRead {
            access,
            plan: Plan { filter, window, group, limit, buckets, facets, status },
            detail,
        })
    }
}
