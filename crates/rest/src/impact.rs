//! `/policies/preview`.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_model::Window;
use tracewarden_service::{
    Among, Cost, ImpactAnswer, Policy, PolicyPreview, PolicyPreviewRequest, SearchCosts, TraceChange,
    UserImpact,
};
use utoipa::ToSchema;

use crate::App;
use crate::body::{Json, present};
use crate::limit::Limit;
use crate::overshare::WireOvershare;
use crate::problem::Problem;
use crate::roles::WirePolicy;
use crate::routes::Caller;
use crate::wire::Time;

/// A role as it would be, and which traces to look at.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewPoliciesRequest {
    /// The role; it need not exist yet.
    #[schema(examples("payments"))]
    role: String,
    /// Its policies afterwards; null for the role deleted.
    #[schema(required = true)]
    #[serde(deserialize_with = "Option::deserialize")]
    policies: Option<Vec<WirePolicy>>,
    /// Start of the window; 24 hours before `to` when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    from: Option<Time>,
    /// End of the window, which does not belong to it; now when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    to: Option<Time>,
    /// Longest that it may take, in seconds; where that is too short to look at all traces, a sample is looked at.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<i64>, nullable = false, minimum = 1, maximum = 60, default = 10)]
    seconds: Option<Limit>,
    /// By what over-sharing is counted: a marked field of text or a display column; services when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, examples("ServiceName"))]
    by: Option<String>,
}

/// Which traces were counted.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Among)]
pub(crate) enum WireAmong {
    /// All in the window.
    All,
    /// Those that the caller may read: the setting `discovery_samples` is off.
    Readable,
}

impl From<Among> for WireAmong {
    fn from(among: Among) -> Self {
        match among {
            Among::All => Self::All,
            Among::Readable => Self::Readable,
        }
    }
}

/// What the trace store read for it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
pub(crate) struct WireCost {
    /// Rows.
    rows: u64,
    /// Bytes, as they are in memory.
    bytes: u64,
    /// For how long it worked, in milliseconds.
    milliseconds: u64,
}

impl From<Cost> for WireCost {
    fn from(Cost { rows, bytes, elapsed }: Cost) -> Self {
        let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Self { rows, bytes, milliseconds }
    }
}

/// Which traces were counted, and how far the counts can be relied on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Counted)]
pub(crate) struct WireCounted {
    /// Start of the window.
    from: Time,
    /// End of the window.
    to: Time,
    /// Which traces were counted.
    among: WireAmong,
    /// Whether only a sample was looked at, for lack of time; then the counts of traces are estimates for the whole window,
    /// and those of values are what the sample has.
    sampled: bool,
    /// The share of the traces that was read; 1 when the counts are exact.
    fraction: f64,
    /// What it took.
    cost: WireCost,
    /// What was left out, and why, for people.
    notes: Vec<String>,
}

impl WireCounted {
    pub(crate) fn new(window: Window, among: Among, fraction: f64, cost: Cost, notes: Vec<String>) -> Self {
        let (from, to) = (window.from().into(), window.to().into());
        Self { from, to, among: among.into(), sampled: fraction < 1.0, fraction, cost: cost.into(), notes }
    }
}

/// Traces that come and go.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TraceChange)]
pub(crate) struct WireTraceChange {
    /// Visible after and not before.
    gained: u64,
    /// Visible before and not after.
    lost: u64,
    /// Visible before and after.
    unchanged: u64,
    /// Some gained traces that the caller may read, at most 10, newest first.
    gained_ids: Vec<String>,
    /// Some lost ones, likewise.
    lost_ids: Vec<String>,
}

impl From<TraceChange> for WireTraceChange {
    fn from(change: TraceChange) -> Self {
        let TraceChange { gained, lost, unchanged, gained_ids, lost_ids } = change;
        Self { gained, lost, unchanged, gained_ids, lost_ids }
    }
}

/// What changes for one user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UserImpact)]
pub(crate) struct WireUserImpact {
    /// User name.
    username: String,
    /// By all their roles together.
    #[serde(flatten)]
    change: WireTraceChange,
}

impl From<UserImpact> for WireUserImpact {
    fn from(UserImpact { username, change }: UserImpact) -> Self {
        Self { username, change: change.into() }
    }
}

