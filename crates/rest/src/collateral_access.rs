//! `/policies/collateral-access`: collateral access.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{CollateralAnswer, Policy, PolicyPreviewRequest, SharedValue};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{Json, present};
use crate::count_wire::WireCounted;
use crate::extractors::Caller;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::roles::WirePolicy;
use crate::wire::Time;

/// A role, and the traces to evaluate.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CollateralAccessRequest)]
pub(crate) struct WireCollateralRequest {
    /// Name of the role.
    #[schema(examples("payments"))]
    role: String,
    /// Policies of the role; the stored ones when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    policies: Option<Vec<WirePolicy>>,
    /// Field by whose values collateral access is counted: a marked field of type string or string_array, or a display column;
    /// the service column when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, examples("ServiceName"))]
    by: Option<String>,
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
}

impl From<WireCollateralRequest> for PolicyPreviewRequest {
    fn from(request: WireCollateralRequest) -> Self {
        let WireCollateralRequest { role, policies, by, from, to, seconds } = request;
        let policies = policies.map(|policies| policies.into_iter().map(Policy::from).collect());
        let (from, to) = (from.map(|time| time.0), to.map(|time| time.0));
        let seconds = seconds.map(|seconds| seconds.0);
        Self { role, policies, by, from, to, seconds }
    }
}

/// A value that becomes visible.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedValue)]
pub(crate) struct WireSharedValue {
    /// The value, or an element of an array.
    value: String,
    /// Number of traces that the policies grant access to and that have a span with this value.
    traces: u64,
    /// Number of these traces in which a span with this value is a matching span.
    matching_traces: u64,
    /// Whether `matching_traces` is 0: the value is visible only because access is to whole traces.
    only_shared: bool,
}

impl From<SharedValue> for WireSharedValue {
    fn from(SharedValue { value, traces, matching_traces }: SharedValue) -> Self {
        Self { value, traces, matching_traces, only_shared: matching_traces == 0 }
    }
}

/// Collateral access: values that policies make visible without naming them, because a matching span grants access to its whole
/// trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CollateralAccess)]
pub(crate) struct WireCollateral {
    /// The traces that were counted.
    #[serde(flatten)]
    counted: WireCounted,
    /// The field.
    #[schema(examples("ServiceName"))]
    by: String,
    /// Number of users who have the role and are not disabled. If there are none, the counts are for a hypothetical user with
    /// this role only and no attributes.
    members: u64,
    /// Number of members who were evaluated, each with their own attributes; if not all, `notes` give the reason.
    members_counted: u64,
    /// Number of members to whom the counts and values apply: those members with the same effective policies who have the most
    /// values that are visible by collateral access only.
    members_told: u64,
    /// Number of evaluated members who have any value that is visible by collateral access only; for a sample, as far as the
    /// sample shows it.
    members_shared: u64,
    /// Number of traces that the policies grant access to.
    traces: u64,
    /// Number of different values in these traces.
    distinct: u64,
    /// Number of these values that no matching span has, including hidden ones.
    only_shared: u64,
    /// Values of traces that the caller may read, at most 100; the values that most traces have come first.
    values: Vec<WireSharedValue>,
    /// Number of different values that are not listed: the caller may read no trace with them, or no filter could use them.
    hidden_values: u64,
}

impl From<CollateralAnswer> for WireCollateral {
    fn from(found: CollateralAnswer) -> Self {
        let CollateralAnswer { by, window, counted_traces, fraction, cost, notes, .. } = found;
        Self {
            counted: WireCounted::new(window, counted_traces, fraction, cost, notes),
            by,
            members: found.members,
            members_counted: found.members_counted,
            members_told: found.members_reported,
            members_shared: found.members_with_collateral,
            traces: found.traces,
            distinct: found.distinct,
            only_shared: found.only_shared,
            values: found.values.into_iter().map(WireSharedValue::from).collect(),
            hidden_values: found.hidden_values,
        }
    }
}

/// Reports the collateral access of a role: the values of one field that its members can see although the policies do not name
/// them.
///
/// If the policies depend on the member (`user.attributes`), each member is evaluated separately; members with the same effective
/// policies are evaluated together. The result is for the members who have the most values that are visible by collateral access
/// only.
///
/// The counts include traces that the caller may not read, and are recorded in the audit log. Values are only of traces that the
/// caller may read.
#[utoipa::path(post, path = "/policies/collateral-access", tag = "roles", request_body = WireCollateralRequest, responses(
    (status = 200, description = "The collateral access", body = WireCollateral),
    (status = 404, description = "`not_found`: no such role, and no policies were sent"),
    (status = 409, description = "`conflict`: the name of another role differs from this one only by case; `not_bound`: no table is bound as trace source; `schema_changed`: the type of a field that the decision uses has changed"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 429, description = "`too_many_queries`: the user has reached the limit of concurrent queries"),
    (status = 502, description = "`trace_store_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: timed out before even a sample was counted, or the query exceeded another limit; `detail` says what to do"),
))]
pub(crate) async fn collateral_access(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<WireCollateralRequest>,
) -> Result<JsonResponse<WireCollateral>, Problem> {
    let admin = caller.require_admin()?;
    Ok(JsonResponse(app.service.analysis().collateral_access(&admin, request.into()).await?.into()))
}
