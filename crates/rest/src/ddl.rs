//! `/schema/ddl`: suggested changes to the bound table.

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::Serialize;
use tracewarden_model::FieldRef;
use tracewarden_service::{DdlAdvice, DdlSuggestion, ExistingAddition, Reads};
use utoipa::ToSchema;

use crate::app::App;
use crate::extractors::Caller;
use crate::problem::Problem;

/// Suggested changes to the bound table that reduce the cost of searches and reads. The service never runs these statements.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlAdvice)]
pub struct WireDdlAdvice {
    /// Missing objects, those with the largest gain first, but each after the suggestions that it needs.
    suggestions: Vec<WireSuggestion>,
    /// Objects that the table already has, under any name.
    in_place: Vec<WireInPlace>,
    /// Checks or suggestions that were not possible, with the reason.
    notes: Vec<String>,
}

/// A suggested change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlSuggestion)]
struct WireSuggestion {
    /// Position in this list, from 1. It changes with the table's definition and data.
    number: usize,
    /// Subject of the suggestion; it never changes.
    #[schema(examples("key_column:SpanAttributes[\"tenant.id\"]"))]
    id: String,
    /// `key_column`, `time_projection`, `trace_projection`, `trace_index` or `skip_index`.
    kind: &'static str,
    /// `missing`; `partial` when it is declared, but not built for all rows or a part of it is missing; `building` while
    /// ClickHouse builds it.
    state: &'static str,
    /// Statements to run in this order, each as a single statement, without a semicolon at the end. Empty while ClickHouse is
    /// building, or when only `bind_trace_index` remains to be done.
    statements: Vec<String>,
    /// Statements to run when ClickHouse has completed the work that `statements` started.
    afterwards: Vec<String>,
    /// The table to bind as `trace_index` afterwards.
    #[schema(required = true)]
    bind_trace_index: Option<String>,
    /// Ids of the suggestions whose statements must be run first.
    needs: Vec<String>,
    /// The marked fields that benefit; empty when every search benefits.
    fields: Vec<WireField>,
    /// Marked fields that do not benefit: searches on one of them stay as they are.
    leaves_out: Vec<WireField>,
    /// The operations that become faster.
    speeds_up: String,
    /// The operation that the estimates refer to.
    measured_on: String,
    /// Amount that this operation reads now; null where it cannot be estimated.
    #[schema(required = true)]
    reads_now: Option<WireReads>,
    /// Amount that it will read with the change; null where it cannot be estimated.
    #[schema(required = true)]
    reads_then: Option<WireReads>,
    /// Factor by which fewer bytes are read, or fewer rows where bytes are unknown.
    #[schema(required = true)]
    gain: Option<f64>,
    /// Bytes on disk that the change uses; null where they cannot be estimated.
    #[schema(required = true)]
    disk_bytes: Option<u64>,
}

/// A marked field.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlField)]
struct WireField {
    /// The map or JSON column; empty for a field that is a column itself.
    map: String,
    /// The key, the path, or the column.
    name: String,
}

/// Estimated amount that is read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlReads)]
struct WireReads {
    /// Rows.
    rows: u64,
    /// Bytes on disk; null where the column sizes are not known.
    #[schema(required = true)]
    bytes: Option<u64>,
}

/// An object that the table already has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlInPlace)]
struct WireInPlace {
    /// The id that its suggestion would have.
    id: String,
    /// Kind, as in a suggestion.
    kind: &'static str,
    /// Name of the object in the table.
    name: String,
    /// Bytes on disk that it uses; null where they are not known.
    #[schema(required = true)]
    disk_bytes: Option<u64>,
}

impl From<&FieldRef> for WireField {
    fn from(field: &FieldRef) -> Self {
        Self { map: field.map.clone().unwrap_or_default(), name: field.name.clone() }
    }
}

impl From<Reads> for WireReads {
    fn from(Reads { rows, bytes }: Reads) -> Self {
        Self { rows, bytes }
    }
}

impl From<DdlSuggestion> for WireSuggestion {
    fn from(suggestion: DdlSuggestion) -> Self {
        // Rounded to two decimals: the estimate is not more accurate.
        let gain = suggestion.gain().map(|gain| (gain * 100.0).round() / 100.0);
        Self {
            number: suggestion.number,
            id: suggestion.id,
            kind: suggestion.kind.as_str(),
            state: suggestion.state.as_str(),
            statements: suggestion.statements,
            afterwards: suggestion.afterwards,
            bind_trace_index: suggestion.bind_trace_index,
            needs: suggestion.needs,
            fields: suggestion.fields.iter().map(WireField::from).collect(),
            leaves_out: suggestion.leaves_out.iter().map(WireField::from).collect(),
            speeds_up: suggestion.speeds_up,
            measured_on: suggestion.measured_on,
            reads_now: suggestion.reads_now.map(WireReads::from),
            reads_then: suggestion.reads_then.map(WireReads::from),
            gain,
            disk_bytes: suggestion.disk_bytes,
        }
    }
}

impl From<ExistingAddition> for WireInPlace {
    fn from(ExistingAddition { id, kind, name, disk_bytes }: ExistingAddition) -> Self {
        Self { id, kind: kind.as_str(), name, disk_bytes }
    }
}

impl From<DdlAdvice> for WireDdlAdvice {
    fn from(DdlAdvice { suggestions, in_place, notes }: DdlAdvice) -> Self {
        Self {
            suggestions: suggestions.into_iter().map(WireSuggestion::from).collect(),
            in_place: in_place.into_iter().map(WireInPlace::from).collect(),
            notes,
        }
    }
}

/// Suggests changes to the bound table that reduce the cost of searches and reads
///
/// The suggestions follow from the table's current definition and ClickHouse's own estimates. The service never runs these
/// statements.
#[utoipa::path(get, path = "/schema/ddl", tag = "trace source", responses(
    (status = 200, description = "Suggestions", body = WireDdlAdvice),
    (status = 409, description = "`not_bound`: no trace source is bound"),
    (status = 502, description = "`trace_store_error`: ClickHouse failed"),
    (status = 503, description = "`unavailable`: ClickHouse cannot be reached"),
    (status = 504, description = "`query_timeout`: the ClickHouse query took too long"),
))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
) -> Result<JsonResponse<WireDdlAdvice>, Problem> {
    let advice = app.service.source().ddl(&caller.require_admin()?).await?;
    Ok(JsonResponse(WireDdlAdvice::from(advice)))
}
