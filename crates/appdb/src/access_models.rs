//! Every version of the access model; the one with the highest version is in force.

use sqlx::any::AnyRow;
use tracewarden_model::{AccessModel, Timestamp};

use crate::database::{AppDb, ReadTx, WriteTx};
use crate::documents;
use crate::error::DbError;
use crate::rows;

const IN_FORCE: &str = "SELECT version, document FROM access_models ORDER BY version DESC LIMIT 1";

fn model(row: &AnyRow) -> Result<AccessModel, DbError> {
    documents::read_model(rows::unsigned(row, "version")?, &rows::text(row, "document")?)
}

impl AppDb {
    /// The access model in force, where nothing else is read with it; the empty one of version 0 before the first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn access_model(&self) -> Result<AccessModel, DbError> {
        let mut glance = self.begin_glance().await?;
        let row = sqlx::query(IN_FORCE).fetch_optional(glance.statement()).await?;
        row.as_ref().map_or_else(|| Ok(AccessModel::default()), model)
    }
}

impl ReadTx {
    /// The access model in force; the empty one of version 0 before the first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn access_model(&mut self) -> Result<AccessModel, DbError> {
        let row = sqlx::query(IN_FORCE).fetch_optional(self.statements()).await?;
        row.as_ref().map_or_else(|| Ok(AccessModel::default()), model)
    }

    /// One earlier version.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn access_model_version(&mut self, version: u64) -> Result<Option<AccessModel>, DbError> {
        let row = sqlx::query("SELECT document FROM access_models WHERE version = $1")
            .bind(rows::signed(version)?)
            .fetch_optional(self.statements())
            .await?;
        row.map(|row| documents::read_model(version, &rows::text(&row, "document")?)).transpose()
    }
}

impl WriteTx {
    /// Adds a version, made by the user with this id and name.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the version exists.
    pub async fn insert_access_model(
        &mut self,
        model: &AccessModel,
        at: Timestamp,
        by: (&str, &str),
    ) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(rows::signed(model.version)?)
        .bind(documents::write_model(model)?)
        .bind(at.as_micros())
        .bind(by.0)
        .bind(by.1)
        .execute(self.statements())
        .await?;
        Ok(())
    }
}
