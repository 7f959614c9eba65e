//! Versions of the binding and the marked fields. The version with the highest number is current.

use futures::stream::BoxStream;
use sqlx::any::AnyRow;
use tracewarden_model::{AccessModel, Timestamp};

use crate::database::AppDb;
use crate::documents;
use crate::error::DbError;
use crate::rows::{self, FromRow};
use crate::transactions::{Epoch, ReadTx, WriteTx};
use crate::values::{bound, signed, values};

/// The latest version, the number of the last change and the epoch, in one statement, so that all belong to the same state.
const LATEST_MODEL_AND_CHANGE: &str = "SELECT (SELECT MAX(number) FROM changes) AS last_change, latest.version, latest.document, \
     head.epoch, head.sequence - head.epoch_through AS uncounted \
     FROM (SELECT 1 AS always) AS one LEFT JOIN (SELECT * FROM audit_head WHERE id = 1) AS head ON one.always = 1 LEFT JOIN \
     (SELECT version, document FROM access_models ORDER BY version DESC LIMIT 1) AS latest ON one.always = 1";

/// The current access model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentModel {
    /// Version of the whole access model: the number of the last change to the binding, fields, roles or tests.
    pub version: u64,
    /// The binding and the marked fields. Their own version number counts only changes to them. Empty, with version 0,
    /// before the first version exists.
    pub model: AccessModel,
}

impl FromRow for CurrentModel {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        // The migration that creates the history also inserts its first change.
        let version = rows::get::<Option<u64>>(row, "last_change")?
            .ok_or_else(|| DbError::Corrupt("the history has no change".to_owned()))?;
        let absent = rows::get::<Option<String>>(row, "document")?.is_none();
        let model = if absent { AccessModel::default() } else { AccessModel::from_row(row)? };
        Ok(Self { version, model })
    }
}

impl FromRow for Epoch {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok(Self { changes: rows::get(row, "epoch")?, uncounted: rows::get(row, "uncounted")? })
    }
}

impl FromRow for (CurrentModel, Epoch) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((CurrentModel::from_row(row)?, Epoch::from_row(row)?))
    }
}

impl FromRow for AccessModel {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        documents::read_model(rows::get(row, "version")?, &rows::get::<String>(row, "document")?)
    }
}

impl AppDb {
    /// Returns the current access model with its version, outside a transaction.
    pub async fn current_model(&self) -> Result<CurrentModel, DbError> {
        self.acquire_read().await?.one(LATEST_MODEL_AND_CHANGE, values![]).await
    }

    /// Returns the current access model, outside a transaction.
    pub async fn access_model(&self) -> Result<AccessModel, DbError> {
        Ok(self.current_model().await?.model)
    }
}

impl ReadTx {
    /// Returns the current access model with its version.
    pub async fn current_model(&mut self) -> Result<CurrentModel, DbError> {
        self.connection.one(LATEST_MODEL_AND_CHANGE, values![]).await
    }

    /// Returns the current access model with its version, and the epoch.
    pub async fn current_model_and_epoch(&mut self) -> Result<(CurrentModel, Epoch), DbError> {
        self.connection.one(LATEST_MODEL_AND_CHANGE, values![]).await
    }

    /// Returns the current access model.
    pub async fn access_model(&mut self) -> Result<AccessModel, DbError> {
        Ok(self.current_model().await?.model)
    }

    /// Returns one version of binding and fields.
    pub(crate) async fn model_version(&mut self, version: u64) -> Result<Option<AccessModel>, DbError> {
        let statement = "SELECT version, document FROM access_models WHERE version = $1";
        self.connection.optional(statement, values![signed(version)?]).await
    }

    /// Streams the versions of binding and fields from `from` through `through`, in order. One version can be large, so
    /// they are not collected.
    pub fn access_models(&mut self, from: u64, through: u64) -> BoxStream<'_, Result<AccessModel, DbError>> {
        let statement = "SELECT version, document FROM access_models WHERE version >= $1 AND version <= $2 ORDER BY version";
        self.connection.stream(statement, values![bound(from), bound(through)])
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
        (user_id, username): (&str, &str),
    ) -> Result<(), DbError> {
        let statement = "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
             VALUES ($1, $2, $3, $4, $5)";
        let document = documents::write_model(model)?;
        let values = values![signed(model.version)?, document, at, user_id, username];
        self.connection.execute(statement, values).await.map(drop)
    }
}
