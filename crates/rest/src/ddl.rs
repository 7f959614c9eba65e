//! `/schema/ddl`: what to add to the bound table.

use axum::Json as Answer;
use axum::extract::State;
use serde::Serialize;
use tracewarden_model::FieldRef;
use tracewarden_service::{DdlAdvice, DdlSuggestion, InPlace, Reads};
use utoipa::ToSchema;

use crate::App;
use crate::problem::Problem;
use crate::routes::Caller;

/// What to add to the bound table so that searching and reading cost less. The service never runs any of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlAdvice)]
pub struct WireDdlAdvice {
    /// What is missing: what gains most first, but nothing before what it needs.
    suggestions: Vec<WireSuggestion>,
    /// What is there already, under whichever name.
    in_place: Vec<WireInPlace>,
    /// What could not be told or suggested, and why.
    notes: Vec<String>,
}

/// Something to add.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlSuggestion)]
struct WireSuggestion {
    /// Its place in this list, from 1. It changes with what is in place and with the data.
    number: usize,
    /// What it is about; it never changes.
    #[schema(examples("key_column:SpanAttributes[\"tenant.id\"]"))]
    id: String,
    /// `key_column`, `time_projection`, `trace_projection`, `trace_index` or `skip_index`.
    kind: &'static str,
    /// `missing`; `partial` when it is declared, but not built for all rows or a piece of it is missing; `building` while the
    /// trace store is at it.
    state: &'static str,
    /// To be run in this order, each in one piece, without a semicolon at the end. Empty while the store is building, or when
    /// only `bind_trace_index` is left to be done.
    statements: Vec<String>,
    /// To be run when the store has done what the statements began.
    afterwards: Vec<String>,
    /// The table to bind as `trace_index` then.
    #[schema(required = true)]
    bind_trace_index: Option<String>,
    /// Ids of the suggestions whose statements must have been run before.
    needs: Vec<String>,
    /// The marked fields that it serves; empty when it serves every search.
    fields: Vec<WireField>,
    /// Marked fields that it cannot serve: searches that look at one go on as before.
    leaves_out: Vec<WireField>,
    /// What becomes faster.
    speeds_up: String,
    /// What the estimates are about.
    measured_on: String,
    /// What that reads now; null where it cannot be estimated.
    #[schema(required = true)]
    reads_now: Option<WireReads>,
    /// What it will read; null where it cannot be estimated.
    #[schema(required = true)]
    reads_then: Option<WireReads>,
    /// How many times fewer bytes that are, or rows where bytes are unknown.
    #[schema(required = true)]
    gain: Option<f64>,
    /// Bytes on disk that it takes; null where it cannot be estimated.
    #[schema(required = true)]
    disk_bytes: Option<u64>,
}

/// A marked field.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlField)]
struct WireField {
    /// The map or JSON column; empty for a column of its own.
    map: String,
    /// The key, the path, or the column.
    name: String,
}

/// What is read, as estimated.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlReads)]
struct WireReads {
    /// Rows.
    rows: u64,
    /// Bytes on disk; null where sizes of columns are not known.
    #[schema(required = true)]
    bytes: Option<u64>,
}

/// Something that is in place.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DdlInPlace)]
struct WireInPlace {
    /// The id that it would be suggested with.
    id: String,
    /// As in a suggestion.
    kind: &'static str,
    /// The name that it has in the table.
    name: String,
    /// Bytes on disk that it takes; null where that is not known.
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
        // Two digits say what there is to say.
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

impl From<InPlace> for WireInPlace {
    fn from(InPlace { id, kind, name, disk_bytes }: InPlace) -> Self {
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

/// What to add to the bound table so that searching and reading cost less
///
/// By what the table has at this moment and by the trace store's own estimates. The service never runs these statements.
#[utoipa::path(get, path = "/schema/ddl", tag = "trace source", responses(
    (status = 200, description = "Suggestions", body = WireDdlAdvice),
    (status = 409, description = "`not_bound`: no trace source is bound"),
    (status = 502, description = "`trace_store_error`: the trace store failed"),
    (status = 503, description = "`unavailable`: the trace store cannot be reached"),
    (status = 504, description = "`query_timeout`: the trace store took too long"),
))]
pub(crate) async fn get(State(app): State<App>, caller: Caller) -> Result<Answer<WireDdlAdvice>, Problem> {
    let advice = app.service.ddl(&caller.require_admin()?).await?;
    Ok(Answer(WireDdlAdvice::from(advice)))
}
