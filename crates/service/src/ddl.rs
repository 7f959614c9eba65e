//! Suggestions of DDL for the bound table that make searches cheaper. The service never executes them.

use tracewarden_model::{Binding, FieldRef};
use tracewarden_tracestore::DdlAdvice;

use crate::error::ServiceError;
use crate::principal::Administrator;
use crate::service::Service;

impl Service {
    /// Returns DDL suggestions by the table's current state. Reads only counts of spans and returns no span data.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], or a failure of ClickHouse or the application database.
    pub async fn ddl(&self, _admin: &Administrator<'_>) -> Result<DdlAdvice, ServiceError> {
        let model = self.db().begin_read().await?.access_model().await?;
        let binding = model.binding.ok_or(ServiceError::NotBound)?;
        Ok(self.store().session().ddl(&binding, &model.fields, self.settings().discovery_samples).await?)
    }

    /// Returns the id of the suggestion that would help a search by these fields most, from the cached state of the table.
    /// Sends no statement; `None` if no suggestion is known. For administrators only: ids contain field names.
    pub fn helpful_suggestion<'a>(
        &self,
        binding: &Binding,
        fields: impl IntoIterator<Item = &'a FieldRef>,
    ) -> Option<String> {
        self.store().helpful_suggestion(binding, fields)
    }
}
