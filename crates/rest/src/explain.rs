//! `/traces/{id}/explain` and `/traces/{id}/viewers`.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Deserialize;
use tracewarden_documents::{Json, spans};
use tracewarden_model::AccessModel;
use tracewarden_service::{Explanation, Span, Viewers};
use utoipa::IntoParams;

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;
use crate::query::{Path, Query};

/// Selects the user whose access to explain.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExplainQuery {
    /// Name of a user, for administrators; the caller when absent.
    #[param(example = "ada")]
    user: Option<String>,
}

/// Parses a span in the format of query results.
fn read_span(line: &str, model: &AccessModel) -> Option<Span> {
    let json: Json = serde_json::from_str(line).ok()?;
    spans(&[json], model, "").ok()?.pop()
}

/// Explains why the caller sees a trace: the policies that grant access and the matching spans. A trace that is absent and one
/// that the caller may not read give the same response as `GET /traces/{id}`.
///
/// With `user`, administrators learn why that user sees the trace or does not. The response contains spans only if the
/// administrator's own policies grant access to the trace too. Otherwise it contains counts, unless the setting
/// `discovery_samples` is off.
#[utoipa::path(get, path = "/traces/{id}/explain", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`"), ExplainQuery), responses(
    (status = 200, description = "Why", body = Explanation),
    (status = 403, description = "`forbidden`: only administrators ask about other users"),
    (status = 404, description = "`trace_not_found`: no such trace that the caller may read, or, with `user`, no such trace; `not_found`: no such user"),
    (status = 500, description = "`policy_broken`: a stored policy of the caller cannot be applied; `detail` says why"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn explain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<JsonResponse<Explanation>, Problem> {
    let found = app.service.traces().explain(&caller, &id, query.user.as_deref(), Some(read_span)).await?;
    Ok(JsonResponse(found))
}

/// Lists all users who can see a trace and are not disabled, with the policies that grant access.
#[utoipa::path(get, path = "/traces/{id}/viewers", tag = "traces", params(("id" = String, Path, description = "Trace id, in any notation: upper case, hyphens, leading zeros, a `traceparent`")), responses(
    (status = 200, description = "Who", body = Viewers),
    (status = 404, description = "`trace_not_found`: no such trace; with the setting `discovery_samples` off, also one that the caller may not read"),
    (status = 504, description = "`query_timeout`, `query_memory`, `query_too_large`: the query exceeded a limit of ClickHouse; `detail` says what to do"),
))]
pub(crate) async fn viewers(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<JsonResponse<Viewers>, Problem> {
    Ok(JsonResponse(app.service.analysis().viewers(&caller.require_admin()?, &id).await?))
}
