//! `/policies/preview`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{
    ImpactAnswer, Policy, PolicyPreview, PolicyPreviewRequest, SearchCosts, TraceChange, UserImpact,
};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{Json, present};
use crate::collateral_access::WireCollateral;
use crate::count_wire::{WireCost, WireCounted};
use crate::extractors::Caller;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::roles::WirePolicy;
use crate::wire::Time;

/// The new state of a role, and the traces to evaluate.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewPoliciesRequest {
    /// Name of the role; it need not exist yet.
    #[schema(examples("payments"))]
    role: String,
    /// The new policies of the role; null to delete the role.
    #[schema(required = true)]
    #[serde(deserialize_with = "Option::deserialize")]
    policies: Option<Vec<WirePolicy>>,
    /// Start of the window; 24 hours before `to` when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    from: Option<Time>,
    /// End of the window, exclusive; now when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    to: Option<Time>,
    /// Time limit in seconds. If it is too short to evaluate all traces, a sample is evaluated.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<i64>, nullable = false, minimum = 1, maximum = 60, default = 10)]
    seconds: Option<Limit>,
    /// Field by whose values collateral access is counted: a marked field of type string or string_array, or a display column;
    /// the service column when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, examples("ServiceName"))]
    by: Option<String>,
}

/// Traces that become visible or invisible.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TraceChange)]
pub(crate) struct WireTraceChange {
    /// Number of traces visible after the change but not before.
    gained: u64,
    /// Number of traces visible before the change but not after.
    lost: u64,
    /// Number of traces visible before and after the change.
    unchanged: u64,
    /// Ids of gained traces that the caller may read, at most 10, newest first.
    gained_ids: Vec<String>,
    /// Ids of lost traces that the caller may read, at most 10, newest first.
    lost_ids: Vec<String>,
}

impl From<TraceChange> for WireTraceChange {
    fn from(change: TraceChange) -> Self {
        let TraceChange { gained, lost, unchanged, gained_ids, lost_ids } = change;
        Self { gained, lost, unchanged, gained_ids, lost_ids }
    }
}

/// The changes for one user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UserImpact)]
pub(crate) struct WireUserImpact {
    /// User name.
    username: String,
    /// The changes in the access that all roles of the user grant together.
    #[serde(flatten)]
    change: WireTraceChange,
}

impl From<UserImpact> for WireUserImpact {
    fn from(UserImpact { username, change }: UserImpact) -> Self {
        Self { username, change: change.into() }
    }
}

/// The effect of a change of roles on the traces that users can see.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Impact)]
pub(crate) struct WireImpact {
    /// The traces that were counted.
    #[serde(flatten)]
    counted: WireCounted,
    /// The changes in the access that the role in isolation grants to any of the evaluated members. If the role has no members,
    /// those for a hypothetical user with only this role and no attributes. Null when the request is not about a single role.
    #[schema(required = true)]
    traces: Option<WireTraceChange>,
    /// Number of users who have the role and are not disabled; if the request is not about a single role, number of all users
    /// whose roles change.
    members: u64,
    /// Number of these users who were evaluated.
    members_compared: u64,
    /// Users whose access changes first, those who lose access before others; at most 200.
    users: Vec<WireUserImpact>,
}

impl From<ImpactAnswer> for WireImpact {
    fn from(impact: ImpactAnswer) -> Self {
        let ImpactAnswer {
            window,
            counted_traces,
            fraction,
            traces,
            members,
            members_compared,
            users,
            cost,
            notes,
        } = impact;
        Self {
            counted: WireCounted::new(window, counted_traces, fraction, cost, notes),
            traces: traces.map(WireTraceChange::from),
            members,
            members_compared,
            users: users.into_iter().map(WireUserImpact::from).collect(),
        }
    }
}

/// Cost of the first page of a search.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchCosts)]
pub(crate) struct WireSearchCosts {
    /// Cost before the change; null when the search was not run or took too long.
    #[schema(required = true)]
    before: Option<WireCost>,
    /// Cost after the change; null when the search was not run or took too long.
    #[schema(required = true)]
    after: Option<WireCost>,
}

impl From<SearchCosts> for WireSearchCosts {
    fn from(SearchCosts { before, after }: SearchCosts) -> Self {
        Self { before: before.map(WireCost::from), after: after.map(WireCost::from) }
    }
}

/// The effect of a changed role.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyPreview)]
pub(crate) struct WirePreview {
    /// Name of the role.
    role: String,
    /// The traces gained and lost.
    #[serde(flatten)]
    impact: WireImpact,
    /// Collateral access: values that the policies make visible without naming them. If one statement counted these together with
    /// the traces gained and lost, both parts report the cost of that statement. Null for a role that is deleted, or if the
    /// values could not be determined.
    #[schema(required = true)]
    collateral_access: Option<WireCollateral>,
    /// Cost for the first member of the first page of a search of all traces in the window's last 24 hours.
    search: WireSearchCosts,
}

impl From<PolicyPreview> for WirePreview {
    fn from(preview: PolicyPreview) -> Self {
        let PolicyPreview { role, impact, collateral_access, search } = preview;
        let collateral_access = collateral_access.map(WireCollateral::from);
        Self { role, impact: impact.into(), collateral_access, search: search.into() }
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

/// Previews the effect of storing a role like this, or of deleting it: traces gained, lost and unchanged, by the role in
/// isolation and for each member by all roles of that member together. Stores nothing.
///
/// The counts are the differences between two searches, before and after the change. They include traces that the caller may not
/// read, and are recorded in the audit log. Ids are only of traces that the caller may read.
#[utoipa::path(post, path = "/policies/preview", tag = "roles", request_body = PreviewPoliciesRequest, responses(
    (status = 200, description = "The preview", body = WirePreview),
    (status = 404, description = "`not_found`: no such role to delete"),
    (status = 409, description = "`conflict`: the role `admin` cannot be deleted, or the name of another role differs from this one only by case; `not_bound`: no table is bound as trace source; `schema_changed`: the type of a field that the decision uses has changed"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 429, description = "`too_many_queries`: the user has reached the limit of concurrent queries"),
    (status = 502, description = "`trace_store_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: timed out before even a sample was counted, or the query exceeded another limit; `detail` says what to do"),
))]
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<PreviewPoliciesRequest>,
) -> Result<JsonResponse<WirePreview>, Problem> {
    let admin = caller.require_admin()?;
    Ok(JsonResponse(app.service.analysis().preview_policies(&admin, request.into()).await?.into()))
}
