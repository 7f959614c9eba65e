//! Personal API keys.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::documents;
use crate::error::DbError;
use crate::records::{ApiKey, TokenDigest};
use crate::rows::{FromRow, from_row, get};
use crate::transactions::{AppendTx, ReadTx, WriteTx};
use crate::values::values;

macro_rules! key_columns {
    () => {
        "api_keys.id, hint, name, api_keys.user_id, api_keys.created_at, expires_at, last_used_at, \
         last_client_ip, last_user_agent, policy, tools"
    };
}
pub(crate) use key_columns;

from_row!(
    ApiKey: id, hint, name, user_id, created_at, expires_at, last_used_at, last_client_ip, last_user_agent, policy,
    tools
);

impl ReadTx {
    /// Returns the key with this id, expired or not.
    pub async fn api_key_by_id(&mut self, id: &str) -> Result<Option<ApiKey>, DbError> {
        let statement = concat!("SELECT ", key_columns!(), " FROM api_keys WHERE id = $1");
        self.connection.optional(statement, values![id]).await
    }

    /// Returns a user's keys, newest first.
    pub async fn api_keys_of_user(&mut self, user_id: &str) -> Result<Vec<ApiKey>, DbError> {
        let statement = concat!(
            "SELECT ",
            key_columns!(),
            " FROM api_keys WHERE user_id = $1 ORDER BY created_at DESC, id"
        );
        self.connection.all(statement, values![user_id]).await
    }

    /// Returns the keys with these first characters, at most `limit`, each with the name of its user.
    pub async fn api_keys_by_hint(
        &mut self,
        hint: &str,
        limit: u32,
    ) -> Result<Vec<(ApiKey, String)>, DbError> {
        let statement = concat!(
            "SELECT ",
            key_columns!(),
            ", username FROM api_keys JOIN users ON users.id = api_keys.user_id WHERE hint = $1 \
             ORDER BY username_folded, api_keys.created_at DESC, api_keys.id LIMIT $2"
        );
        let found: Vec<KeyOfUser> = self.connection.all(statement, values![hint, limit]).await?;
        Ok(found.into_iter().map(|KeyOfUser(key, username)| (key, username)).collect())
    }
}

struct KeyOfUser(ApiKey, String);

impl FromRow for KeyOfUser {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok(Self(ApiKey::from_row(row)?, get(row, "username")?))
    }
}

impl AppendTx {
    /// Records that a key was used, by a client at an address.
    pub async fn touch_api_key(
        &mut self,
        id: &str,
        at: Timestamp,
        client_ip: Option<&str>,
        user_agent: Option<&str>,
    ) -> Result<(), DbError> {
        let statement = "UPDATE api_keys SET last_used_at = $2, last_client_ip = $3, last_user_agent = $4 \
             WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
        self.0.connection.execute(statement, values![id, at, client_ip, user_agent]).await.map(drop)
    }
}

impl WriteTx {
    /// Creates a key.
    pub async fn insert_api_key(&mut self, key: &ApiKey, token: TokenDigest) -> Result<(), DbError> {
        let statement = "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, expires_at, last_used_at, \
             policy, tools) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let values = values![
            &key.id,
            token,
            &key.hint,
            &key.name,
            &key.user_id,
            key.created_at,
            key.expires_at,
            key.last_used_at,
            key.policy.as_ref(),
            key.tools.as_ref().map(|tools| documents::write("tools", tools)).transpose()?,
        ];
        self.connection.execute(statement, values).await.map(drop)
    }

    /// Deletes one key of a user. Returns whether the key existed.
    pub async fn delete_api_key(&mut self, user_id: &str, id: &str) -> Result<bool, DbError> {
        let statement = "DELETE FROM api_keys WHERE user_id = $1 AND id = $2";
        Ok(self.connection.execute(statement, values![user_id, id]).await? > 0)
    }

    /// Deletes a user's keys and returns their number.
    pub async fn delete_api_keys_of_user(&mut self, user_id: &str) -> Result<u64, DbError> {
        self.connection.execute("DELETE FROM api_keys WHERE user_id = $1", values![user_id]).await
    }
}
