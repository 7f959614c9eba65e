//! Browser sessions.

use tracewarden_model::Timestamp;

use crate::documents;
use crate::error::DbError;
use crate::records::{Preview, Session, TokenDigest};
use crate::rows::from_row;
use crate::transactions::{AppendTx, ReadTx, WriteTx};
use crate::values::values;

macro_rules! session_columns {
    () => {
        "sessions.id, sessions.user_id, sessions.created_at, last_seen_at, client_ip, user_agent, preview, \
         sessions.provider AS session_provider, provider_session"
    };
}
pub(crate) use session_columns;

from_row!(
    Session: id, user_id, created_at, last_seen_at, client_ip, user_agent, preview, provider = "session_provider",
    provider_session
);

impl ReadTx {
    /// Returns the session with this id.
    pub async fn session_by_id(&mut self, id: &str) -> Result<Option<Session>, DbError> {
        let statement = concat!("SELECT ", session_columns!(), " FROM sessions WHERE id = $1");
        self.connection.optional(statement, values![id]).await
    }

    /// Returns a user's sessions, newest first.
    pub async fn sessions_of_user(&mut self, user_id: &str) -> Result<Vec<Session>, DbError> {
        let statement = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE user_id = $1 ORDER BY created_at DESC, id"
        );
        self.connection.all(statement, values![user_id]).await
    }
}

impl AppendTx {
    /// Records that a session was used.
    pub async fn touch_session(&mut self, id: &str, at: Timestamp) -> Result<(), DbError> {
        let statement = "UPDATE sessions SET last_seen_at = $2 WHERE id = $1 AND last_seen_at < $2";
        self.0.connection.execute(statement, values![id, at]).await.map(drop)
    }
}

impl WriteTx {
    /// Creates a session.
    pub async fn insert_session(&mut self, session: &Session, token: TokenDigest) -> Result<(), DbError> {
        let statement = "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at, client_ip, user_agent, \
             preview, provider, provider_session) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let Session {
            id,
            user_id,
            created_at,
            last_seen_at,
            client_ip,
            user_agent,
            preview,
            provider,
            provider_session,
        } = session;
        let preview = preview.as_ref().map(|preview| documents::write("preview", preview)).transpose()?;
        let (client_ip, user_agent) = (client_ip.as_ref(), user_agent.as_ref());
        let (provider, provider_session) = (provider.as_ref(), provider_session.as_ref());
        let values = values![
            id,
            token,
            user_id,
            *created_at,
            *last_seen_at,
            client_ip,
            user_agent,
            preview,
            provider,
            provider_session
        ];
        self.connection.execute(statement, values).await.map(drop)
    }

    /// Sets or clears a session's preview.
    pub async fn set_session_preview(&mut self, id: &str, preview: Option<&Preview>) -> Result<(), DbError> {
        let preview = preview.map(|preview| documents::write("preview", preview)).transpose()?;
        let statement = "UPDATE sessions SET preview = $2 WHERE id = $1";
        self.connection.execute(statement, values![id, preview]).await.map(drop)
    }

    /// Clears the previews of all sessions of a user.
    pub async fn clear_previews_of_user(&mut self, user_id: &str) -> Result<(), DbError> {
        let statement = "UPDATE sessions SET preview = NULL WHERE user_id = $1 AND preview IS NOT NULL";
        self.connection.execute(statement, values![user_id]).await.map(drop)
    }

    /// Ends one session of a user. Returns whether the session existed.
    pub async fn delete_session(&mut self, user_id: &str, id: &str) -> Result<bool, DbError> {
        let statement = "DELETE FROM sessions WHERE user_id = $1 AND id = $2";
        Ok(self.connection.execute(statement, values![user_id, id]).await? > 0)
    }

    /// Ends a user's sessions except `keep`, and returns their number.
    pub async fn delete_sessions_of_user(
        &mut self,
        user_id: &str,
        keep: Option<&str>,
    ) -> Result<u64, DbError> {
        let statement = "DELETE FROM sessions WHERE user_id = $1 AND id <> $2";
        self.connection.execute(statement, values![user_id, keep.unwrap_or_default()]).await
    }

    /// Ends the least recently used sessions of a user, so that `kept` remain, and returns their ids. At most a hundred
    /// per call.
    pub async fn delete_idlest_sessions(&mut self, user_id: &str, kept: u32) -> Result<Vec<String>, DbError> {
        let statement = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE user_id = $1 \
             ORDER BY last_seen_at DESC, created_at DESC, id LIMIT 100 OFFSET $2) RETURNING id";
        self.connection.all(statement, values![user_id, kept]).await
    }

    /// Ends the sessions that began before `created_before` or were last used before `seen_before`, and returns their
    /// number.
    pub async fn delete_expired_sessions(
        &mut self,
        created_before: Option<Timestamp>,
        seen_before: Option<Timestamp>,
    ) -> Result<u64, DbError> {
        // No time is before `i64::MIN`, which therefore represents an absent limit.
        let micros = |limit: Option<Timestamp>| limit.map_or(i64::MIN, Timestamp::as_micros);
        let statement = "DELETE FROM sessions WHERE created_at < $1 OR last_seen_at < $2";
        self.connection.execute(statement, values![micros(created_before), micros(seen_before)]).await
    }
}
