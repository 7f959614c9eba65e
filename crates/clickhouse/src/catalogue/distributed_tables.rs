//! The distributed tables that the user can see.

use std::collections::BTreeSet;

use super::Catalogue;
use crate::sql::Statement;
use crate::{ClickHouseError, TableEngine};

/// A distributed table, and the table of this server behind it.
pub(super) struct DistributedTable {
    pub(super) database: String,
    pub(super) name: String,
    cluster: String,
    local_database: String,
    local: String,
}

/// All distributed tables.
pub(super) struct DistributedTables(Vec<DistributedTable>);

impl Catalogue {
    /// Reads all distributed tables.
    pub(super) async fn distributed_tables(&self) -> Result<DistributedTables, ClickHouseError> {
        let statement =
            "SELECT database, name, engine, engine_full FROM system.tables WHERE engine = 'Distributed'";
        let rows: Vec<[String; 4]> = self.client.rows(Statement::new(statement)).await?;
        Ok(DistributedTables::new(rows.iter().map(|row| row.each_ref().map(String::as_str))))
    }
}

impl DistributedTable {
    /// Database and name of the table behind it.
    pub(super) fn local(&self) -> (&str, &str) {
        (&self.local_database, &self.local)
    }
}

impl DistributedTables {
    /// Finds them among tables, each with `database`, `name`, `engine` and `engine_full` of `system.tables`.
    pub(super) fn new<'a>(tables: impl Iterator<Item = [&'a str; 4]>) -> Self {
        let distributed_tables = tables.filter_map(|[database, name, engine, full]| {
            let TableEngine::Distributed { cluster, database: local_database, table: local } =
                TableEngine::from_system_table(engine, full)
            else {
                return None;
            };
            let (database, name) = (database.to_owned(), name.to_owned());
            // Without a database, each server uses its default one; this one is the best guess.
            let local_database = if local_database.is_empty() { database.clone() } else { local_database };
            Some(DistributedTable { database, name, cluster, local_database, local })
        });
        Self(distributed_tables.collect())
    }

    /// Returns the distributed table of this name.
    pub(super) fn find(&self, database: &str, name: &str) -> Option<&DistributedTable> {
        self.0.iter().find(|table| table.database == database && table.name == name)
    }

    /// Returns the distributed table in front of this local one.
    pub(super) fn over(&self, database: &str, local: &str) -> Option<&DistributedTable> {
        self.0.iter().find(|table| table.local_database == database && table.local == local)
    }

    /// Returns the names that a table's trace index may have: that of the OpenTelemetry exporter, and those of Jaeger and
    /// SigNoz. The index of a distributed table must be distributed as well: one server's index lacks the spans on the others.
    pub(super) fn index_names(&self, database: &str, name: &str) -> Vec<String> {
        let of_table = |table: &str| {
            [format!("{table}_trace_id_ts"), "trace_id_timestamps".to_owned(), "trace_summary".to_owned()]
        };
        let Some(table) = self.find(database, name) else { return of_table(name).to_vec() };
        let is_index = |index: &&DistributedTable, wanted: &String| {
            index.database == database
                && index.local_database == table.local_database
                && index.local == *wanted
        };
        let index = |wanted| Some(self.0.iter().find(|index| is_index(index, wanted))?.name.clone());
        of_table(&table.local).iter().filter_map(index).collect()
    }

    /// Returns the clusters of all tables.
    pub(super) fn clusters(&self) -> BTreeSet<&str> {
        self.0.iter().map(|table| table.cluster.as_str()).collect()
    }
}
