//! Personal API keys.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::documents;
use crate::error::DbError;
use crate::records::{ApiKey, NewApiKey};
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

macro_rules! select_keys {
    ($rest:literal) => {
        concat!("SELECT ", $crate::api_keys::key_columns!(), " FROM api_keys ", $rest)
    };
}

macro_rules! key_columns {
    () => {
        "api_keys.id, hint, name, user_id, api_keys.created_at, expires_at, last_used_at, policy, tools"
    };
}
pub(crate) use key_columns;

pub(crate) fn api_key(row: &AnyRow) -> Result<ApiKey, DbError> {
    Ok(ApiKey {
        id: rows::text(row, "id")?,
        hint: rows::text(row, "hint")?,
        name: rows::text(row, "name")?,
        user_id: rows::text(row, "user_id")?,
        created_at: rows::time(row, "created_at")?,
        expires_at: rows::optional_time(row, "expires_at")?,
        last_used_at: rows::optional_time(row, "last_used_at")?,
        policy: rows::optional_text(row, "policy")?,
        tools: rows::optional_text(row, "tools")?.as_deref().map(documents::read_tools).transpose()?,
    })
}

impl ReadTx {
    /// Returns the key with this id, expired or not.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn api_key_by_id(&mut self, id: &str) -> Result<Option<ApiKey>, DbError> {
        let row = sqlx::query(select_keys!("WHERE id = $1"))
            .bind(id)
            .fetch_optional(self.connection.statements())
            .await?;
        row.as_ref().map(api_key).transpose()
    }

    /// Returns a user's keys, newest first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn api_keys_of_user(&mut self, user_id: &str) -> Result<Vec<ApiKey>, DbError> {
        let found = sqlx::query(select_keys!("WHERE user_id = $1 ORDER BY created_at DESC, id"))
            .bind(user_id)
            .fetch_all(self.connection.statements())
            .await?;
        found.iter().map(api_key).collect()
    }
}

impl WriteTx {
    /// Creates a key.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn insert_api_key(&mut self, key: &NewApiKey<'_>) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, expires_at, last_used_at, \
             policy, tools) VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8, $9)",
        )
        .bind(key.id)
        .bind(key.token.to_hex())
        .bind(key.hint)
        .bind(key.name)
        .bind(key.user_id)
        .bind(key.created_at.as_micros())
        .bind(key.expires_at.map(Timestamp::as_micros))
        .bind(key.policy)
        .bind(key.tools.map(documents::write_tools).transpose()?)
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }

    /// Records that a key was used.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn touch_api_key(&mut self, id: &str, at: Timestamp) -> Result<(), DbError> {
        sqlx::query(
            "UPDATE api_keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        )
        .bind(id)
        .bind(at.as_micros())
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }

    /// Deletes one key of a user. Returns whether the key existed.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_api_key(&mut self, user_id: &str, id: &str) -> Result<bool, DbError> {
        let done = sqlx::query("DELETE FROM api_keys WHERE user_id = $1 AND id = $2")
            .bind(user_id)
            .bind(id)
            .execute(self.connection.statements())
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes a user's keys and returns their number.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_api_keys_of_user(&mut self, user_id: &str) -> Result<u64, DbError> {
        let done = sqlx::query("DELETE FROM api_keys WHERE user_id = $1")
            .bind(user_id)
            .execute(self.connection.statements())
            .await?;
        Ok(done.rows_affected())
    }
}
