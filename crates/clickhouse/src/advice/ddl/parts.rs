//! Reads the parts of a table: sizes of columns, columns and projections that old parts lack, and running mutations.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;
use crate::catalogue::Catalogue;
use crate::schema::only_name;
use crate::sql::{Statement, quote};

/// Contents of the parts, as far as the user may read them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Sizes of each column, by its name; empty when the user may not read them.
    pub(super) columns: BTreeMap<String, ColumnSize>,
    /// Number of parts, and of parts with each projection; `None` when the user may not read them.
    pub(super) projections: Option<(u64, BTreeMap<String, u64>)>,
    /// Size of each projection in bytes.
    pub(super) projection_bytes: BTreeMap<String, u64>,
    /// Additions that ClickHouse is building, as [`materialize`] writes the commands.
    pub(super) building: BTreeSet<String>,
    /// System tables that could not be read.
    pub(super) unknown: Vec<&'static str>,
}

/// How much the parts hold of a column.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnSize {
    /// Number of parts that hold it.
    pub(super) parts: u64,
    /// Number of rows of these parts.
    pub(super) rows: u64,
    /// Compressed bytes.
    pub(super) bytes: u64,
}

/// Writes the command that builds an addition: a `COLUMN`, an `INDEX` or a `PROJECTION`.
pub(super) fn materialize(kind: &str, name: &str) -> String {
    format!("MATERIALIZE {kind} {}", quote(name))
}

/// Parses the command of a mutation, and writes it as [`materialize`] does; `None` for one that builds no addition.
fn built_by(command: &str) -> Option<String> {
    let command = command.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(command);
    let (kind, name) = command.strip_prefix("MATERIALIZE ")?.split_once(' ')?;
    Some(materialize(kind, &only_name(name)?))
}

impl Parts {
    /// Returns the bytes per row of this column.
    pub(super) fn row_bytes(&self, column: &str) -> Option<f64> {
        let size = self.columns.get(column)?;
        // Parts whose columns share one file do not report the size of each column. Arrays that are all empty may have the
        // size 0.
        if size.rows == 0 || self.columns.values().all(|size| size.bytes == 0) {
            return None;
        }
        Some(size.bytes as f64 / size.rows as f64)
    }

    /// Whether every part has this column, as far as known.
    pub(super) fn all_have_column(&self, column: &str) -> bool {
        // All counts come from one statement, since parts change between two. At least one column is in every part.
        let most = self.columns.values().map(|size| size.parts).max();
        most.is_none_or(|most| self.columns.get(column).is_some_and(|size| size.parts >= most))
    }

    /// Whether every part has this projection, as far as known.
    pub(super) fn all_have_projection(&self, projection: &str) -> bool {
        self.projections
            .as_ref()
            .is_none_or(|(parts, with_projection)| with_projection.get(projection).unwrap_or(&0) >= parts)
    }
}

/// Reads the parts of a table.
///
/// # Errors
/// When ClickHouse fails. Facts that the user may not read are unknown.
pub(super) async fn parts(catalogue: &Catalogue, database: &str, table: &str) -> Result<Parts> {
    let table_statement = |select: &str, condition: &str| {
        let mut statement = Statement::default();
        let (database, table) = (statement.string(database), statement.string(table));
        statement.push(&format!("{select} WHERE database = {database} AND table = {table} AND {condition}"));
        statement
    };
    let mutations =
        table_statement("SELECT command FROM system.mutations", "NOT is_done AND latest_fail_reason = ''");
    let columns = table_statement(
        "SELECT column, count(), sum(rows), sum(column_data_compressed_bytes) FROM system.parts_columns",
        "active AND rows > 0 GROUP BY column",
    );
    let projections = table_statement(
        "SELECT arrayJoin(arrayPushBack(projections, '')) AS projection, count() FROM system.parts",
        "active AND rows > 0 GROUP BY projection",
    );
    let bytes = table_statement(
        "SELECT name, sum(data_compressed_bytes) FROM system.projection_parts",
        "active GROUP BY name",
    );
    // First, so that the parts read afterwards show the result of each completed mutation.
    let mutations = catalogue.optional_system_rows::<(String,)>(mutations).await?;
    let (columns, projections, bytes) = futures::try_join!(
        catalogue.optional_system_rows::<(String, u64, u64, u64)>(columns),
        catalogue.optional_system_rows::<(String, u64)>(projections),
        catalogue.optional_system_rows::<(String, u64)>(bytes),
    )?;
    let unknown = [
        ("system.mutations", mutations.is_none()),
        ("system.parts", projections.is_none()),
        ("system.parts_columns", columns.is_none()),
        ("system.projection_parts", bytes.is_none()),
    ];
    let unknown = unknown.into_iter().filter(|(_, unknown)| *unknown).map(|(name, _)| name).collect();
    let size =
        |(name, parts, rows, bytes): (String, u64, u64, u64)| (name, ColumnSize { parts, rows, bytes });
    Ok(Parts {
        columns: columns.unwrap_or_default().into_iter().map(size).collect(),
        projections: projections.map(|rows| {
            let mut with_projection: BTreeMap<String, u64> = rows.into_iter().collect();
            (with_projection.remove("").unwrap_or_default(), with_projection)
        }),
        projection_bytes: bytes.unwrap_or_default().into_iter().collect(),
        building: mutations.unwrap_or_default().iter().filter_map(|(command,)| built_by(command)).collect(),
        unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_mutations_are_read() {
        assert_eq!(built_by("(MATERIALIZE COLUMN a)"), Some(materialize("COLUMN", "a")));
        assert_eq!(built_by("MATERIALIZE INDEX `a b`"), Some(materialize("INDEX", "a b")));
        assert_eq!(built_by("(MATERIALIZE PROJECTION `p\\``)"), Some(materialize("PROJECTION", "p`")));
        assert_eq!(built_by("(DELETE WHERE 1)"), None);
    }
}
