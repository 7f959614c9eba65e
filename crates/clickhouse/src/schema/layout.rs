//! The current layout of a table in ClickHouse: engine, key columns, skip indexes, projections.
//!
//! Operators add and drop these while the service runs. So this crate assumes nothing: it reads them from ClickHouse's system
//! tables, caches them for a short while, and reads them again. They change only the speed of an answer, never the answer.

use std::sync::Arc;

use serde::Deserialize;
use tracewarden_model::{ColumnType, ColumnValue};

#[cfg(test)]
mod tests;
mod text;

use crate::client::{TtlCache, flag};
use crate::schema::column::{Column, MapKey, column_named};
use crate::sql::{quote, quote_literal};
use text::Scanner;
pub(crate) use text::{only_name, split_list, split_outside};

/// The type of every key column.
pub(crate) const KEY_COLUMN_TYPE: &str = "LowCardinality(Nullable(String))";

/// The layout of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) engine: TableEngine,
    pub(crate) columns: Vec<Column>,
    /// Its skip indexes. Those of the local table, for a distributed one.
    pub(crate) indexes: Vec<SkipIndex>,
    /// Its projections. Those of the local table, for a distributed one.
    pub(crate) projections: Vec<Projection>,
    /// Expressions of the sorting key, as ClickHouse writes them. Those of the local table, for a distributed one.
    pub(crate) sorting_key: Vec<String>,
    /// The partition key as ClickHouse writes it, empty without one.
    pub(crate) partition_key: String,
    /// Rows, where ClickHouse knows the number. Those on this server, for a distributed table.
    pub(crate) rows: Option<u64>,
    /// System tables that the user may not read or that this version does not have. Their part of the layout is unknown, and
    /// counts as absent.
    pub(crate) unknown: Vec<&'static str>,
    /// For a distributed table, its local table, where this server has it.
    pub(crate) local: Option<Arc<Layout>>,
}

/// Where a table stores its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableEngine {
    /// On this server, in parts.
    MergeTree {
        /// The engine's full name, such as `ReplicatedReplacingMergeTree`.
        name: String,
    },
    /// In tables of the servers of a cluster.
    Distributed {
        cluster: String,
        /// Database of the local tables; empty for each server's default.
        database: String,
        table: String,
    },
    /// Elsewhere, or the table does not exist.
    Other(String),
}

/// A skip index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SkipIndex {
    pub(crate) name: String,
    /// Its type with its arguments, such as `bloom_filter(0.01)`.
    pub(crate) index_type: String,
    /// Its expression, as ClickHouse writes it.
    pub(crate) expression: String,
    /// Number of the table's granules that one granule of the index covers.
    pub(crate) granularity: u64,
    /// Its size on disk in bytes; zero before it is built.
    pub(crate) bytes: u64,
}

/// A projection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Projection {
    pub(crate) name: String,
    /// Whether it holds rows, not groups of rows.
    #[serde(deserialize_with = "flag")]
    pub(crate) normal: bool,
    /// Its sorting key: columns by their names, without quotes, and expressions as ClickHouse writes them.
    pub(crate) sorting_key: Vec<String>,
    /// Its query as ClickHouse writes it.
    pub(crate) query: String,
}

/// The columns that a projection holds unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectedColumns {
    /// Whether it holds all but the materialized ones.
    pub(crate) all: bool,
    /// Columns that are named.
    pub(crate) named: Vec<String>,
}

/// Layouts by database and table.
pub(crate) type LayoutCache = TtlCache<(String, String), Arc<Layout>>;

/// Returns the standard expression of a materialized key column: the key's value, or NULL where the map lacks the key. Not
/// `m[k]`: see `sql/predicates.rs`.
///
/// The key must not be empty, and the map must map strings to strings: [`can_be_key_column`].
pub(crate) fn key_column_expression(map: &str, key: &str) -> String {
    let (map, key) = (quote(map), quote_literal(key));
    format!("if(mapContains({map}, {key}), mapValues({map})[indexOf(mapKeys({map}), {key})], NULL)")
}

/// Whether a materialized column can replace this key. Observed with 26.7: `mapContains` and `indexOf` do not find an empty
/// constant among `LowCardinality` keys, and values that are not strings would change their type.
pub(crate) fn can_be_key_column(map_type: &ColumnType, key: &str) -> bool {
    let strings = matches!(map_type, ColumnType::Map(key, value) if key.is_string() && value.is_string());
    // A key that is not UTF-8 arrives with replacement characters, and is then another key.
    strings && !key.is_empty() && !key.contains(char::REPLACEMENT_CHARACTER)
}

/// Returns the key, if an expression has the standard form.
pub(crate) fn parse_key_expression(expression: &str) -> Option<MapKey> {
    let mut scanner = Scanner::new(expression);
    scanner.exact("if(mapContains(")?;
    let map = scanner.name()?;
    scanner.exact(", ")?;
    let key = scanner.literal()?;
    scanner.exact("), mapValues(")?;
    let same_map = scanner.name()?;
    scanner.exact(")[indexOf(mapKeys(")?;
    let same_map = same_map == map && scanner.name()? == map;
    scanner.exact("), ")?;
    let same_key = scanner.literal()? == key;
    scanner.exact(")], NULL)")?;
    (same_map && same_key && scanner.at_end()).then_some(MapKey { map, key })
}

