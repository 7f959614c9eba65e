//! The current layout of a table in ClickHouse: engine, key columns, skip indexes, projections.
//!
//! Operators add and drop these while the service runs. So this crate assumes nothing: it reads them from ClickHouse's system
//! tables, caches them for a short while, and reads them again. They change only the speed of an answer, never the answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tracewarden_model::ColumnType;

#[cfg(test)]
mod tests;
mod text;

use crate::shared_work::TtlCache;
use crate::sql::{Statement, quote, quote_literal};
use crate::{ClickHouse, ClickHouseError};
use text::{Scanner, split_list};

pub(crate) use text::{only_name, split_outside};

/// How long a layout is cached: changes are noticed well within a minute.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// The type of every key column.
pub(crate) const KEY_COLUMN_TYPE: &str = "LowCardinality(Nullable(String))";

/// The layout of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Its engine.
    pub engine: TableEngine,
    /// Its columns, in its order.
    pub columns: Vec<LayoutColumn>,
    /// Its skip indexes. Those of the local table, for a distributed one.
    pub indexes: Vec<SkipIndex>,
    /// Its projections. Those of the local table, for a distributed one.
    pub projections: Vec<Projection>,
    /// Expressions of the sorting key, as ClickHouse writes them. Those of the local table, for a distributed one.
    pub sorting_key: Vec<String>,
    /// The partition key as ClickHouse writes it, empty without one.
    pub partition_key: String,
    /// Rows, where ClickHouse knows the number. Those on this server, for a distributed table.
    pub rows: Option<u64>,
    /// Bytes on disk, where ClickHouse knows the number.
    pub bytes: Option<u64>,
    /// System tables that the user may not read or that this version does not have. Their part of the layout is unknown, and
    /// counts as absent.
    pub unknown: Vec<&'static str>,
    /// For a distributed table, its local table, where this server has it.
    pub local: Option<Arc<Layout>>,
}

/// Where a table stores its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableEngine {
    /// On this server, in parts.
    MergeTree {
        /// The engine's full name, such as `ReplicatedReplacingMergeTree`.
        name: String,
    },
    /// In tables of the servers of a cluster.
    Distributed {
        /// The cluster.
        cluster: String,
        /// Database of the local tables; empty for each server's default.
        database: String,
        /// Name of the local tables.
        table: String,
    },
    /// Elsewhere, or the table does not exist.
    Other(String),
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Its type as ClickHouse writes it.
    pub type_text: String,
    /// `DEFAULT`, `MATERIALIZED`, `ALIAS`, `EPHEMERAL`, or empty.
    pub default_kind: String,
    /// Its expression as ClickHouse writes it, empty without one.
    pub default_expression: String,
    /// The map key whose values it holds.
    pub key: Option<MapKey>,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapKey {
    /// The map.
    pub map: String,
    /// The key.
    pub key: String,
}

/// A skip index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipIndex {
    /// Its name.
    pub name: String,
    /// Its type with its arguments, such as `bloom_filter(0.01)`.
    pub index_type: String,
    /// Its expression, as ClickHouse writes it.
    pub expression: String,
    /// Number of the table's granules that one granule of the index covers.
    pub granularity: u64,
    /// Its size on disk in bytes; zero before it is built.
    pub bytes: u64,
}

/// A projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Its name.
    pub name: String,
    /// Whether it holds rows, not groups of rows.
    pub normal: bool,
    /// Its sorting key: columns by their names, without quotes, and expressions as ClickHouse writes them.
    pub sorting_key: Vec<String>,
    /// Its query as ClickHouse writes it.
    pub query: String,
}

/// The columns that a projection holds unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectedColumns {
    /// All but the materialized ones that are not in `additional`.
    All {
        /// Columns that are named in addition.
        additional: Vec<String>,
    },
    /// These.
    Named(Vec<String>),
}

/// Layouts by database and table.
pub(crate) type LayoutCache = TtlCache<(String, String), Arc<Layout>>;

/// Returns the standard expression of a materialized key column: the key's value, or NULL where the map lacks the key. Not
/// `m[k]`: see `predicate_sql.rs`.
///
/// The key must not be empty, and the map must map strings to strings: [`can_be_key_column`].
pub fn key_column_expression(map: &str, key: &str) -> String {
    let (map, key) = (quote(map), quote_literal(key));
    format!("if(mapContains({map}, {key}), mapValues({map})[indexOf(mapKeys({map}), {key})], NULL)")
}

