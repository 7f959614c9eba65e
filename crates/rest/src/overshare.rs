//! `/policies/overshare`.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracewarden_service::{OvershareAnswer, OvershareRequest, Policy, SharedValue};
use utoipa::ToSchema;

use crate::App;
use crate::body::{Json, present};
use crate::impact::WireCounted;
use crate::limit::Limit;
use crate::problem::Problem;
use crate::roles::WirePolicy;
use crate::routes::Caller;
use crate::wire::Time;

/// A role, and which traces to look at.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OvershareRequest)]
pub(crate) struct WireOvershareRequest {
    /// The role.
    #[schema(examples("payments"))]
    role: String,
    /// Its policies; those that are stored when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    policies: Option<Vec<WirePolicy>>,
    /// A marked field of text or a display column; services when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, examples("ServiceName"))]
    by: Option<String>,
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
}

impl From<WireOvershareRequest> for OvershareRequest {
    fn from(request: WireOvershareRequest) -> Self {
        let WireOvershareRequest { role, policies, by, from, to, seconds } = request;
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
    /// The value; of an array an element.
    value: String,
    /// Traces that the policies open and that have a span with it.
    traces: u64,
    /// Of these, traces in which a span with it satisfies a policy itself.
    matching_traces: u64,
    /// Whether there is none: it is visible only because traces are shown whole.
    only_shared: bool,
}

impl From<SharedValue> for WireSharedValue {
    fn from(SharedValue { value, traces, matching_traces }: SharedValue) -> Self {
        Self { value, traces, matching_traces, only_shared: matching_traces == 0 }
    }
}

/// What policies let see besides what they name: a span that satisfies one opens its whole trace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Overshare)]
pub(crate) struct WireOvershare {
    /// Which traces were counted.
    #[serde(flatten)]
    counted: WireCounted,
    /// The field.
    #[schema(examples("ServiceName"))]
    by: String,
    /// Users who have the role and are not disabled. When nobody has it, it is told for somebody with this role alone and no
    /// attributes.
    members: u64,
    /// Those for whom it was counted, each by their own attributes; `notes` say why not for all.
    members_counted: u64,
    /// Those for whom the counts and values are told: members of whom the policies ask the same, and to whom most values are
    /// visible only by sharing.
    members_told: u64,
    /// Of those counted, the members to whom any value is visible only by sharing; of a sample, as far as that shows it.
    members_shared: u64,
    /// Traces that the policies open.
    traces: u64,
    /// Different values in them.
    distinct: u64,
    /// Of these, those that no span has that satisfies a policy itself; hidden ones included.
    only_shared: u64,
    /// Values of traces that the caller may read, at most 100; those that most traces have first.
    values: Vec<WireSharedValue>,
    /// Different values that are not told: the caller may read no trace with them, or no filter could use them.
    hidden_values: u64,
}

impl From<OvershareAnswer> for WireOvershare {
    fn from(found: OvershareAnswer) -> Self {
        let OvershareAnswer { by, window, among, fraction, cost, notes, .. } = found;
        Self {
            counted: WireCounted::new(window, among, fraction, cost, notes),
            by,
            members: found.members,
            members_counted: found.members_counted,
            members_told: found.members_told,
            members_shared: found.members_shared,
            traces: found.traces,
            distinct: found.distinct,
            only_shared: found.only_shared,
            values: found.values.into_iter().map(WireSharedValue::from).collect(),
            hidden_values: found.hidden_values,
        }
    }
}

/// What a role lets its members see besides what its policies name, by the values of one field.
///
/// Where the policies ask for something else for each member (`user.attributes`), it is counted for each by themself, members
/// of whom they ask the same together, and told for those to whom most values are visible only by sharing.
///
/// The counts are about traces that the caller may not read, too, and stand in the audit log; values are only of traces that
/// the caller may read.
#[utoipa::path(post, path = "/policies/overshare", tag = "roles", request_body = WireOvershareRequest, responses(
    (status = 200, description = "What is shared", body = WireOvershare),
    (status = 404, description = "`not_found`: no such role, and no policies were sent"),
    (status = 409, description = "`conflict`: the name of another role differs from this one only by case; `not_bound`: no table is bound as trace source; `schema_changed`: a field that decides is of another type now"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 429, description = "`too_many_queries`: as many queries of the user run as may run at a time"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: there was no time even for a sample, or the query ran into another limit; `detail` says what to do"),
))]
pub(crate) async fn overshare(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<WireOvershareRequest>,
) -> Result<Answer<WireOvershare>, Problem> {
    let admin = caller.require_admin()?;
    Ok(Answer(app.service.overshare(&admin, request.into()).await?.into()))
}
