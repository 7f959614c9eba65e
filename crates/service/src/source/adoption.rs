//! Adoption of columns: policies read a materialized column in place of a map key.

use tracewarden_clickhouse::KeyColumnComparison;
use tracewarden_model::{AccessModel, Binding, MarkedField};

use crate::core::{FieldError, Result, ServiceError};
use crate::source::discovery::Source;

impl Source {
    /// Compares with the data each column that `fields` adopt and `current` does not. A column's expression does not
    /// determine its values in old parts, and with other values there a policy would grant access to other traces than the
    /// map does.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with pointers into `/fields`, or a ClickHouse failure.
    pub(crate) async fn compare_adopted(
        &self,
        binding: &Binding,
        current: &AccessModel,
        fields: &[MarkedField],
    ) -> Result<()> {
        let (indices, adopted): (Vec<usize>, Vec<MarkedField>) =
            adopted(current, fields).map(|(at, field)| (at, field.clone())).unzip();
        if adopted.is_empty() {
            return Ok(());
        }
        let compared = self.core.clickhouse.catalogue().compare_key_columns(binding, &adopted).await;
        let compared = compared.map_err(|error| match error.into() {
            ServiceError::OverLimit { limit, source, .. } => {
                let detail = "comparing the columns with their maps exceeds the limit, which is ten times \
                              `query_timeout` (`TRACEWARDEN_QUERY_TIMEOUT`): adopt one column at a time while \
                              ClickHouse has little load, or raise the limit temporarily";
                ServiceError::OverLimit { limit, detail: detail.to_owned(), source }
            }
            other => other,
        })?;
        let fields = indices.iter().zip(&adopted).zip(&compared);
        let differing = fields.filter(|(_, compared)| !compared.is_equal());
        let differing: Vec<FieldError> = differing
            .map(|((at, field), compared)| {
                let detail = differs(binding, field, compared);
                FieldError::new(format!("/fields/{at}/column"), "column_differs", detail)
            })
            .collect();
        if differing.is_empty() && compared.len() == adopted.len() {
            return Ok(());
        }
        Err(ServiceError::Refused(differing))
    }
}

fn differs(binding: &Binding, field: &MarkedField, compared: &KeyColumnComparison) -> String {
    let column = field.column.as_deref().unwrap_or_default();
    let table = format!("{}.{}", binding.database, binding.table);
    let mut reasons = Vec::new();
    if compared.differing > 0 {
        reasons.push(format!(
            "`{column}` differs from `{}` in {} of {} rows: run `ALTER TABLE {table} MATERIALIZE COLUMN \
             {column}` to rewrite the column",
            field.field, compared.differing, compared.rows
        ));
    }
    for (name, rows) in &compared.stale_projections {
        reasons.push(format!(
            "projection `{name}` has values of `{column}` that differ from `{}`, in parts with {rows} rows: \
             run `ALTER TABLE {table} CLEAR PROJECTION {name}` and then `MATERIALIZE PROJECTION {name}` to \
             rebuild it",
            field.field
        ));
    }
    for (name, reason) in &compared.unknown_projections {
        reasons
            .push(format!("projection `{name}` cannot be compared: {reason}; adopt the column without it"));
    }
    reasons.join("; ")
}

/// Returns the fields, with their indices, that adopt a column which `known` does not.
pub(crate) fn adopted<'a>(
    known: &AccessModel,
    fields: &'a [MarkedField],
) -> impl Iterator<Item = (usize, &'a MarkedField)> {
    let is_unchanged =
        |field: &MarkedField| known.field(&field.field).is_some_and(|before| before.column == field.column);
    fields.iter().enumerate().filter(move |(_, field)| field.column.is_some() && !is_unchanged(field))
}

pub(crate) fn is_other_table(current: &AccessModel, binding: &Binding) -> bool {
    let table = |binding: &Binding| (binding.database.clone(), binding.table.clone());
    current.binding.as_ref().map(table) != Some(table(binding))
}

/// Returns the field without its column, for another table in which the column has not been compared.
pub(crate) fn without_column(field: MarkedField) -> MarkedField {
    MarkedField { column: None, ..field }
}