/// Whether a materialized column can replace this key. Observed with 26.7: `mapContains` and `indexOf` do not find an empty
/// constant among `LowCardinality` keys, and values that are not strings would change their type.
pub fn can_be_key_column(map_type: &ColumnType, key: &str) -> bool {
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

impl Layout {
    /// Returns the column that holds the values of a key, if the table has one in exactly the standard form.
    pub fn key_column(&self, map: &str, key: &str) -> Option<&LayoutColumn> {
        self.columns
            .iter()
            .find(|column| column.key.as_ref().is_some_and(|found| found.map == map && found.key == key))
    }

    /// Whether the table itself is sorted by this column.
    pub fn is_sorted_by(&self, column: &str) -> bool {
        self.sorting_key.first().and_then(|first| only_name(first)).is_some_and(|first| first == column)
    }

    /// Returns the table that holds the rows: the local one, for a distributed table whose local table this server has.
    pub fn underlying(&self) -> &Self {
        self.local.as_deref().unwrap_or(self)
    }
}

impl Projection {
    /// Whether it holds rows, sorted by this column.
    pub fn is_sorted_by(&self, column: &str) -> bool {
        self.normal && self.sorting_key.first().is_some_and(|first| first == column)
    }

    /// Returns the columns that it holds unchanged.
    pub fn columns(&self) -> ProjectedColumns {
        let selected = self.query.strip_prefix("SELECT ").unwrap_or_default();
        let selected = split_outside(selected, " ORDER BY ").map_or(selected, |(selected, _)| selected);
        let parts = split_list(selected);
        let named = parts.iter().filter_map(|part| only_name(part)).collect();
        if parts.contains(&"*") {
            ProjectedColumns::All { additional: named }
        } else {
            ProjectedColumns::Named(named)
        }
    }
}

impl TableEngine {
    /// Its name.
    pub fn name(&self) -> &str {
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
        let arguments = || {
            let inside = full.strip_prefix("Distributed(")?;
            let (inside, _) = split_at_closing_bracket(inside)?;
            let mut arguments = split_list(inside).into_iter().map(|argument| {
                let mut scanner = Scanner::new(argument);
                scanner.literal().or_else(|| scanner.name()).filter(|_| scanner.at_end())
            });
            let [cluster, database, table] = [arguments.next()??, arguments.next()??, arguments.next()??];
            Some(Self::Distributed { cluster, database, table })
        };
        if engine == "Distributed"
            && let Some(distributed) = arguments()
        {
            return distributed;
        }
        Self::Other(engine.to_owned())
    }
}

/// Splits at the bracket that closes an open one.
fn split_at_closing_bracket(text: &str) -> Option<(&str, &str)> {
    split_outside(text, ")")
}

impl ClickHouse {
    /// Returns the layout of a table, not older than half a minute.
    ///
    /// # Errors
    /// When ClickHouse fails. A system table that cannot be read is no error: see [`Layout::unknown`].
    pub async fn layout(&self, database: &str, table: &str) -> Result<Arc<Layout>, ClickHouseError> {
        let (store, key) = (self.clone(), (database.to_owned(), table.to_owned()));
        let (database, table) = key.clone();
        let from_system_table =
            Box::pin(async move { store.current_layout(&database, &table).await.map(Arc::new) });
        self.layouts.get(key, CACHE_TTL, from_system_table).await
    }

    /// Returns the layout of a table that was last read, without reading it.
    pub(crate) fn cached_layout(&self, database: &str, table: &str) -> Option<Arc<Layout>> {
        self.layouts.peek(&(database.to_owned(), table.to_owned()))
    }

    /// Reads the current layout of a table.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn current_layout(&self, database: &str, table: &str) -> Result<Layout, ClickHouseError> {
        let mut layout = self.read_layout(database, table).await?;
        if let TableEngine::Distributed { database: local_database, table: local, .. } = &layout.engine {
            let local_database = if local_database.is_empty() { database } else { local_database };
            let local = self.read_layout(local_database, local).await?;
            if matches!(local.engine, TableEngine::MergeTree { .. }) {
                layout.unknown.clone_from(&local.unknown);
                layout.indexes.clone_from(&local.indexes);
                layout.projections.clone_from(&local.projections);
                layout.sorting_key.clone_from(&local.sorting_key);
                layout.partition_key.clone_from(&local.partition_key);
                (layout.rows, layout.bytes) = (local.rows, local.bytes);
                // The tables of the other servers cannot be seen, so the distributed table must declare the column, too.
                for column in &mut layout.columns {
                    let local_column = local.columns.iter().find(|own| own.name == column.name);
                    column.key = column.key.take().filter(|key| {
                        local_column.is_some_and(|local_column| local_column.key.as_ref() == Some(key))
                    });
                }
                layout.local = Some(Arc::new(local));
            } else {
                layout.columns.iter_mut().for_each(|column| column.key = None);
            }
        }
        Ok(layout)
    }

    async fn read_layout(&self, database: &str, table: &str) -> Result<Layout, ClickHouseError> {
        let table_statement = |select: &str, name: &str, rest: &str| {
            let mut statement = Statement::default();
            let (database, table) = (statement.string(database), statement.string(table));
            statement.push(&format!("{select} WHERE database = {database} AND {name} = {table}{rest}"));
            statement
        };
        let tables = table_statement(
            "SELECT engine, engine_full, sorting_key, partition_key, total_rows, total_bytes FROM system.tables",
            "name",
            "",
        );
        type TableRow = (String, String, String, String, Option<u64>, Option<u64>);
        let columns = table_statement(
            "SELECT name, type, default_kind, default_expression FROM system.columns",
            "table",
            " ORDER BY position",
        );
        let indexes = table_statement(
            "SELECT name, type_full, expr, granularity, data_compressed_bytes FROM system.data_skipping_indices",
            "table",
            "",
        );
        let projections = table_statement(
            "SELECT name, type = 'Normal', sorting_key, query FROM system.projections",
            "table",
            "",
        );
        let (tables, columns, indexes, projections) = futures::try_join!(
            self.client.rows::<TableRow>(tables),
            self.client.rows::<(String, String, String, String)>(columns),
            self.optional_system_rows::<(String, String, String, u64, u64)>(indexes),
            self.optional_system_rows::<(String, u8, Vec<String>, String)>(projections),
        )?;
        let mut unknown = Vec::new();
        if indexes.is_none() {
            unknown.push("system.data_skipping_indices");
        }
        if projections.is_none() {
            unknown.push("system.projections");
        }
        let (engine, full, sorting_key, partition_key, rows, bytes) =
            tables.into_iter().next().unwrap_or_default();
        let columns: Vec<LayoutColumn> = columns
            .into_iter()
            .map(|(name, type_text, default_kind, default_expression)| LayoutColumn {
                name,
                column_type: ColumnType::parse(&type_text),
                type_text,
                default_kind,
                default_expression,
                key: None,
            })
            .collect();
        Ok(Layout {
            engine: TableEngine::from_system_table(&engine, &full),
            columns: with_keys(columns),
            indexes: indexes
                .unwrap_or_default()
                .into_iter()
                .map(|(name, index_type, expression, granularity, bytes)| SkipIndex {
                    name,
                    index_type,
                    expression,
                    granularity,
                    bytes,
                })
                .collect(),
            projections: projections
                .unwrap_or_default()
                .into_iter()
                .map(|(name, normal, sorting_key, query)| Projection {
                    name,
                    normal: normal == 1,
                    sorting_key,
                    query,
                })
                .collect(),
            sorting_key: split_list(&sorting_key).into_iter().map(str::to_owned).collect(),
            partition_key,
            rows,
            bytes,
            unknown,
            local: None,
        })
    }

    /// Returns rows of an optional system table: `None` when the user may not read it (497), or when this version of
    /// ClickHouse lacks the table (60) or these columns (47).
    pub(crate) async fn optional_system_rows<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Option<Vec<T>>, ClickHouseError> {
        match self.client.rows(statement).await {
            Ok(rows) => Ok(Some(rows)),
            Err(ClickHouseError::Exception { code: Some(497 | 60 | 47), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Finds the key columns.
fn with_keys(columns: Vec<LayoutColumn>) -> Vec<LayoutColumn> {
    let maps: HashMap<String, ColumnType> =
        columns.iter().map(|column| (column.name.clone(), column.column_type.clone())).collect();
    let standard_key = |column: &LayoutColumn| {
        if column.default_kind != "MATERIALIZED" || column.type_text != KEY_COLUMN_TYPE {
            return None;
        }
        let key = parse_key_expression(&column.default_expression)?;
        maps.get(&key.map).is_some_and(|map| can_be_key_column(map, &key.key)).then_some(key)
    };
    columns.into_iter().map(|column| LayoutColumn { key: standard_key(&column), ..column }).collect()
}
