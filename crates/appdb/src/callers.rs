//! Looks up the caller: a credential with its user and the user's roles, in one statement. Every request begins with
//! this lookup. One statement sees one consistent state, so it needs no transaction.

use sqlx::any::AnyRow;

use crate::api_keys::key_columns;
use crate::database::AppDb;
use crate::error::DbError;
use crate::records::{ApiKey, Session, TokenDigest, User};
use crate::rows::FromRow;
use crate::sessions::session_columns;
use crate::users::user_columns;
use crate::values::values;

impl<Credential: FromRow> FromRow for (Credential, User) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((Credential::from_row(row)?, User::from_row(row)?))
    }
}

impl AppDb {
    /// Returns the session of a token with its user. It reflects everything that any replica committed before this
    /// call.
    pub async fn session_by_token(&self, token: TokenDigest) -> Result<Option<(Session, User)>, DbError> {
        let statement = concat!(
            "SELECT ",
            session_columns!(),
            ", ",
            user_columns!(),
            " FROM sessions JOIN users ON users.id = sessions.user_id LEFT JOIN identities ON identities.user_id = users.id WHERE token_sha256 = $1"
        );
        self.acquire_read().await?.optional(statement, values![token]).await
    }

    /// Returns the API key of a token, expired or not, with its user. It reflects everything that any replica committed
    /// before this call.
    pub async fn api_key_by_token(&self, token: TokenDigest) -> Result<Option<(ApiKey, User)>, DbError> {
        let statement = concat!(
            "SELECT ",
            key_columns!(),
            ", ",
            user_columns!(),
            " FROM api_keys JOIN users ON users.id = api_keys.user_id LEFT JOIN identities ON identities.user_id = users.id WHERE token_sha256 = $1"
        );
        self.acquire_read().await?.optional(statement, values![token]).await
    }
}