/// What a change of roles does to who sees which traces.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Impact)]
pub(crate) struct WireImpact {
    /// Which traces were counted.
    #[serde(flatten)]
    counted: WireCounted,
    /// By the role alone, for any of the members who were looked at; when nobody has it, for somebody with this role alone
    /// and no attributes. Null when no role was asked about.
    #[schema(required = true)]
    traces: Option<WireTraceChange>,
    /// Users who have the role and are not disabled; otherwise all whose roles change.
    members: u64,
    /// Those who were looked at.
    members_compared: u64,
    /// Those whose access changes first, those who lose something before others; at most 200.
    users: Vec<WireUserImpact>,
}

impl From<ImpactAnswer> for WireImpact {
    fn from(impact: ImpactAnswer) -> Self {
        let ImpactAnswer { window, among, fraction, traces, members, members_compared, users, cost, notes } =
            impact;
        Self {
            counted: WireCounted::new(window, among, fraction, cost, notes),
            traces: traces.map(WireTraceChange::from),
            members,
            members_compared,
            users: users.into_iter().map(WireUserImpact::from).collect(),
        }
    }
}

/// What the first page of a search costs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchCosts)]
pub(crate) struct WireSearchCosts {
    /// Before; null when it was not tried, or took too long.
    #[schema(required = true)]
    before: Option<WireCost>,
    /// After, likewise.
    #[schema(required = true)]
    after: Option<WireCost>,
}

impl From<SearchCosts> for WireSearchCosts {
    fn from(SearchCosts { before, after }: SearchCosts) -> Self {
        Self { before: before.map(WireCost::from), after: after.map(WireCost::from) }
    }
}

/// What a role would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyPreview)]
pub(crate) struct WirePreview {
    /// The role.
    role: String,
    /// What comes and goes.
    #[serde(flatten)]
    impact: WireImpact,
    /// What the policies let see besides what they name. Where one statement counted it together with what comes and goes, the
    /// cost of that is told in both. Null for a role that is deleted, or where it could not be told.
    #[schema(required = true)]
    overshare: Option<WireOvershare>,
    /// What the first page of a search of all traces in the window's last 24 hours costs the first member.
    search: WireSearchCosts,
}

impl From<PolicyPreview> for WirePreview {
    fn from(preview: PolicyPreview) -> Self {
        let PolicyPreview { role, impact, overshare, search } = preview;
        let overshare = overshare.map(WireOvershare::from);
        Self { role, impact: impact.into(), overshare, search: search.into() }
    }
}

impl From<PreviewPoliciesRequest> for PolicyPreviewRequest {
    fn from(request: PreviewPoliciesRequest) -> Self {
        let PreviewPoliciesRequest { role, policies, from, to, seconds, by } = request;
        let policies = policies.map(|policies| policies.into_iter().map(Policy::from).collect());
        let (from, to) = (from.map(|time| time.0), to.map(|time| time.0));
        let seconds = seconds.map(|seconds| seconds.0);
        Self { role, policies, from, to, seconds, by }
    }
}

/// What a role would open and close if it were stored like this, or deleted: traces gained, lost and unchanged, by the role
/// alone and for each member by all their roles together. Stores nothing.
///
/// The counts are the differences between two searches, before and after. They are about traces that the caller may not read,
/// too, and stand in the audit log; ids are only of traces that the caller may read.
#[utoipa::path(post, path = "/policies/preview", tag = "roles", request_body = PreviewPoliciesRequest, responses(
    (status = 200, description = "What would change", body = WirePreview),
    (status = 404, description = "`not_found`: no such role to delete"),
    (status = 409, description = "`conflict`: the role `admin` cannot be deleted, or the name of another role differs from this one only by case; `not_bound`: no table is bound as trace source; `schema_changed`: a field that decides is of another type now"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 429, description = "`too_many_queries`: as many queries of the user run as may run at a time"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: there was no time even for a sample, or the query ran into another limit; `detail` says what to do"),
))]
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<PreviewPoliciesRequest>,
) -> Result<Answer<WirePreview>, Problem> {
    let admin = caller.require_admin()?;
    Ok(Answer(app.service.preview_policies(&admin, request.into()).await?.into()))
}
