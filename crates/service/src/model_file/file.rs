//! Access model in the form of a file, and its export.

use tracewarden_appdb::{ModelState, Policy};
use tracewarden_model::{Binding, ClaimsMappings, ColumnType, FieldSource, MarkedField};

use crate::core::{Administrator, Result, ServiceError};
use crate::model_file::ModelFiles;
use crate::source::{FieldMark, is_usable_in_policies};

/// Access model in the form of a file.
#[derive(Debug, Clone, Default)]
pub struct ModelFile {
    /// Bound table, if any.
    pub binding: Option<Binding>,
    /// All marked fields.
    pub fields: Vec<FileField>,
    /// All roles with their policies. If the role `admin` is missing, it has no policies.
    pub roles: Vec<(String, Vec<Policy>)>,
    /// Mappings of claims; `None` if the file does not mention them.
    pub mappings: Option<ClaimsMappings>,
    /// Tests, as a document that [`RunTests`](crate::RunTests) parses; empty for none.
    pub tests: String,
}

/// Marked field of a file.
#[derive(Debug, Clone)]
pub struct FileField {
    /// The field and its marks.
    pub mark: FieldMark,
    /// Source of the field according to the file. If it differs from the stored one, the table is inspected, and the table
    /// decides.
    pub source: Option<FieldSource>,
    /// Column type according to the file; handled like `source`.
    pub column_type: Option<ColumnType>,
}

impl From<MarkedField> for FileField {
    fn from(marked: MarkedField) -> Self {
        let MarkedField { field, source, logical, column_type, filterable, policy, column } = marked;
        let (logical, policy) = (Some(logical), Some(policy));
        let mark = FieldMark { map: field.map, name: field.name, logical, filterable, policy, column };
        Self { mark, source: Some(source), column_type: Some(column_type) }
    }
}

impl From<ModelState> for ModelFile {
    fn from(state: ModelState) -> Self {
        Self {
            binding: state.model.binding,
            fields: state.model.fields.into_iter().map(FileField::from).collect(),
            roles: state.roles.into_iter().collect(),
            mappings: Some(state.mappings),
            tests: state.tests,
        }
    }
}

impl FileField {
    pub(super) fn equals(&self, stored: &MarkedField) -> bool {
        let FieldMark { map, name, logical, filterable, policy, column } = &self.mark;
        (map, name) == (&stored.field.map, &stored.field.name)
            && *logical == Some(stored.logical)
            && *filterable == stored.filterable
            && is_usable_in_policies(*policy, stored.logical) == stored.policy
            && *column == stored.column
            && self.source.is_none_or(|source| source == stored.source)
            && self.column_type.as_ref().is_none_or(|column_type| *column_type == stored.column_type)
    }
}

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
    pub async fn export_model(&self, _admin: &Administrator<'_>) -> Result<ExportedModel> {
        let mut tx = self.core.db.begin_read().await?;
        let version = tx.change_number().await?;
        let state = tx.model_state(None).await?;
        let state = state.ok_or_else(|| ServiceError::internal("there is no access model"))?;
        Ok(ExportedModel { version, state })
    }
}
