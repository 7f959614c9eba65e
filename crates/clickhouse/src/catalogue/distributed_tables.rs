//! The distributed tables that the user can see.

use std::collections::BTreeSet;

use super::Catalogue;
use crate::Result;
use crate::schema::TableEngine;
use crate::sql::Statement;

/// A distributed table, and the table of this server behind it.
pub(super) struct DistributedTable {
    pub(super) database: String,
    pub(super) name: String,
    cluster: String,
    /// Database and name of the table behind it.
    pub(super) local: (String, String),
}

/// All distributed tables.
pub(super) struct DistributedTables(Vec<DistributedTable>);

impl Catalogue {
    /// Reads all distributed tables.
    pub(super) async fn distributed_tables(&self) -> Result<DistributedTables> {
        let statement =
            "SELECT database, name, engine, engine_full FROM system.tables WHERE engine = 'Distributed'";
        let rows: Vec<[String; 4]> = self.client.rows(Statement::new(statement)).await?;
        Ok(DistributedTables::new(rows.iter().map(|row| row.each_ref().map(String::as_str))))
    }
}

impl DistributedTables {
    /// Finds them among tables, each with `database`, `name`, `engine` and `engine_full` of `system.tables`.
    pub(super) fn new<'a>(tables: impl Iterator<Item = [&'a str; 4]>) -> Self {
        let distributed_tables = tables.filter_map(|[database, name, engine, full]| {
            let engine = TableEngine::from_system_table(engine, full);
            let (local_database, local) = engine.local_table(database)?;
            let local = (local_database.to_owned(), local.to_owned());
            let TableEngine::Distributed { cluster, .. } = engine else { return None };
            Some(DistributedTable { database: database.to_owned(), name: name.to_owned(), cluster, local })
        });
        Self(distributed_tables.collect())
    }

    /// Returns the distributed table of this name.
    pub(super) fn find(&self, database: &str, name: &str) -> Option<&DistributedTable> {
        self.0.iter().find(|table| table.database == database && table.name == name)
    }

    /// Returns the distributed table in front of this local one.
    pub(super) fn over(&self, database: &str, local: &str) -> Option<&DistributedTable> {
        self.0.iter().find(|table| table.local.0 == database && table.local.1 == local)
    }

    /// Returns the names that a table's trace index may have: that of the OpenTelemetry exporter, and those of Jaeger and
    /// SigNoz. The index of a distributed table must be distributed as well: one server's index lacks the spans on the others.
    pub(super) fn index_names(&self, database: &str, name: &str) -> Vec<String> {
        let of_table = |table: &str| {
            [format!("{table}_trace_id_ts"), "trace_id_timestamps".to_owned(), "trace_summary".to_owned()]
        };
        let Some(table) = self.find(database, name) else { return of_table(name).to_vec() };
        let is_index = |index: &&DistributedTable, wanted: &String| {
            index.database == database && index.local.0 == table.local.0 && index.local.1 == *wanted
        };
        let index = |wanted| Some(self.0.iter().find(|index| is_index(index, wanted))?.name.clone());
        of_table(&table.local.1).iter().filter_map(index).collect()
    }

    /// Returns the clusters of all tables.
    pub(super) fn clusters(&self) -> BTreeSet<&str> {
        self.0.iter().map(|table| table.cluster.as_str()).collect()
    }
}
