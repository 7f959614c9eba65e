//! Versions of the binding and the marked fields. The version with the highest number is current.

use futures::stream::{BoxStream, StreamExt as _};
use sqlx::any::AnyRow;
use tracewarden_model::{AccessModel, Timestamp};

use crate::database::AppDb;
use crate::documents;
use crate::error::DbError;
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

const LATEST_MODEL: &str = "SELECT version, document FROM access_models ORDER BY version DESC LIMIT 1";

/// [`LATEST_MODEL`] with the number of the last change, in one statement, so that both belong to the same state.
const LATEST_MODEL_AND_CHANGE: &str = "SELECT (SELECT MAX(number) FROM changes) AS last_change, latest.version, latest.document \
     FROM (SELECT 1 AS always) AS one LEFT JOIN \
     (SELECT version, document FROM access_models ORDER BY version DESC LIMIT 1) AS latest ON one.always = 1";

/// The current access model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentModel {
    /// Version of the whole access model: the number of the last change to the binding, fields, roles or tests.
    pub version: u64,
    /// The binding and the marked fields. Their own version number counts only changes to them.
    pub model: AccessModel,
}

fn current(row: &AnyRow) -> Result<CurrentModel, DbError> {
    // The migration that creates the history also inserts its first change.
    let number = rows::optional_integer(row, "last_change")?
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| DbError::Corrupt("the history has no change".to_owned()))?;
    let model = match rows::optional_text(row, "document")? {
        None => AccessModel::default(),
        Some(document) => documents::read_model(rows::unsigned(row, "version")?, &document)?,
    };
    Ok(CurrentModel { version: number, model })
}

fn model(row: &AnyRow) -> Result<AccessModel, DbError> {
    documents::read_model(rows::unsigned(row, "version")?, &rows::text(row, "document")?)
}

/// Returns one earlier version.
///
/// # Errors
/// [`DbError`] when the database fails or the document cannot be read.
pub(crate) async fn version(tx: &mut ReadTx, version: u64) -> Result<Option<AccessModel>, DbError> {
    let row = sqlx::query("SELECT document FROM access_models WHERE version = $1")
        .bind(rows::signed(version)?)
        .fetch_optional(tx.connection.statements())
        .await?;
    row.map(|row| documents::read_model(version, &rows::text(&row, "document")?)).transpose()
}

impl AppDb {
    /// Returns the current access model with its version, outside a transaction.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn current_model(&self) -> Result<CurrentModel, DbError> {
        let mut connection = self.acquire_read().await?;
        current(&sqlx::query(LATEST_MODEL_AND_CHANGE).fetch_one(connection.statements()).await?)
    }

    /// Returns the current access model, outside a transaction; an empty model with version 0 before the first version
    /// exists.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn access_model(&self) -> Result<AccessModel, DbError> {
        let mut connection = self.acquire_read().await?;
        let row = sqlx::query(LATEST_MODEL).fetch_optional(connection.statements()).await?;
        row.as_ref().map_or_else(|| Ok(AccessModel::default()), model)
    }
}

impl ReadTx {
    /// Returns the current access model with its version.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn current_model(&mut self) -> Result<CurrentModel, DbError> {
        current(&sqlx::query(LATEST_MODEL_AND_CHANGE).fetch_one(self.connection.statements()).await?)
    }

    /// Streams the versions of binding and fields from `from` through `through`, in order. One version can be large, so
    /// they are not collected.
    pub fn access_models(&mut self, from: u64, through: u64) -> BoxStream<'_, Result<AccessModel, DbError>> {
        // No version has a number above `i64::MAX`.
        let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        sqlx::query("SELECT version, document FROM access_models WHERE version >= $1 AND version <= $2 ORDER BY version")
            .bind(bound(from))
            .bind(bound(through))
            .fetch(self.connection.statements())
            .map(|row| model(&row?))
            .boxed()
    }

    /// Returns the current access model; an empty model with version 0 before the first version exists.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the document cannot be read.
    pub async fn access_model(&mut self) -> Result<AccessModel, DbError> {
        let row = sqlx::query(LATEST_MODEL).fetch_optional(self.connection.statements()).await?;
        row.as_ref().map_or_else(|| Ok(AccessModel::default()), model)
    }
}

impl WriteTx {
    /// Adds a version created by the user with this id and name.
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
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }
}
