//! Whether ClickHouse can serve requests.

use super::Catalogue;
use crate::ClickHouseError;
use tracewarden_model::Binding;

impl Catalogue {
    /// Checks whether statements can be answered: the server accepts the configured user and has a supported version.
    /// With a binding, every shard of its table has to answer and to keep the settings that are sent with a statement.
    ///
    /// # Errors
    /// The reason why statements cannot be answered.
    pub async fn ready(&self, binding: Option<&Binding>) -> Result<(), ClickHouseError> {
        let catalogue = Self { client: self.client.session(), ..self.clone() };
        catalogue.verify_version().await?;
        let Some(binding) = binding else { return Ok(()) };
        let index = binding.trace_index.as_deref();
        let tables = [&binding.table, index.unwrap_or(&binding.table)];
        for engine in catalogue.engines_of(&binding.database, tables).await? {
            Box::pin(catalogue.verify_servers_of(&engine)).await?;
            catalogue.ping_shards(&engine).await?;
        }
        Ok(())
    }
}
