//! `/policies/collateral-access`: collateral access.

use axum::Json as JsonResponse;
use axum::extract::State;
use tracewarden_service::{CollateralAnswer, PolicyPreviewRequest};

use crate::app::App;
use crate::body::Json;
use crate::extractors::Caller;
use crate::problem::Problem;

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
