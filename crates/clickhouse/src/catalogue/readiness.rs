//! Whether ClickHouse can serve requests.

use crate::{ClickHouse, ClickHouseError};
use tracewarden_model::Binding;

impl ClickHouse {
    /// Checks whether statements can be answered: the server accepts the configured user and has a supported version.
    /// With a binding, every shard of its table has to answer and to keep the settings that are sent with a statement.
    ///
    /// # Errors
    /// The reason why statements cannot be answered.
    pub async fn ready(&self, binding: Option<&Binding>) -> Result<(), ClickHouseError> {
        let store = self.session();
        store.verify_version().await?;
        let Some(binding) = binding else { return Ok(()) };
        let index = binding.trace_index.as_deref();
        let tables = [&binding.table, index.unwrap_or(&binding.table)];
        for engine in store.engines_of(&binding.database, tables).await? {
            Box::pin(store.verify_servers_of(&engine)).await?;
            store.ping_shards(&engine).await?;
        }
        Ok(())
    }
}