/// Returns the map, if an expression lists its entries as `key=value` in the form of the OpenTelemetry exporter.
pub(crate) fn parse_items_expression(expression: &str) -> Option<String> {
    let mut scanner = Scanner::new(expression);
    scanner.exact("arrayMap(kv -> concat(kv.1, '=', kv.2), CAST(")?;
    let map = scanner.name()?;
    scanner.exact(", 'Array(Tuple(String, String))'))")?;
    scanner.at_end().then_some(map)
}

impl Layout {
    /// Whether a text index of whole strings covers an array column.
    pub(crate) fn has_text_index(&self, column: &Column) -> bool {
        self.indexes.iter().any(|index| {
            index.index_type.starts_with("text(tokenizer = 'array'")
                && (index.expression == column.default_expression
                    || only_name(&index.expression).as_ref() == Some(&column.name))
        })
    }

    /// Returns the column that holds the values of a key, if the table has one in exactly the standard form.
    pub(crate) fn key_column(&self, map: &str, key: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.holds_key(map, key))
    }

    /// Returns whether a materialized column can replace a key of this map.
    pub(crate) fn can_have_key_column(&self, map: &str, key: &str) -> bool {
        column_named(&self.columns, map).is_some_and(|map| can_be_key_column(&map.column_type, key))
    }

    /// Whether the table itself is sorted by this column, among rows with these values.
    pub(crate) fn is_sorted_by(&self, column: &str, only: &[ColumnValue]) -> bool {
        let is_fixed = |name: &String| only.iter().any(|only| only.column == *name);
        let mut names = self.sorting_key.iter().map(|key| only_name(key));
        let first = names.find(|name| !name.as_ref().is_some_and(is_fixed)).flatten();
        first.is_some_and(|first| first == column)
    }

    /// Returns the table that holds the rows: the local one, for a distributed table whose local table this server has.
    pub(crate) fn underlying(&self) -> &Self {
        self.local.as_deref().unwrap_or(self)
    }
}

impl Projection {
    /// Whether it holds rows, sorted by this column.
    pub(crate) fn is_sorted_by(&self, column: &str) -> bool {
        self.normal && self.sorting_key.first().is_some_and(|first| first == column)
    }

    /// Returns the columns that it holds unchanged.
    pub(crate) fn columns(&self) -> ProjectedColumns {
        let selected = self.query.strip_prefix("SELECT ").unwrap_or_default();
        let selected = split_outside(selected, " ORDER BY ").map_or(selected, |(selected, _)| selected);
        let parts = split_list(selected);
        ProjectedColumns {
            all: parts.contains(&"*"),
            named: parts.iter().filter_map(|part| only_name(part)).collect(),
        }
    }
}

impl TableEngine {
    /// Whether a merge replaces, collapses or aggregates rows with the same sorting key. Until then, all are stored.
    pub(crate) fn replaces_rows(&self) -> bool {
        let Self::MergeTree { name } = self else { return false };
        // Only these keep all rows. An unknown engine counts as one that replaces rows.
        !matches!(name.as_str(), "MergeTree" | "ReplicatedMergeTree" | "SharedMergeTree")
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::MergeTree { name } | Self::Other(name) => name,
            Self::Distributed { .. } => "Distributed",
        }
    }

    /// Parses `engine` and `engine_full` of `system.tables`.
    pub(crate) fn from_system_table(engine: &str, full: &str) -> Self {
        if engine.ends_with("MergeTree") {
            return Self::MergeTree { name: engine.to_owned() };
        }
        let distributed = || {
            let inside = full.strip_prefix("Distributed(").filter(|_| engine == "Distributed")?;
            let (inside, _) = split_outside(inside, ")")?;
            let mut arguments = split_list(inside).into_iter().map(|argument| {
                let mut scanner = Scanner::new(argument);
                scanner.literal().or_else(|| scanner.name()).filter(|_| scanner.at_end())
            });
            let [cluster, database, table] = [arguments.next()??, arguments.next()??, arguments.next()??];
            Some(Self::Distributed { cluster, database, table })
        };
        distributed().unwrap_or_else(|| Self::Other(engine.to_owned()))
    }

    /// Returns database and name of the local tables of a distributed table. Where the engine names no database, each server
    /// uses its default one; the given one is the best guess.
    pub(crate) fn local_table<'a>(&'a self, default: &'a str) -> Option<(&'a str, &'a str)> {
        let Self::Distributed { database, table, .. } = self else { return None };
        Some((if database.is_empty() { default } else { database }, table))
    }
}

/// Finds the key columns.
pub(crate) fn with_keys(columns: Vec<Column>) -> Vec<Column> {
    let standard_key = |column: &Column| {
        if column.default_kind != "MATERIALIZED" || column.type_text != KEY_COLUMN_TYPE {
            return None;
        }
        let key = parse_key_expression(&column.default_expression)?;
        can_be_key_column(&column_named(&columns, &key.map)?.column_type, &key.key).then_some(key)
    };
    let keys: Vec<Option<MapKey>> = columns.iter().map(standard_key).collect();
    columns.into_iter().zip(keys).map(|(column, key)| Column { key, ..column }).collect()
}
