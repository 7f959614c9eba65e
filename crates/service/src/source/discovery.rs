//! Inspection of the access model and of the tables in ClickHouse.

use std::sync::Arc;

use serde_json::json;
use tracewarden_appdb::CurrentModel;
use tracewarden_clickhouse::{
    Column, PhysicalField, SampledColumn, TableSummary, key_logical_types, members, physical_field,
};
use tracewarden_model::{FieldRef, LogicalType};

use crate::core::{Administrator, Core, Outcome, ServiceError};

const DISCOVER: &str = "schema.discover";

/// Column with the types as which it can be marked.
#[derive(Debug, Clone)]
pub struct ColumnDetail {
    /// The column.
    pub column: Column,
    /// Types as which the column itself can be marked, the natural one first; empty if it cannot be marked.
    pub logical_types: &'static [LogicalType],
    /// Types as which keys of a map, or paths of a JSON column without a declared type, can be marked.
    pub key_logical_types: &'static [LogicalType],
    /// Members of a nested column, or declared paths of a JSON column.
    pub members: Vec<MemberDetail>,
}

/// Part of a column that its type names.
#[derive(Debug, Clone)]
pub struct MemberDetail {
    /// Field as which it is marked.
    pub field: FieldRef,
    /// Its type, and the types as which it can be marked; `None` if it cannot be marked.
    pub physical: Option<PhysicalField>,
}

/// Description of a table in ClickHouse.
#[derive(Debug, Clone)]
pub struct TableDetail {
    /// Columns.
    pub columns: Vec<ColumnDetail>,
    /// Keys of map columns and paths of JSON columns in a bounded sample; empty if sampling is switched off.
    pub maps: Vec<SampledColumn>,
    /// Whether a sample was taken.
    pub sampled: bool,
    /// Reason why the table cannot be a trace source.
    pub unsuitable: Option<String>,
}

/// Content of a table, and whether its rows may be read.
struct TableDescription {
    columns: Vec<Column>,
    details: Vec<ColumnDetail>,
    unsuitable: Option<String>,
    samples: bool,
}

/// Rejects ClickHouse's own tables, which contain all users' statements and the names of users: they can be neither bound nor
/// discovered.
pub(crate) fn refuse_system_database(database: &str, pointer: &str) -> Result<(), ServiceError> {
    if ["system", "information_schema"].iter().any(|name| database.eq_ignore_ascii_case(name)) {
        let detail = "ClickHouse's system tables cannot be bound";
        return Err(ServiceError::refused(pointer, "invalid_value", detail));
    }
    Ok(())
}

/// The table of traces and its fields.
#[derive(Clone)]
pub struct Source {
    pub(crate) core: Arc<Core>,
}

impl Source {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the current access model.
    ///
    /// # Errors
    /// When the application database fails.
    pub async fn access_model(&self, _admin: &Administrator<'_>) -> Result<CurrentModel, ServiceError> {
        Ok(self.core.db.current_model().await?)
    }

    /// Returns the tables in ClickHouse.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn tables(&self, _admin: &Administrator<'_>) -> Result<Vec<TableSummary>, ServiceError> {
        Ok(self.core.clickhouse.catalogue().tables().await?)
    }

    /// Returns the columns of a table, and keys with example values from its maps and JSON columns.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of ClickHouse or the application database.
    pub async fn table(
        &self,
        admin: &Administrator<'_>,
        database: &str,
        table: &str,
    ) -> Result<TableDetail, ServiceError> {
        let target = format!("{database}.{table}");
        let description = self.describe_table(admin, database, table, &target).await;
        let TableDescription { columns, details, unsuitable, samples } =
            self.core.audit_denial(admin, DISCOVER, Some(&target), description).await?;
        if !samples {
            return Ok(TableDetail { columns: details, maps: Vec::new(), sampled: false, unsuitable });
        }
        // The only place that shows span data without a policy: recorded before anything is read.
        let detail = json!({ "sampled": true });
        let mut open_audit_record =
            self.core.begin_admin_read(admin, DISCOVER, Some(&target), detail).await?;
        match self.samples(database, table, &columns).await {
            Ok(maps) => {
                open_audit_record.complete(Outcome::Success, None).await?;
                Ok(TableDetail { columns: details, maps, sampled: true, unsuitable })
            }
            Err(failure) => Err(open_audit_record.fail(failure).await),
        }
    }

    /// Describes a table; records the request unless a sample follows, which has its own record.
    async fn describe_table(
        &self,
        admin: &Administrator<'_>,
        database: &str,
        table: &str,
        target: &str,
    ) -> Result<TableDescription, ServiceError> {
        let absent = ServiceError::NotFound { what: "table" };
        if refuse_system_database(database, "").is_err() {
            return Err(absent);
        }
        let unsuitable = self.core.clickhouse.catalogue().unsuitable(database, table).await?;
        let columns = self.core.clickhouse.columns(database, table).await?;
        // A parameterised view has no columns.
        if columns.is_empty() && unsuitable.is_none() {
            return Err(absent);
        }
        // Reading from a queue table would take the rows from its consumers.
        let readable = unsuitable.as_ref().is_none_or(|unsuitable| unsuitable.readable);
        let samples = self.core.settings.discovery_samples && readable;
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
            let mut tx = self.core.begin_change(admin).await?;
            self.core.record(&mut tx, admin, DISCOVER, Some(target), json!({ "sampled": false })).await?;
            tx.commit().await?;
        }
        let unsuitable = unsuitable.map(|unsuitable| unsuitable.reason);
        Ok(TableDescription { columns, details, unsuitable, samples })
    }

    async fn samples(
        &self,
        database: &str,
        table: &str,
        columns: &[Column],
    ) -> Result<Vec<SampledColumn>, ServiceError> {
        let model = self.core.db.access_model().await?;
        let bound = model.binding.filter(|binding| binding.database == database && binding.table == table);
        let timestamp = bound.map(|binding| binding.timestamp);
        Ok(self
            .core
            .clickhouse
            .catalogue()
            .sample_keys(database, table, columns, timestamp.as_deref())
            .await?)
    }
}
