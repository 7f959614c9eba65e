//! Suggestions of DDL for the bound table that make searches cheaper. The service never executes them.

use tracewarden_clickhouse::DdlAdvice;

use crate::core::{Administrator, ServiceError};
use crate::source::discovery::Source;

impl Source {
    /// Returns DDL suggestions by the table's current state. Reads only counts of spans and returns no span data.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], or a failure of ClickHouse or the application database.
    pub async fn ddl(&self, _admin: &Administrator<'_>) -> Result<DdlAdvice, ServiceError> {
        let model = self.core.db.begin_read().await?.access_model().await?;
        let binding = model.binding.ok_or(ServiceError::NotBound)?;
        Ok(self
            .core
            .clickhouse
            .session()
            .ddl(&binding, &model.fields, self.core.settings.discovery_samples)
            .await?)
    }
}
