//! Inspection of the access model and of the tables in ClickHouse.

use std::sync::Arc;

use serde_json::json;
use tracewarden_appdb::CurrentModel;
use tracewarden_clickhouse::{
    Column, DdlAdvice, SYSTEM_DATABASE_REASON, SampledColumn, TableSummary, paired_maps,
};
use tracewarden_model::Binding;

use crate::core::{Administrator, Core, Outcome, Result, ServiceError};
use crate::source::tables::{PairedColumns, TableColumn, TableDetail};

const DISCOVER: &str = "schema.discover";

/// Rejects ClickHouse's own tables, which contain all users' statements and the names of users: they can be neither bound nor
/// discovered.
pub(crate) fn refuse_system_database(database: &str, pointer: &str) -> Result<()> {
    if ["system", "information_schema"].iter().any(|name| database.eq_ignore_ascii_case(name)) {
        return Err(ServiceError::invalid(pointer, SYSTEM_DATABASE_REASON));
    }
    Ok(())
}

/// The table of traces and its fields.
#[derive(Clone)]
pub struct Source {
    pub(crate) core: Arc<Core>,
}

impl Source {
    /// Returns the current access model.
    pub async fn access_model(&self, _admin: &Administrator<'_>) -> Result<CurrentModel> {
        Ok(self.core.db.current_model().await?)
    }

    /// Returns the tables in ClickHouse.
    pub async fn tables(&self, _admin: &Administrator<'_>) -> Result<Vec<TableSummary>> {
        Ok(self.core.clickhouse.catalogue().tables().await?)
    }

    /// Returns suggestions of DDL for the bound table that make searches cheaper; the service never executes them. They depend on the table's current
    /// state. Reads only counts of spans and returns no span data.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`], or a failure of ClickHouse or the application database.
    pub async fn ddl(&self, _admin: &Administrator<'_>) -> Result<DdlAdvice> {
        let model = self.core.db.begin_read().await?.access_model().await?;
        let binding = model.binding.ok_or(ServiceError::NotBound)?;
        let (session, samples) = (self.core.clickhouse.session(), self.core.settings.discovery_samples);
        Ok(session.ddl(&binding, &model.fields, samples).await?)
    }

    /// Returns the columns of a table, and keys with example values from its maps and JSON columns.
    pub async fn table(&self, admin: &Administrator<'_>, database: &str, table: &str) -> Result<TableDetail> {
        let target = format!("{database}.{table}");
        let described = self.describe_table(admin, database, table, &target).await;
        let (columns, mut detail) = self.core.audit_denial(admin, DISCOVER, Some(&target), described).await?;
        if detail.sampled {
            // The only place that shows span data without a policy: recorded before anything is read.
            let event = json!({ "sampled": true });
            let mut record = self.core.begin_admin_read(admin, DISCOVER, Some(&target), event).await?;
            detail.maps = record.check(self.samples(database, table, &columns).await).await?;
            // Of the bound table, only rows that are spans may be read.
            let is_bound = self.bound(database, table).await?.is_some();
            if let Some(proposal) = detail.proposal.take_if(|_| !is_bound) {
                detail.proposal = Some(self.core.clickhouse.catalogue().refine(proposal, &columns).await);
            }
            record.complete(Outcome::Success, None).await?;
        }
        Ok(detail)
    }

    /// Describes a table, still without a sample; records the request unless a sample follows, which has its own record.
    async fn describe_table(
        &self,
        admin: &Administrator<'_>,
        database: &str,
        table: &str,
        target: &str,
    ) -> Result<(Vec<Column>, TableDetail)> {
        let absent = ServiceError::NotFound { what: "table" };
        if refuse_system_database(database, "").is_err() {
            return Err(absent);
        }
        let unsuitable = self.core.clickhouse.catalogue().unsuitable(database, table).await?;
        let columns = self.core.clickhouse.catalogue().columns(database, table).await?;
        // A parameterised view has no columns.
        if columns.is_empty() && unsuitable.is_none() {
            return Err(absent);
        }
        // Reading from a queue table would take the rows from its consumers.
        let readable = unsuitable.as_ref().is_none_or(|unsuitable| unsuitable.readable);
        let sampled = self.core.settings.discovery_samples && readable;
        let details = columns.iter().map(|column| TableColumn::new(column, &columns)).collect();
        if !sampled {
            let tx = self.core.begin_change(admin).await?;
            self.core.commit_change(tx, admin, DISCOVER, Some(target), json!({ "sampled": false })).await?;
        }
        let unsuitable = unsuitable.map(|unsuitable| unsuitable.reason);
        let paired_maps = paired_maps(&columns).into_iter().map(PairedColumns::from).collect();
        let proposal = self.core.clickhouse.catalogue().proposal(database, table).await?;
        let detail =
            TableDetail { columns: details, maps: Vec::new(), paired_maps, proposal, sampled, unsuitable };
        Ok((columns, detail))
    }

    /// Returns the binding, if it binds this table.
    async fn bound(&self, database: &str, table: &str) -> Result<Option<Binding>> {
        let model = self.core.db.access_model().await?;
        Ok(model.binding.filter(|binding| binding.database == database && binding.table == table))
    }

    async fn samples(&self, database: &str, table: &str, columns: &[Column]) -> Result<Vec<SampledColumn>> {
        let bound = self.bound(database, table).await?;
        let catalogue = self.core.clickhouse.catalogue();
        Ok(catalogue.sample_keys(database, table, columns, bound.as_ref()).await?)
    }
}
