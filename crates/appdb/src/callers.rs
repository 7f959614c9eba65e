//! Looks up the caller: a credential with its user and the user's roles, in one statement. Every request begins with
//! this lookup. One statement sees one consistent state, so it needs no transaction.

use crate::api_keys::{api_key, key_columns};
use crate::database::AppDb;
use crate::error::DbError;
use crate::records::{ApiKey, Session, TokenDigest, User};
use crate::sessions::{session, session_columns};
use crate::users::{user, user_columns};

impl AppDb {
    /// Returns the session of a token with its user. It reflects everything that any replica committed before this
    /// call.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn session_by_token(&self, token: TokenDigest) -> Result<Option<(Session, User)>, DbError> {
        let statement = concat!(
            "SELECT ",
            session_columns!(),
            ", ",
            user_columns!(),
            " FROM sessions JOIN users ON users.id = sessions.user_id WHERE token_sha256 = $1"
        );
        let query = sqlx::query(statement).bind(token.to_hex());
        let row = query.fetch_optional(self.acquire_read().await?.statements()).await?;
        row.map(|row| Ok((session(&row)?, user(&row)?))).transpose()
    }

    /// Returns the API key of a token, expired or not, with its user. It reflects everything that any replica committed
    /// before this call.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn api_key_by_token(&self, token: TokenDigest) -> Result<Option<(ApiKey, User)>, DbError> {
        let statement = concat!(
            "SELECT ",
            key_columns!(),
            ", ",
            user_columns!(),
            " FROM api_keys JOIN users ON users.id = api_keys.user_id WHERE token_sha256 = $1"
        );
        let query = sqlx::query(statement).bind(token.to_hex());
        let row = query.fetch_optional(self.acquire_read().await?.statements()).await?;
        row.map(|row| Ok((api_key(&row)?, user(&row)?))).transpose()
    }
}
