//! Missing projections: the columns that searches read, sorted by time, and all columns, sorted by trace id.

use tracewarden_model::{ColumnType, FieldSource, ReadAs};

use super::drafts::{Draft, DraftSubject, Drafter, KeyColumn, state};
use super::parts::materialize;
use super::suggestion::{DdlKind, DdlState, DdlSuggestion};
use crate::schema::{Projection, column_named};
use crate::sql::quote;

impl Drafter<'_> {
    /// Drafts a projection with the columns that searches read, sorted by time: a search then reads only the spans of the
    /// time steps that it visits.
    pub(super) fn time_projection(&mut self, keys: &[KeyColumn]) {
        let binding = self.facts.binding;
        // ClickHouse reads no projection with `FINAL`. A table with other leading columns in its key is read by these.
        let is_final = binding.read_as == Some(ReadAs::Final);
        if is_final || !binding.only.is_empty() || binding.time_bucket.is_some() {
            return;
        }
        let kind = DdlKind::TimeProjection;
        if self.underlying.is_sorted_by(&binding.timestamp, &[]) {
            return self.in_place(kind.to_string(), kind, "the table's own order", None);
        }
        let mut columns = vec![binding.timestamp.clone(), binding.trace_id.clone()];
        let mut fields = Vec::new();
        let mut omitted_fields = Vec::new();
        let mut needs = Vec::new();
        let mut new_keys = Vec::new();
        for marked in self.facts.fields {
            let key = keys.iter().find(|key| key.field == marked.field);
            let scalar = marked.source == FieldSource::Column
                && !matches!(marked.column_type.bare(), ColumnType::Array(_))
                && column_named(&self.underlying.columns, &marked.field.name).is_some();
            let column = match key {
                Some(key) => {
                    needs.extend(key.needs.clone());
                    if !key.exists {
                        new_keys.push((key.map.clone(), key.field.name.clone()));
                    }
                    &key.column
                }
                None if scalar => &marked.field.name,
                None => {
                    omitted_fields.push(marked.field.clone());
                    continue;
                }
            };
            fields.push(marked.field.clone());
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let by_time: Vec<&Projection> = self
            .underlying
            .projections
            .iter()
            .filter(|projection| projection.is_sorted_by(&binding.timestamp))
            .collect();
        let complete = by_time.iter().find(|projection| self.contains_columns(projection, &columns));
        let older: Vec<String> = by_time
            .iter()
            .filter(|projection| Some(&projection.name) != complete.map(|complete| &complete.name))
            // A projection with all columns may have another purpose.
            .filter(|projection| !projection.columns().all)
            .map(|projection| projection.name.clone())
            .collect();
        let quoted: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let query = format!("SELECT {} ORDER BY {}", quoted.join(", "), quote(&binding.timestamp));
        let complete = complete.map(|complete| complete.name.clone());
        let follow_up =
            older.iter().map(|name| self.target.alter(&format!("DROP PROJECTION {}", quote(name)))).collect();
        let Some(draft) = self.projection(kind, complete, "by_time", &query) else { return };
        let suggestion = DdlSuggestion {
            follow_up,
            needs,
            fields,
            omitted_fields,
            speeds_up:
                "every search for the newest traces: it reads only the columns that it needs, in order of \
                 time"
                    .to_owned(),
            ..draft
        };
        self.drafts.missing.push(Draft { suggestion, subject: DraftSubject::Time { columns, new_keys } });
    }

    /// Whether a projection holds these columns.
    fn contains_columns(&self, projection: &Projection, columns: &[String]) -> bool {
        // `*` omits materialized columns.
        let is_selected = |name: &String| {
            let column = column_named(&self.underlying.columns, name);
            column.is_some_and(|column| column.default_kind != "MATERIALIZED")
        };
        let held = projection.columns();
        columns.iter().all(|column| held.named.contains(column) || (held.all && is_selected(column)))
    }

    /// Drafts a projection with all columns, sorted by trace id: a trace is then read from one place.
    pub(super) fn trace_projection(&mut self, keys: &[KeyColumn]) {
        if self.facts.binding.read_as == Some(ReadAs::Final) {
            return;
        }
        let trace_id = self.facts.binding.trace_id.clone();
        let kind = DdlKind::TraceProjection;
        if self.underlying.is_sorted_by(&trace_id, &self.facts.binding.only) {
            return self.in_place(kind.to_string(), kind, "the table's own order", None);
        }
        let selected_by_star: Vec<String> = self
            .underlying
            .columns
            .iter()
            .filter(|column| matches!(column.default_kind.as_str(), "" | "DEFAULT"))
            .map(|column| column.name.clone())
            .collect();
        let existing = self.underlying.projections.iter().find(|projection| {
            projection.is_sorted_by(&trace_id) && self.contains_columns(projection, &selected_by_star)
        });
        let existing = existing.map(|existing| existing.name.clone());
        // `*` omits materialized columns. With them, the projection also serves the verification of traces.
        let additional: String = keys.iter().map(|key| format!(", {}", quote(&key.column))).collect();
        let query = format!("SELECT *{additional} ORDER BY {}", quote(&trace_id));
        let Some(draft) = self.projection(kind, existing, "by_trace", &query) else { return };
        // A projection that only has to be built does not need columns that were added later.
        let needs = if draft.state == DdlState::Missing {
            keys.iter().filter_map(|key| key.needs.clone()).collect()
        } else {
            Vec::new()
        };
        let suggestion = DdlSuggestion {
            needs,
            speeds_up: "reading traces: the spans of a trace are stored together instead of across the table"
                .to_owned(),
            ..draft
        };
        self.drafts.missing.push(Draft { suggestion, subject: DraftSubject::Trace });
    }

    /// Drafts the statements that add and build a projection, as far as necessary: the existing one of this name suffices,
    /// and a new one would be named `wanted`.
    fn projection(
        &mut self,
        kind: DdlKind,
        existing: Option<String>,
        wanted: &str,
        query: &str,
    ) -> Option<DdlSuggestion> {
        let id = kind.to_string();
        let mut statements = Vec::new();
        let exists = existing.is_some();
        let name = match existing {
            Some(name) => name,
            None => {
                let unused = self.names.unused(wanted);
                let quoted = quote(&unused);
                statements
                    .push(self.target.alter(&format!("ADD PROJECTION IF NOT EXISTS {quoted} ({query})")));
                unused
            }
        };
        let built = exists && (self.table_is_empty() || self.facts.parts.all_have_projection(&name));
        let building = self.build(&materialize("PROJECTION", &name), built, &mut statements);
        if statements.is_empty() && !building {
            let bytes = self.facts.parts.projection_bytes.get(&name).copied();
            self.in_place(id, kind, &name, bytes);
            return None;
        }
        let state = state(exists, &statements);
        Some(DdlSuggestion { id, kind, state, statements, ..DdlSuggestion::default() })
    }
}
