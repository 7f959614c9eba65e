//! Finds missing additions by their definitions. Pure functions of the facts about the table.

use std::collections::BTreeSet;

use tracewarden_model::{ColumnType, FieldRef, FieldSource, MarkedField, TextType};

use super::facts::{Facts, TraceIndex};
use super::names::Names;
use super::parts::materialize;
use super::suggestion::{DdlKind, DdlState, DdlSuggestion, ExistingAddition, key_column_id};
use super::target::Target;
use super::trace_index::trace_index;
use crate::schema::{
    KEY_COLUMN_TYPE, Layout, SkipIndex, TableEngine, column_named, key_column_expression, only_name,
};
use crate::sql::quote;

/// A suggestion before it is estimated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) suggestion: DdlSuggestion,
    pub(super) subject: DraftSubject,
}

/// The subject of a suggestion, for estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DraftSubject {
    /// A column with this name for this key.
    Key {
        map: String,
        key: String,
        column: String,
    },
    /// These columns sorted by time, and the keys among them that have no column yet.
    Time {
        columns: Vec<String>,
        new_keys: Vec<(String, String)>,
    },
    /// All columns sorted by trace id.
    Trace,
    TraceIndex,
    /// An index on this column.
    Index {
        column: String,
        indexed: IndexedExpression,
    },
}

/// The expression of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexedExpression {
    Keys,
    Values,
    Column,
}

impl IndexedExpression {
    /// Writes the expression over this column.
    pub(super) fn write(self, column: &str) -> String {
        match self {
            Self::Keys => format!("mapKeys({column})"),
            Self::Values => format!("mapValues({column})"),
            Self::Column => column.to_owned(),
        }
    }

    /// Whether an index is on this expression over the column.
    fn is_indexed_by(self, index: &SkipIndex, column: &str) -> bool {
        let expression = index.expression.as_str();
        let inner = match self {
            Self::Keys => expression.strip_prefix("mapKeys(").and_then(|rest| rest.strip_suffix(')')),
            Self::Values => expression.strip_prefix("mapValues(").and_then(|rest| rest.strip_suffix(')')),
            Self::Column => Some(expression),
        };
        inner.and_then(only_name).as_deref() == Some(column) && serves_equality(index)
    }
}

/// All missing additions, all additions in place, and notes.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    pub(super) missing: Vec<Draft>,
    pub(super) in_place: Vec<ExistingAddition>,
    pub(super) notes: Vec<String>,
}

pub(super) fn drafts(facts: &Facts<'_>) -> Drafts {
    let mut drafts = Drafts::default();
    let underlying = facts.layout.underlying();
    let unknown: Vec<&str> = underlying.unknown.iter().chain(&facts.parts.unknown).copied().collect();
    if !unknown.is_empty() {
        drafts.notes.push(format!(
            "the service's ClickHouse user may not read {}: suggestions may include objects that already \
             exist, and estimates may be missing",
            unknown.join(", ")
        ));
    }
    let TableEngine::MergeTree { name: engine } = &underlying.engine else {
        drafts.notes.push(match &facts.layout.engine {
            TableEngine::Distributed { database, table, cluster } => format!(
                "the bound table is distributed, and its local table `{database}.{table}` is not on the \
                 server that was queried: point `clickhouse_url` to a server of cluster `{cluster}` that has \
                 it"
            ),
            TableEngine::Other(engine) if engine.is_empty() => "there is no such table".to_owned(),
            other => format!("nothing can be added to a table whose engine is {}", other.name()),
        });
        return drafts;
    };
    let mut drafter = Drafter {
        target: Target::new(facts.binding, facts.layout),
        names: Names::taken(
            [underlying, facts.layout]
                .into_iter()
                .flat_map(|layout| &layout.columns)
                .map(|column| column.name.as_str())
                .chain(underlying.indexes.iter().map(|index| index.name.as_str()))
                .chain(underlying.projections.iter().map(|projection| projection.name.as_str())),
        ),
        underlying,
        facts,
        drafts,
    };
    let keys = drafter.key_columns();
    drafter.skip_indexes(&keys);
    if !underlying.engine.replaces_rows() {
        drafter.time_projection(&keys);
        drafter.trace_projection(&keys);
    } else {
        drafter.drafts.notes.push(format!(
            "no projection is suggested for a table whose engine is {engine}: it merges related rows, and \
             projections would keep the old ones"
        ));
    }
    drafter.trace_index();
    if drafter.target.bound.is_some() {
        drafter.drafts.notes.push(
            "the bound table is distributed: existing objects and estimates are those of the server that was \
             queried"
                .to_owned(),
        );
    }
    drafter.drafts
}

