//! `/policies/preview` and `/policies/collateral-access`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Deserialize;
use tracewarden_model::Timestamp;
use tracewarden_service::{CollateralAnswer, Policy, PolicyPreview, PolicyPreviewRequest, present};
use utoipa::ToSchema;

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::problem::Problem;

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
    policies: Option<Vec<Policy>>,
    /// Start of the window; 24 hours before `to` when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    to: Option<Timestamp>,
    /// Time limit in seconds. If it is too short to evaluate all traces, a sample is evaluated.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 60, default = 10)]
    seconds: Option<i64>,
    /// Field by whose values collateral access is counted: a marked field of type string or string_array, or a display column;
    /// the service column when absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, examples("ServiceName"))]
    by: Option<String>,
}

/// Previews the effect of storing a role like this, or of deleting it: traces gained, lost and unchanged, by the role in
/// isolation and for each member by all roles of that member together. Stores nothing.
///
/// The counts are the differences between two searches, before and after the change. They include traces that the caller may not
/// read, and are recorded in the audit log. Ids are only of traces that the caller may read.
#[utoipa::path(post, path = "/policies/preview", tag = "roles", request_body = PreviewPoliciesRequest, responses(
    (status = 200, description = "The preview", body = PolicyPreview),
    (status = 404, description = "`not_found`: no such role to delete"),
    (status = 409, description = "`conflict`: the role `admin` cannot be deleted, or the name of another role differs from this one only by case"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: timed out before even a sample was counted, or the query exceeded another limit; `detail` says what to do"),
))]
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<PreviewPoliciesRequest>,
) -> Result<JsonResponse<PolicyPreview>, Problem> {
    let admin = caller.require_admin()?;
    let PreviewPoliciesRequest { role, policies, from, to, seconds, by } = request;
    let request = PolicyPreviewRequest { role, policies, from, to, seconds, by };
    Ok(JsonResponse(app.service.analysis().preview_policies(&admin, request).await?))
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
#[utoipa::path(post, path = "/policies/collateral-access", tag = "roles", request_body = PolicyPreviewRequest, responses(
    (status = 200, description = "The collateral access", body = CollateralAnswer),
    (status = 404, description = "`not_found`: no such role, and no policies were sent"),
    (status = 409, description = "`conflict`: the name of another role differs from this one only by case"),
    (status = 422, description = "`policy_invalid`, with the place in the text; `invalid_value`, `invalid_window`; `unknown_field`, `value_type`: of `by`"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: timed out before even a sample was counted, or the query exceeded another limit; `detail` says what to do"),
))]
pub(crate) async fn collateral_access(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<PolicyPreviewRequest>,
) -> Result<JsonResponse<CollateralAnswer>, Problem> {
    let admin = caller.require_admin()?;
    Ok(JsonResponse(app.service.analysis().collateral_access(&admin, request).await?))
}
