//! Reads the parts of a table: sizes of columns, columns and projections that old parts lack, and running mutations.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::only_name;
use crate::sql::Statement;
use crate::{StoreError, TraceStore};

/// Contents of the parts, as far as the user may read them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Sizes of each column, by its name; empty when the user may not read them.
    pub(super) columns: BTreeMap<String, Held>,
    /// Number of parts, and of parts with each projection; `None` when the user may not read them.
    pub(super) projections: Option<(u64, BTreeMap<String, u64>)>,
    /// Size of each projection in bytes.
    pub(super) projection_bytes: BTreeMap<String, u64>,
    /// Additions that ClickHouse is building.
    pub(super) building: BTreeSet<Built>,
    /// System tables that could not be read.
    pub(super) unknown: Vec<&'static str>,
}

/// How much the parts hold of a column.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Number of parts that hold it.
    pub(super) parts: u64,
    /// Number of rows of these parts.
    pub(super) rows: u64,
    /// Compressed bytes.
    pub(super) bytes: u64,
}

/// The subject of a mutation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Built {
    Column(String),
    Index(String),
    Projection(String),
}

impl Built {
    /// Parses the command of a mutation.
    fn read(command: &str) -> Option<Self> {
        let command = command.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(command);
        let named = |verb: &str| only_name(command.strip_prefix(verb)?);
        named("MATERIALIZE COLUMN ")
            .map(Self::Column)
            .or_else(|| named("MATERIALIZE INDEX ").map(Self::Index))
            .or_else(|| named("MATERIALIZE PROJECTION ").map(Self::Projection))
    }
}

impl Parts {
    /// Returns the bytes per row of this column.
    pub(super) fn row_bytes(&self, column: &str) -> Option<f64> {
        let held = self.columns.get(column)?;
        // Parts whose columns share one file do not report the size of each column. Arrays that are all empty may have the
        // size 0.
        if held.rows == 0 || self.columns.values().all(|held| held.bytes == 0) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let bytes = held.bytes as f64 / held.rows as f64;
        Some(bytes)
    }

    /// Whether every part has this column, as far as known.
    pub(super) fn all_have_column(&self, column: &str) -> bool {
        // All counts come from one statement, since parts change between two. At least one column is in every part.
        let most = self.columns.values().map(|held| held.parts).max();
        most.is_none_or(|most| self.columns.get(column).is_some_and(|held| held.parts >= most))
    }

    /// Whether every part has this projection, as far as known.
    pub(super) fn all_have_projection(&self, projection: &str) -> bool {
        self.projections.as_ref().is_none_or(|(parts, with)| with.get(projection).unwrap_or(&0) >= parts)
    }
}

impl TraceStore {
    /// Reads the parts of a table.
    ///
    /// # Errors
    /// When ClickHouse fails. Facts that the user may not read are unknown.
    pub(super) async fn parts(&self, database: &str, table: &str) -> Result<Parts, StoreError> {
        let of = |select: &str, condition: &str| {
            let mut statement = Statement::default();
            let (database, table) = (statement.string(database), statement.string(table));
            statement
                .push(&format!("{select} WHERE database = {database} AND table = {table} AND {condition}"));
            statement
        };
        let mutations = of("SELECT command FROM system.mutations", "NOT is_done AND latest_fail_reason = ''");
        let columns = of(
            "SELECT column, count(), sum(rows), sum(column_data_compressed_bytes) FROM system.parts_columns",
            "active AND rows > 0 GROUP BY column",
        );
        let projections = of(
            "SELECT arrayJoin(arrayPushBack(projections, '')) AS projection, count() FROM system.parts",
            "active AND rows > 0 GROUP BY projection",
        );
        let bytes = of(
            "SELECT name, sum(data_compressed_bytes) FROM system.projection_parts",
            "active GROUP BY name",
        );
        // First, so that the parts read afterwards show the result of each completed mutation.
        let mutations = self.catalogue::<(String,)>(mutations).await?;
        let (columns, projections, bytes) = futures::try_join!(
            self.catalogue::<(String, u64, u64, u64)>(columns),
            self.catalogue::<(String, u64)>(projections),
            self.catalogue::<(String, u64)>(bytes),
        )?;
        let mut unknown = Vec::new();
        for (name, known) in [
            ("system.mutations", mutations.is_some()),
            ("system.parts", projections.is_some()),
            ("system.parts_columns", columns.is_some()),
            ("system.projection_parts", bytes.is_some()),
        ] {
            if !known {
                unknown.push(name);
            }
        }
        let held = |(name, parts, rows, bytes): (String, u64, u64, u64)| (name, Held { parts, rows, bytes });
        Ok(Parts {
            columns: columns.unwrap_or_default().into_iter().map(held).collect(),
            projections: projections.map(|rows| {
                let mut with: BTreeMap<String, u64> = rows.into_iter().collect();
                (with.remove("").unwrap_or_default(), with)
            }),
            projection_bytes: bytes.unwrap_or_default().into_iter().collect(),
            building: mutations
                .unwrap_or_default()
                .iter()
                .filter_map(|(command,)| Built::read(command))
                .collect(),
            unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_mutations_are_read() {
        assert_eq!(Built::read("(MATERIALIZE COLUMN a)"), Some(Built::Column("a".to_owned())));
        assert_eq!(Built::read("MATERIALIZE INDEX `a b`"), Some(Built::Index("a b".to_owned())));
        assert_eq!(Built::read("(MATERIALIZE PROJECTION `p\\``)"), Some(Built::Projection("p`".to_owned())));
        assert_eq!(Built::read("(DELETE WHERE 1)"), None);
    }
}
