//! Secrets that all replicas share. The first replica creates them.

use crate::error::DbError;
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

impl ReadTx {
    /// Returns the secret with this name.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the value cannot be read.
    pub async fn secret(&mut self, name: &str) -> Result<Option<Vec<u8>>, DbError> {
        let row = sqlx::query("SELECT value FROM secrets WHERE name = $1")
            .bind(name)
            .fetch_optional(self.connection.statements())
            .await?;
        row.map(|row| {
            hex::decode(rows::text(&row, "value")?)
                .map_err(|error| DbError::Corrupt(format!("secret `{name}`: {error}")))
        })
        .transpose()
    }
}

impl WriteTx {
    /// Stores `candidate` unless another replica has stored a value before. Returns the stored value.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the value cannot be read.
    pub async fn secret_or_insert(&mut self, name: &str, candidate: &[u8]) -> Result<Vec<u8>, DbError> {
        sqlx::query("INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
            .bind(name)
            .bind(hex::encode(candidate))
            .execute(self.connection.statements())
            .await?;
        let stored = self.secret(name).await?;
        stored.ok_or_else(|| DbError::Corrupt(format!("secret `{name}` vanished while it was stored")))
    }
}
