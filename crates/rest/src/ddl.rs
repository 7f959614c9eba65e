//! `/schema/ddl`: suggested changes to the bound table.

use axum::Json as JsonResponse;
use axum::extract::State;
use tracewarden_service::DdlAdvice;

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;

/// Suggests changes to the bound table that reduce the cost of searches and reads
///
/// The suggestions follow from the table's current definition and ClickHouse's own estimates. The service never runs these
/// statements.
#[utoipa::path(get, path = "/schema/ddl", tag = "trace source", responses(
    (status = 200, description = "Suggestions", body = DdlAdvice),
    (status = 409, description = "`not_bound`: no trace source is bound"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<JsonResponse<DdlAdvice>, Problem> {
    Ok(JsonResponse(app.service.source().ddl(&caller.require_admin()?).await?))
}
