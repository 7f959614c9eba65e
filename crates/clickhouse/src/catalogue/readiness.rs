//! Whether ClickHouse can serve requests.

use super::Catalogue;
use crate::Result;
use crate::schema::TableEngine;
use crate::sql::{Statement, quote_literal};
use tracewarden_model::Binding;

impl Catalogue {
    /// Checks whether statements can be answered: the server accepts the configured user and has a supported version.
    /// With a binding, every shard of its table has to answer and to keep the settings that are sent with a statement.
    ///
    /// # Errors
    /// The reason why statements cannot be answered.
    pub async fn ready(&self, binding: Option<&Binding>) -> Result<()> {
        let catalogue = Self { client: self.client.session(), ..self.clone() };
        catalogue.verify_version().await?;
        catalogue.verify_bound(binding).await
    }

    /// Checks that every shard of the bound table answers and keeps the settings that are sent with a statement.
    ///
    /// # Errors
    /// The reason why the table cannot be read.
    pub(crate) async fn verify_bound(&self, binding: Option<&Binding>) -> Result<()> {
        let Some(binding) = binding else { return Ok(()) };
        let mut statement = Statement::default();
        let database = statement.string(&binding.database);
        let index = binding.trace_index.as_ref().unwrap_or(&binding.table);
        let names = statement.string_parameters([&binding.table, index]);
        statement.push(&format!(
            "SELECT engine, engine_full FROM system.tables WHERE database = {database} AND name IN ({names})"
        ));
        for (engine, full) in self.client.rows::<(String, String)>(statement).await? {
            let engine = TableEngine::from_system_table(&engine, &full);
            Box::pin(self.verify_servers_of(&engine)).await?;
            if let TableEngine::Distributed { cluster, .. } = &engine {
                // Fails when no replica of a shard answers.
                let statement =
                    format!("SELECT count() FROM cluster({}, system.one)", quote_literal(cluster));
                self.client.rows::<(u64,)>(Statement::new(&statement)).await?;
            }
        }
        Ok(())
    }
}
