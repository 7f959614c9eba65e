//! Export of the current access model.

use tracewarden_appdb::ModelState;

use crate::core::{Administrator, ServiceError};
use crate::model_file::ModelFiles;

/// Current model and its version.
#[derive(Debug, Clone)]
pub struct ExportedModel {
    /// Version: the number of the last change.
    pub version: u64,
    /// State of the model.
    pub state: ModelState,
}

impl ModelFiles {
    /// Returns the whole current access model.
    ///
    /// # Errors
    /// When the application database fails.
    pub async fn export_model(&self, _admin: &Administrator<'_>) -> Result<ExportedModel, ServiceError> {
        let mut tx = self.core.db.begin_read().await?;
        let version = tx.change_number().await?;
        let state = tx.model_state(None).await?;
        let state = state.ok_or_else(|| ServiceError::internal("there is no access model"))?;
        Ok(ExportedModel { version, state })
    }
}
