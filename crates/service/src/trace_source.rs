//! Looking at the access model and at the tables of the trace store.

use serde_json::json;
use tracewarden_appdb::CurrentModel;
use tracewarden_model::{FieldRef, LogicalType};
use tracewarden_tracestore::{
    Column, PhysicalField, SampledColumn, TableSummary, key_logical_types, members, physical_field,
};

use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::principal::Administrator;
use crate::service::Service;

const DISCOVER: &str = "schema.discover";

/// A column, and what it can be marked as.
#[derive(Debug, Clone)]
pub struct ColumnDetail {
    /// The column.
    pub column: Column,
    /// What the column itself can be marked as, the natural type first; empty when it cannot.
    pub logical_types: &'static [LogicalType],
    /// What keys of a map, or paths of a JSON column that have no declared type, can be marked as.
    pub key_logical_types: &'static [LogicalType],
    /// Members of a nested column, declared paths of a JSON column.
    pub members: Vec<MemberDetail>,
}

/// A part of a column that its type names.
#[derive(Debug, Clone)]
pub struct MemberDetail {
    /// How it is marked.
    pub field: FieldRef,
    /// Its type, and what it can be marked as; `None` when it cannot.
    pub physical: Option<PhysicalField>,
}

/// What is known about a table of the trace store.
#[derive(Debug, Clone)]
pub struct TableDetail {
    /// Columns.
    pub columns: Vec<ColumnDetail>,
    /// Keys of map columns and paths of JSON columns in a bounded sample; empty when sampling is switched off.
    pub maps: Vec<SampledColumn>,
    /// Whether a sample was taken.
    pub sampled: bool,
    /// Why the table does not do as a trace source.
    pub unsuitable: Option<String>,
}

/// What a table has, and whether its rows may be read.
struct Described {
    columns: Vec<Column>,
    details: Vec<ColumnDetail>,
    unsuitable: Option<String>,
    samples: bool,
}

/// The store's own tables hold everybody's statements and the users' names: they are not for binding or discovery.
pub(crate) fn refuse_system_database(database: &str, pointer: &str) -> Result<(), ServiceError> {
    if ["system", "information_schema"].iter().any(|name| database.eq_ignore_ascii_case(name)) {
        let detail = "the store's own tables cannot be bound";
        return Err(ServiceError::refused(pointer, "invalid_value", detail));
    }
    Ok(())
}

impl Service {
    /// The access model in force.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn access_model(&self, _admin: &Administrator<'_>) -> Result<CurrentModel, ServiceError> {
        Ok(self.db().current_model().await?)
    }

    /// The tables of the trace store.
    ///
    /// # Errors
    /// When the trace store fails.
    pub async fn tables(&self, _admin: &Administrator<'_>) -> Result<Vec<TableSummary>, ServiceError> {
        Ok(self.store().tables().await?)
    }

    /// Columns of a table, and keys with example values from its maps and JSON columns.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of either store.
    pub async fn table(
        &self,
        admin: &Administrator<'_>,
        database: &str,
        table: &str,
    ) -> Result<TableDetail, ServiceError> {
        let target = format!("{database}.{table}");
        let described = self.described(admin, database, table, &target).await;
        let Described { columns, details, unsuitable, samples } =
            self.note_refusal(admin, DISCOVER, Some(&target), described).await?;
        if !samples {
            return Ok(TableDetail { columns: details, maps: Vec::new(), sampled: false, unsuitable });
        }
        // The one place where span data shows without a policy: written down before anything is read.
        let detail = json!({ "sampled": true });
        let mut pending = self.begin_look(admin, DISCOVER, Some(&target), detail).await?;
        match self.samples(database, table, &columns).await {
            Ok(maps) => {
                pending.complete(Outcome::Success, None).await?;
                Ok(TableDetail { columns: details, maps, sampled: true, unsuitable })
            }
            Err(failure) => Err(pending.fail(failure).await),
        }
    }

    /// What a table has; that somebody looked is recorded where nothing follows that records it.
    async fn described(
        &self,
        admin: &Administrator<'_>,
        database: &str,
        table: &str,
        target: &str,
    ) -> Result<Described, ServiceError> {
        let absent = ServiceError::NotFound { what: "table" };
        if refuse_system_database(database, "").is_err() {
            return Err(absent);
        }
        let unsuitable = self.store().unsuitable(database, table).await?;
        let columns = self.store().columns(database, table).await?;
        // A view with parameters has no columns.
        if columns.is_empty() && unsuitable.is_none() {
            return Err(absent);
        }
        // What is in a queue is for others.
        let readable = unsuitable.as_ref().is_none_or(|unsuitable| unsuitable.readable);
        let samples = self.settings().discovery_samples && readable;
        let detail = |column: &Column| {
            let members = members(column).into_iter().map(|field| {
                let physical = physical_field(&field, &columns).ok();
                MemberDetail { field, physical }
            });
            ColumnDetail {
                logical_types: column.column_type.logical_types(),
                key_logical_types: key_logical_types(column, &columns),
                members: members.collect(),
                column: column.clone(),
            }
        };
        let details = columns.iter().map(detail).collect();
        if !samples {
            let mut tx = self.begin_change(admin).await?;
            self.record(&mut tx, admin, DISCOVER, Some(target), json!({ "sampled": false })).await?;
            tx.commit().await?;
        }
        let unsuitable = unsuitable.map(|unsuitable| unsuitable.reason);
        Ok(Described { columns, details, unsuitable, samples })
    }

    async fn samples(
        &self,
        database: &str,
        table: &str,
        columns: &[Column],
    ) -> Result<Vec<SampledColumn>, ServiceError> {
        let model = self.db().access_model().await?;
        let bound = model.binding.filter(|binding| binding.database == database && binding.table == table);
        let timestamp = bound.map(|binding| binding.timestamp);
        Ok(self.store().sample_keys(database, table, columns, timestamp.as_deref()).await?)
    }
}
