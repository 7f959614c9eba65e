//! What the parts of a table hold: how large columns are, what was never built for old rows, what is being built.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::only_name;
use crate::sql::Statement;
use crate::{StoreError, TraceStore};

/// What parts hold, as far as the store tells.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Of each column, by its name; empty when the user may not know.
    pub(super) columns: BTreeMap<String, Held>,
    /// How many parts there are, and how many have each projection; `None` when the user may not know.
    pub(super) projections: Option<(u64, BTreeMap<String, u64>)>,
    /// Bytes of each projection.
    pub(super) projection_bytes: BTreeMap<String, u64>,
    /// What the store is building.
    pub(super) building: BTreeSet<Built>,
    /// Tables of the catalogue that could not be read.
    pub(super) unknown: Vec<&'static str>,
}

/// How much is held of something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Parts that hold it.
    pub(super) parts: u64,
    /// Their rows.
    pub(super) rows: u64,
    /// Bytes of it, compressed.
    pub(super) bytes: u64,
}

/// Something that the store builds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Built {
    Column(String),
    Index(String),
    Projection(String),
}

impl Built {
    /// From the command of a mutation.
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
    /// Bytes of a row in this column.
    pub(super) fn row_bytes(&self, column: &str) -> Option<f64> {
        let held = self.columns.get(column)?;
        // Parts whose columns share one file do not say how large each is; arrays that are all empty may take nothing.
        if held.rows == 0 || self.columns.values().all(|held| held.bytes == 0) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let bytes = held.bytes as f64 / held.rows as f64;
        Some(bytes)
    }

    /// Whether every part has this column, as far as anybody can tell.
    pub(super) fn all_have_column(&self, column: &str) -> bool {
        // All come from one statement: parts come and go between two. Some column is in every part.
        let most = self.columns.values().map(|held| held.parts).max();
        most.is_none_or(|most| self.columns.get(column).is_some_and(|held| held.parts >= most))
    }

    /// Whether every part has this projection, as far as anybody can tell.
    pub(super) fn all_have_projection(&self, projection: &str) -> bool {
        self.projections.as_ref().is_none_or(|(parts, with)| with.get(projection).unwrap_or(&0) >= parts)
    }
}

impl TraceStore {
    /// What the parts of a table hold.
    ///
    /// # Errors
    /// When the store fails. What the user may not read is unknown.
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
        // First: what is done by now, the parts must show.
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
