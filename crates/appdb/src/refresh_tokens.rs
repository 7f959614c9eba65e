//! Refresh tokens of sessions. A provider may accept each token once, and end the session if it sees one twice: one process at a
//! time claims a token, until a deadline, and what it stores afterwards counts only while the claim is still its own.

use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::identities::{Identities, IdentitiesMut};
use crate::rows::from_row;
use crate::values::values;

/// A refresh token that this process may use until the deadline of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRefreshToken {
    /// The session.
    pub session_id: String,
    /// The encrypted token.
    pub token: String,
    /// Deadline, which identifies the claim.
    pub claimed_until: Timestamp,
}

from_row!(ClaimedRefreshToken: session_id, token, claimed_until = "due_at");

impl Identities<'_> {
    /// Whether a refresh is due.
    pub async fn has_due_refresh(&mut self, now: Timestamp) -> Result<bool, DbError> {
        let statement = "SELECT due_at FROM refresh_tokens WHERE due_at <= $1 LIMIT 1";
        let due: Option<Timestamp> = self.tx.connection.optional(statement, values![now]).await?;
        Ok(due.is_some())
    }
}

impl IdentitiesMut<'_> {
    /// Stores the first refresh token of a session.
    pub async fn insert_refresh_token(
        &mut self,
        session_id: &str,
        token: &str,
        due_at: Timestamp,
    ) -> Result<(), DbError> {
        let statement = "INSERT INTO refresh_tokens (session_id, token, due_at) VALUES ($1, $2, $3)";
        self.tx.connection.execute(statement, values![session_id, token, due_at]).await.map(drop)
    }

    /// Claims at most `limit` tokens that are due, the longest due first.
    pub async fn claim_refresh_tokens(
        &mut self,
        now: Timestamp,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<ClaimedRefreshToken>, DbError> {
        let statement = "UPDATE refresh_tokens SET due_at = $2 WHERE session_id IN (SELECT session_id FROM refresh_tokens \
             WHERE due_at <= $1 ORDER BY due_at, session_id LIMIT $3) RETURNING session_id, token, due_at";
        self.tx.connection.all(statement, values![now, until, limit]).await
    }

    /// Ends a claim: stores the token that replaces the claimed one, if any, and when the next refresh is due. Returns `false`
    /// if the session has ended or the claim has passed to another process.
    pub async fn release_refresh_token(
        &mut self,
        claimed: &ClaimedRefreshToken,
        token: Option<&str>,
        due_at: Timestamp,
    ) -> Result<bool, DbError> {
        let statement = "UPDATE refresh_tokens SET token = COALESCE($3, token), due_at = $4 WHERE session_id = $1 AND due_at = $2";
        let values = values![&claimed.session_id, claimed.claimed_until, token, due_at];
        Ok(self.tx.connection.execute(statement, values).await? > 0)
    }

    /// Removes a claimed token. Returns `false` if the session has ended or the claim has passed to another process.
    pub async fn delete_refresh_token(&mut self, claimed: &ClaimedRefreshToken) -> Result<bool, DbError> {
        let statement = "DELETE FROM refresh_tokens WHERE session_id = $1 AND due_at = $2";
        let values = values![&claimed.session_id, claimed.claimed_until];
        Ok(self.tx.connection.execute(statement, values).await? > 0)
    }
}
