//! Missing projections: the columns that searches read, sorted by time, and all columns, sorted by trace id.

use tracewarden_model::{ColumnType, FieldSource};

use super::drafts::{About, Draft, Drafting, KeyColumn, state};
use super::parts::Built;
use super::{DdlKind, DdlState};
use crate::layout::{ProjectedColumns, Projection};
use crate::sql::quote;

impl Drafting<'_> {
    /// Drafts a projection with the columns that searches read, sorted by time: a search then reads only the spans of the
    /// time steps that it visits.
    pub(super) fn time_projection(&mut self, keys: &[KeyColumn]) {
        let binding = self.facts.binding;
        let id = DdlKind::TimeProjection.as_str().to_owned();
        if self.stored.is_by(&binding.timestamp) {
            return self.in_place(id, DdlKind::TimeProjection, "the table's own order", None);
        }
        let mut columns = vec![binding.timestamp.clone(), binding.trace_id.clone()];
        let mut fields = Vec::new();
        let mut leaves_out = Vec::new();
        let mut needs = Vec::new();
        let mut new_keys = Vec::new();
        for marked in self.facts.fields {
            let key = keys.iter().find(|key| key.field == marked.field);
            let scalar = marked.source == FieldSource::Column
                && !matches!(marked.column_type.bare(), ColumnType::Array(_))
                && self.stored.columns.iter().any(|column| column.name == marked.field.name);
            let column = match key {
                Some(key) => {
                    needs.extend(key.needs.clone());
                    if !key.there {
                        new_keys.push((key.map.clone(), key.field.name.clone()));
                    }
                    &key.column
                }
                None if scalar => &marked.field.name,
                None => {
                    leaves_out.push(marked.field.clone());
                    continue;
                }
            };
            fields.push(marked.field.clone());
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let by_time: Vec<&Projection> = self
            .stored
            .projections
            .iter()
            .filter(|projection| projection.is_by(&binding.timestamp))
            .collect();
        let complete = by_time.iter().find(|projection| self.holds(projection, &columns));
        let older: Vec<String> = by_time
            .iter()
            .filter(|projection| Some(&projection.name) != complete.map(|complete| &complete.name))
            // A projection with all columns may have another purpose.
            .filter(|projection| matches!(projection.columns(), ProjectedColumns::Named(_)))
            .map(|projection| projection.name.clone())
            .collect();
        let quoted: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let query = format!("SELECT {} ORDER BY {}", quoted.join(", "), quote(&binding.timestamp));
        let complete = complete.map(|complete| complete.name.clone());
        let added = Added { id, kind: DdlKind::TimeProjection, found: complete, name: "by_time", query };
        let afterwards =
            older.iter().map(|name| self.target.alter(&format!("DROP PROJECTION {}", quote(name)))).collect();
        let Some(draft) = self.projection(added) else { return };
        self.drafts.missing.push(Draft {
            afterwards,
            needs,
            fields,
            leaves_out,
            speeds_up:
                "every search for the newest traces: it reads only the columns that it needs, in order of \
                 time"
                    .to_owned(),
            about: About::Time { columns, new_keys },
            ..draft
        });
    }

    /// Whether a projection holds these columns.
    fn holds(&self, projection: &Projection, columns: &[String]) -> bool {
        let materialized = |name: &String| {
            self.stored
                .columns
                .iter()
                .any(|column| column.name == *name && column.default_kind == "MATERIALIZED")
        };
        match projection.columns() {
            ProjectedColumns::Named(named) => columns.iter().all(|column| named.contains(column)),
            ProjectedColumns::All { also } => columns
                .iter()
                .all(|column| also.contains(column) || !materialized(column) && self.has(column)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.stored.columns.iter().any(|column| column.name == name)
    }

    /// Drafts a projection with all columns, sorted by trace id: a trace is then read from one place.
    pub(super) fn trace_projection(&mut self, keys: &[KeyColumn]) {
        let trace_id = self.facts.binding.trace_id.clone();
        let id = DdlKind::TraceProjection.as_str().to_owned();
        if self.stored.is_by(&trace_id) {
            return self.in_place(id, DdlKind::TraceProjection, "the table's own order", None);
        }
        let shown: Vec<String> = self
            .stored
            .columns
            .iter()
            .filter(|column| matches!(column.default_kind.as_str(), "" | "DEFAULT"))
            .map(|column| column.name.clone())
            .collect();
        let found = self
            .stored
            .projections
            .iter()
            .find(|projection| projection.is_by(&trace_id) && self.holds(projection, &shown));
        let found = found.map(|found| found.name.clone());
        // `*` omits materialized columns. With them, the projection also serves the verification of traces.
        let also: String = keys.iter().map(|key| format!(", {}", quote(&key.column))).collect();
        let query = format!("SELECT *{also} ORDER BY {}", quote(&trace_id));
        let added = Added { id, kind: DdlKind::TraceProjection, found, name: "by_trace", query };
        let Some(draft) = self.projection(added) else { return };
        // A projection that only has to be built does not need columns that were added later.
        let needs = if draft.state == DdlState::Missing {
            keys.iter().filter_map(|key| key.needs.clone()).collect()
        } else {
            Vec::new()
        };
        self.drafts.missing.push(Draft {
            needs,
            speeds_up: "reading traces: the spans of a trace are stored together instead of across the table"
                .to_owned(),
            about: About::Trace,
            ..draft
        });
    }

    /// Drafts the statements that add and build a projection, as far as necessary.
    fn projection(&mut self, added: Added) -> Option<Draft> {
        let Added { id, kind, found, name, query } = added;
        let mut statements = Vec::new();
        let there = found.is_some();
        let name = match found {
            Some(name) => name,
            None => {
                let free = self.names.free(name);
                let quoted = quote(&free);
                statements
                    .push(self.target.alter(&format!("ADD PROJECTION IF NOT EXISTS {quoted} ({query})")));
                free
            }
        };
        let built = there && (self.empty() || self.facts.parts.all_have_projection(&name));
        let building = !built && self.building(Built::Projection(name.clone()));
        if !built && !building {
            statements.push(self.target.alter(&format!("MATERIALIZE PROJECTION {}", quote(&name))));
        }
        if statements.is_empty() && !building {
            let bytes = self.facts.parts.projection_bytes.get(&name).copied();
            self.in_place(id, kind, &name, bytes);
            return None;
        }
        Some(Draft { state: state(there, &statements), statements, ..Draft::new(id, kind) })
    }
}

/// A projection that should exist.
struct Added {
    id: String,
    kind: DdlKind,
    /// Name of an existing one that suffices.
    found: Option<String>,
    /// Name of a new one.
    name: &'static str,
    query: String,
}