pub(super) struct Drafter<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) underlying: &'a Layout,
    pub(super) target: Target,
    pub(super) names: Names,
    pub(super) drafts: Drafts,
}

/// The column of a marked key, existing or suggested.
pub(super) struct KeyColumn {
    pub(super) field: FieldRef,
    pub(super) map: String,
    pub(super) column: String,
    /// Whether the table already has the column.
    pub(super) exists: bool,
    /// The suggestion that adds it, if any.
    pub(super) needs: Option<String>,
}

impl Drafter<'_> {
    /// Adds the statement that builds an addition by a [command](materialize), unless it is built or being built. Returns
    /// whether it is being built.
    pub(super) fn build(&self, command: &str, is_built: bool, statements: &mut Vec<String>) -> bool {
        let building = !is_built && self.facts.parts.building.contains(command);
        if !is_built && !building {
            statements.push(self.target.alter(command));
        }
        building
    }

    /// Returns the index on an expression over a column, if there is one.
    fn find_index(&self, indexed: IndexedExpression, column: &str) -> Option<SkipIndex> {
        self.underlying.indexes.iter().find(|index| indexed.is_indexed_by(index, column)).cloned()
    }

    /// Returns the name of an index. Where there is none, it adds the statement that declares one.
    fn declare_index(
        &mut self,
        found: Option<&SkipIndex>,
        wanted: &str,
        declared: &str,
        statements: &mut Vec<String>,
    ) -> String {
        if let Some(index) = found {
            return index.name.clone();
        }
        let unused = self.names.unused(wanted);
        let quoted = quote(&unused);
        statements
            .push(self.target.alter(&format!("ADD INDEX IF NOT EXISTS {quoted} {declared} GRANULARITY 1")));
        unused
    }

    /// Adds the statement that builds an index, as [`Self::build`] does.
    fn build_index(&self, found: Option<&SkipIndex>, name: &str, statements: &mut Vec<String>) -> bool {
        let is_built = found.is_some_and(|index| index.bytes > 0 || self.table_is_empty());
        self.build(&materialize("INDEX", name), is_built, statements)
    }

    pub(super) fn table_is_empty(&self) -> bool {
        self.underlying.rows == Some(0)
    }

    pub(super) fn in_place(&mut self, id: String, kind: DdlKind, name: &str, disk_bytes: Option<u64>) {
        let name = name.to_owned();
        self.drafts.in_place.push(ExistingAddition { id, kind, name, disk_bytes });
    }

    /// Drafts a column for every marked key of a map with strings, with an index on it: the index finds rare values, as the
    /// index on the map's values does for the map.
    fn key_columns(&mut self) -> Vec<KeyColumn> {
        let mut columns: Vec<KeyColumn> = Vec::new();
        for marked in self.facts.fields {
            let (FieldSource::MapKey, Some(map)) = (marked.source, &marked.field.map) else { continue };
            if self.underlying.can_have_key_column(map, &marked.field.name) {
                columns.push(self.key_column(marked, map, &marked.field.name));
            }
        }
        columns
    }

    fn key_column(&mut self, marked: &MarkedField, map: &str, key: &str) -> KeyColumn {
        let adopted = marked.column.as_ref().and_then(|name| column_named(&self.underlying.columns, name));
        let found =
            adopted.or_else(|| self.underlying.key_column(map, key)).map(|column| column.name.clone());
        let exists = found.is_some();
        let name = found.unwrap_or_else(|| self.names.unused(&format!("{map}_{key}")));
        let quoted = quote(&name);
        let declared = format!("{quoted} {KEY_COLUMN_TYPE} MATERIALIZED {}", key_column_expression(map, key));
        let mut statements = Vec::new();
        if !exists {
            statements.push(self.target.alter(&format!("ADD COLUMN IF NOT EXISTS {declared}")));
        }
        if column_named(&self.facts.layout.columns, &name).is_none()
            && let Some(statement) = self.target.alter_bound(&format!("ADD COLUMN IF NOT EXISTS {declared}"))
        {
            statements.push(statement);
        }
        let index = self.find_index(IndexedExpression::Column, &name);
        let declared = format!("{quoted} TYPE bloom_filter(0.01)");
        let index_name =
            self.declare_index(index.as_ref(), &format!("idx_{name}"), &declared, &mut statements);
        let is_built = exists && (self.table_is_empty() || self.facts.parts.all_have_column(&name));
        let column_building = self.build(&materialize("COLUMN", &name), is_built, &mut statements);
        let building = self.build_index(index.as_ref(), &index_name, &mut statements) || column_building;
        let id = key_column_id(&marked.field);
        let missing = building || !statements.is_empty();
        if missing {
            let suggestion = DdlSuggestion {
                state: state(exists, &statements),
                statements,
                fields: vec![marked.field.clone()],
                speeds_up: key_column_benefit(marked, &name),
                id: id.clone(),
                kind: DdlKind::KeyColumn,
                ..DdlSuggestion::default()
            };
            let subject =
                DraftSubject::Key { map: map.to_owned(), key: key.to_owned(), column: name.clone() };
            self.drafts.missing.push(Draft { suggestion, subject });
        } else {
            let bytes = self.facts.parts.columns.get(&name).map(|size| size.bytes);
            self.in_place(id.clone(), DdlKind::KeyColumn, &name, bytes);
        }
        KeyColumn {
            field: marked.field.clone(),
            map: map.to_owned(),
            column: name,
            exists,
            needs: missing.then_some(id),
        }
    }

    /// Drafts indexes on keys and values of maps with marked keys, on the trace id, and on marked string columns.
    fn skip_indexes(&mut self, keys: &[KeyColumn]) {
        let maps: BTreeSet<&str> = self
            .facts
            .fields
            .iter()
            .filter(|marked| marked.source == FieldSource::MapKey)
            .filter_map(|marked| marked.field.map.as_deref())
            .collect();
        for map in maps {
            let Some(column) = column_named(&self.underlying.columns, map) else { continue };
            let marked = |marked: &&MarkedField| marked.field.map.as_deref() == Some(map);
            let fields: Vec<FieldRef> =
                self.facts.fields.iter().filter(marked).map(|marked| marked.field.clone()).collect();
            self.skip_index(map, IndexedExpression::Keys, fields.clone());
            if column.column_type.map_value().is_some_and(ColumnType::is_string) {
                self.skip_index(map, IndexedExpression::Values, fields);
            }
        }
        let trace_id = &self.facts.binding.trace_id;
        if !self.underlying.is_sorted_by(trace_id, &self.facts.binding.only) {
            self.skip_index(trace_id, IndexedExpression::Column, Vec::new());
        }
        let in_key: Vec<Option<String>> =
            self.underlying.sorting_key.iter().map(|part| only_name(part)).collect();
        for marked in self.facts.fields {
            // A string column that is neither sorted nor dictionary-encoded: an index finds its rare values.
            let is_indexable = marked.source == FieldSource::Column
                && matches!(
                    marked.column_type,
                    ColumnType::Text(TextType::String | TextType::FixedString { .. } | TextType::Uuid)
                )
                && !in_key.contains(&Some(marked.field.name.clone()))
                && !keys.iter().any(|key| key.column == marked.field.name)
                && marked.field.name != *trace_id;
            if is_indexable && column_named(&self.underlying.columns, &marked.field.name).is_some() {
                self.skip_index(&marked.field.name, IndexedExpression::Column, vec![marked.field.clone()]);
            }
        }
    }

    fn skip_index(&mut self, column: &str, indexed: IndexedExpression, fields: Vec<FieldRef>) {
        let id = format!("{}:{}", DdlKind::SkipIndex, indexed.write(column));
        if self.drafts.missing.iter().any(|draft| draft.suggestion.id == id)
            || self.drafts.in_place.iter().any(|found| found.id == id)
        {
            return;
        }
        let found = self.find_index(indexed, column);
        let suffix = match indexed {
            IndexedExpression::Keys => "_keys",
            IndexedExpression::Values => "_values",
            IndexedExpression::Column => "",
        };
        // Ids are looked up individually among all granules: each false positive costs a read.
        let share = if indexed == IndexedExpression::Column && fields.is_empty() { "0.001" } else { "0.01" };
        let declared = format!("{} TYPE bloom_filter({share})", indexed.write(&quote(column)));
        let mut statements = Vec::new();
        let wanted = format!("idx_{column}{suffix}");
        let name = self.declare_index(found.as_ref(), &wanted, &declared, &mut statements);
        let building = self.build_index(found.as_ref(), &name, &mut statements);
        if statements.is_empty() && !building {
            let bytes = found.map(|index| index.bytes);
            return self.in_place(id, DdlKind::SkipIndex, &name, bytes);
        }
        let what = match indexed {
            IndexedExpression::Keys => "searches and policies for a key that few spans have",
            IndexedExpression::Values => "searches and policies for a value that few spans have",
            IndexedExpression::Column if fields.is_empty() => "reading and verifying traces by their ids",
            IndexedExpression::Column => "searches and policies for a value of it that few spans have",
        };
        let suggestion = DdlSuggestion {
            state: state(found.is_some(), &statements),
            statements,
            fields,
            speeds_up: what.to_owned(),
            id,
            kind: DdlKind::SkipIndex,
            ..DdlSuggestion::default()
        };
        let subject = DraftSubject::Index { column: column.to_owned(), indexed };
        self.drafts.missing.push(Draft { suggestion, subject });
    }

    fn trace_index(&mut self) {
        let id = DdlKind::TraceIndex.to_string();
        let (state, statements, bind) = match &self.facts.trace_index {
            TraceIndex::Bound(name) => return self.in_place(id, DdlKind::TraceIndex, &name.clone(), None),
            TraceIndex::NameTaken => {
                let name = format!("{}_trace_id_ts", self.facts.binding.table);
                self.drafts.notes.push(format!(
                    "no trace index is suggested: `{name}` is another table; create a trace index with \
                     another name and bind it as `trace_index`"
                ));
                return;
            }
            TraceIndex::Unbound(name) => (DdlState::Partial, Vec::new(), name.clone()),
            TraceIndex::None => {
                let (statements, name) = trace_index(self.facts, &self.target);
                (DdlState::Missing, statements, name)
            }
        };
        let suggestion = DdlSuggestion {
            state,
            statements,
            bind_trace_index: Some(bind),
            speeds_up:
                "evaluating whole traces: each is read from its first to its last span, instead of all \
                 around the window"
                    .to_owned(),
            id,
            kind: DdlKind::TraceIndex,
            ..DdlSuggestion::default()
        };
        self.drafts.missing.push(Draft { suggestion, subject: DraftSubject::TraceIndex });
    }
}

pub(super) fn state(exists: bool, statements: &[String]) -> DdlState {
    match (exists, statements.is_empty()) {
        (_, true) => DdlState::Building,
        (true, false) => DdlState::Partial,
        (false, false) => DdlState::Missing,
    }
}

/// Whether an index can show that a granule lacks a value.
fn serves_equality(index: &SkipIndex) -> bool {
    ["bloom_filter", "set", "text"].into_iter().any(|kind| {
        index.index_type.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
    })
}

/// Policies read the map until an administrator has adopted the column, which compares it with the map.
fn key_column_benefit(marked: &MarkedField, column: &str) -> String {
    let field = &marked.field;
    let adopted =
        format!("once it is adopted: `\"column\": \"{column}\"` beside the field in `PUT /schema/fields`");
    let what = match (marked.filterable, marked.policy) {
        (true, true) => format!("searches by {field} immediately, and policies that use it {adopted}"),
        (false, true) => format!("policies that use {field}, {adopted}"),
        _ => format!("searches by {field}"),
    };
    format!("{what}. The column is read instead of the whole map")
}
