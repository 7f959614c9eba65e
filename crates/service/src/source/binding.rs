//! Binding of a table as the trace source.

use tracewarden_appdb::CurrentModel;
use tracewarden_model::{AccessModel, Binding, Display, MarkedField};

use crate::core::{Administrator, FieldError, IfMatch, Result, ServiceError, check_version, resolve};
use crate::source::adoption::{is_other_table, without_column};
use crate::source::discovery::{Source, refuse_system_database};

/// Access model after a change of the binding.
#[derive(Debug, Clone)]
pub struct BoundModel {
    /// Current model.
    pub current: CurrentModel,
    /// Warnings about a binding that works, but not optimally.
    pub warnings: Vec<String>,
}

impl Source {
    /// Binds a table. The marked fields stay marked if the new table has them. Binding the same table again makes no change.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionRequired`] without `if_match` when a table is bound, [`ServiceError::PreconditionFailed`],
    /// [`ServiceError::Refused`] with pointers to members of the binding, [`ServiceError::Conflict`] when a marked field or a
    /// stored policy would break, or a ClickHouse failure.
    pub async fn put_binding(
        &self,
        admin: &Administrator<'_>,
        binding: Binding,
        if_match: Option<IfMatch>,
    ) -> Result<BoundModel> {
        let result = async {
            let current = self.core.db.current_model().await?;
            if current.model.binding.is_some() || if_match.is_some() {
                check_version(if_match.clone(), &current)?;
            }
            let current = current.model;
            let mut warnings = self.check_binding(&binding).await?;
            self.check_time_bucket(&current, &binding).await?;
            let columns = self.core.clickhouse.catalogue().columns(&binding.database, &binding.table).await?;
            let other_table = is_other_table(&current, &binding);
            let mut errors = Vec::new();
            let mut fields = Vec::with_capacity(current.fields.len());
            for marked in &current.fields {
                match resolve(&marked.field, Some(marked.logical), &columns) {
                    Ok((source, logical, column_type)) => {
                        let field = MarkedField { source, logical, column_type, ..marked.clone() };
                        // The comparison was made with the rows of the other table.
                        if let Some(column) = field.column.as_ref().filter(|_| other_table) {
                            warnings.push(format!(
                                "column `{column}` of `{}` is no longer adopted, because this is another table: \
                                 mark the field with the column again",
                                field.field
                            ));
                        }
                        fields.push(if other_table { without_column(field) } else { field });
                    }
                    Err((_, code, detail)) => {
                        let detail = format!("marked field `{}`: {detail}", marked.field);
                        errors.push(FieldError::new("/table", code, detail));
                    }
                }
            }
            if !errors.is_empty() {
                let detail =
                    "the table lacks fields that are marked; unmark them first, or choose another table";
                return Err(ServiceError::Conflict { detail: detail.to_owned(), errors });
            }
            let next = AccessModel { version: current.version, binding: Some(binding), fields };
            let current = self.core.put_model(admin, "schema.put_binding", &current, next, if_match).await?;
            Ok(BoundModel { current, warnings })
        };
        self.core.audit_denial(admin, "schema.put_binding", None, result.await).await
    }

    /// Checks a table as trace source; returns warnings about what works, but not optimally.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with pointers to members of the binding, or a ClickHouse failure.
    pub(crate) async fn check_binding(&self, binding: &Binding) -> Result<Vec<String>> {
        refuse_system_database(&binding.database, "/database")?;
        Ok(self.core.clickhouse.catalogue().check_binding(binding).await?)
    }

    /// Compares a time bucket with all spans, unless the current binding reads the same rows with it.
    pub(crate) async fn check_time_bucket(&self, current: &AccessModel, binding: &Binding) -> Result<()> {
        let rows = |binding: &Binding| Binding { display: Display::default(), ..binding.clone() };
        if current.binding.as_ref().map(rows) == Some(rows(binding)) {
            return Ok(());
        }
        Ok(self.core.clickhouse.catalogue().check_time_bucket(binding).await?)
    }
}
