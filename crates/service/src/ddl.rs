//! What to add to the bound table so that searching costs less. The service only ever says it.

use tracewarden_model::{Binding, FieldRef};
use tracewarden_tracestore::DdlAdvice;

use crate::error::ServiceError;
use crate::principal::Administrator;
use crate::service::Service;

impl Service {
    /// What to add to the bound table, by what it has at this moment. Of spans, only counts are taken, and none leaves.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], or a failure of either store.
    pub async fn ddl(&self, _admin: &Administrator<'_>) -> Result<DdlAdvice, ServiceError> {
        let model = self.db().begin_read().await?.access_model().await?;
        let binding = model.binding.ok_or(ServiceError::NotBound)?;
        Ok(self.store().session().ddl(&binding, &model.fields, self.settings().discovery_samples).await?)
    }

    /// The id of the suggestion that a search by these fields would gain most from, by what was last seen of the table.
    /// Asks nobody; `None` when nothing is known to be missing. For administrators: ids name fields.
    pub fn helpful_suggestion<'a>(
        &self,
        binding: &Binding,
        fields: impl IntoIterator<Item = &'a FieldRef>,
    ) -> Option<String> {
        self.store().helpful_suggestion(binding, fields)
    }
}
