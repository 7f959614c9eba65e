//! Secrets that all replicas share. The first replica creates them.

use crate::error::DbError;
use crate::transactions::{ReadTx, WriteTx};
use crate::values::values;

impl ReadTx {
    /// Returns the secret with this name.
    pub async fn secret(&mut self, name: &str) -> Result<Option<Vec<u8>>, DbError> {
        let statement = "SELECT value FROM secrets WHERE name = $1";
        let stored: Option<String> = self.connection.optional(statement, values![name]).await?;
        let decoded = stored.map(hex::decode).transpose();
        decoded.map_err(|error| DbError::Corrupt(format!("secret `{name}`: {error}")))
    }
}

impl WriteTx {
    /// Stores `candidate` unless another replica has stored a value before. Returns the stored value.
    pub async fn secret_or_insert(&mut self, name: &str, candidate: &[u8]) -> Result<Vec<u8>, DbError> {
        let statement = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.connection.execute(statement, values![name, hex::encode(candidate)]).await?;
        let stored = self.secret(name).await?;
        stored.ok_or_else(|| DbError::Corrupt(format!("secret `{name}` vanished while it was stored")))
    }
}
