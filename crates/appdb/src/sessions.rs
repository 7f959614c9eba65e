//! Browser sessions.

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::documents;
use crate::error::DbError;
use crate::records::{NewSession, Preview, Session};
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!("SELECT ", $crate::sessions::session_columns!(), " FROM sessions ", $rest)
    };
}

macro_rules! session_columns {
    () => {
        "sessions.id, user_id, sessions.created_at, last_seen_at, client_ip, user_agent, preview"
    };
}
pub(crate) use session_columns;

pub(crate) fn session(row: &AnyRow) -> Result<Session, DbError> {
    Ok(Session {
        id: rows::text(row, "id")?,
        user_id: rows::text(row, "user_id")?,
        created_at: rows::time(row, "created_at")?,
        last_seen_at: rows::time(row, "last_seen_at")?,
        client_ip: rows::optional_text(row, "client_ip")?,
        user_agent: rows::optional_text(row, "user_agent")?,
        preview: rows::optional_text(row, "preview")?.as_deref().map(documents::read_preview).transpose()?,
    })
}

impl ReadTx {
    /// Returns the session with this id.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn session_by_id(&mut self, id: &str) -> Result<Option<Session>, DbError> {
        let row = sqlx::query(select_sessions!("WHERE id = $1"))
            .bind(id)
            .fetch_optional(self.connection.statements())
            .await?;
        row.as_ref().map(session).transpose()
    }

    /// Returns a user's sessions, newest first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn sessions_of_user(&mut self, user_id: &str) -> Result<Vec<Session>, DbError> {
        let found = sqlx::query(select_sessions!("WHERE user_id = $1 ORDER BY created_at DESC, id"))
            .bind(user_id)
            .fetch_all(self.connection.statements())
            .await?;
        found.iter().map(session).collect()
    }
}

impl WriteTx {
    /// Creates a session.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn insert_session(&mut self, session: &NewSession<'_>) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at, client_ip, user_agent, \
             preview) VALUES ($1, $2, $3, $4, $4, $5, $6, NULL)",
        )
        .bind(session.id)
        .bind(session.token.to_hex())
        .bind(session.user_id)
        .bind(session.created_at.as_micros())
        .bind(session.client_ip)
        .bind(session.user_agent)
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }

    /// Records that a session was used.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn touch_session(&mut self, id: &str, at: Timestamp) -> Result<(), DbError> {
        sqlx::query("UPDATE sessions SET last_seen_at = $2 WHERE id = $1 AND last_seen_at < $2")
            .bind(id)
            .bind(at.as_micros())
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Sets or clears a session's preview.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_session_preview(&mut self, id: &str, preview: Option<&Preview>) -> Result<(), DbError> {
        sqlx::query("UPDATE sessions SET preview = $2 WHERE id = $1")
            .bind(id)
            .bind(preview.map(documents::write_preview).transpose()?)
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Clears the previews of all sessions of a user.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn clear_previews_of_user(&mut self, user_id: &str) -> Result<(), DbError> {
        sqlx::query("UPDATE sessions SET preview = NULL WHERE user_id = $1 AND preview IS NOT NULL")
            .bind(user_id)
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Ends one session of a user. Returns whether the session existed.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_session(&mut self, user_id: &str, id: &str) -> Result<bool, DbError> {
        let done = sqlx::query("DELETE FROM sessions WHERE user_id = $1 AND id = $2")
            .bind(user_id)
            .bind(id)
            .execute(self.connection.statements())
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Ends a user's sessions except `keep`, and returns their number.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_sessions_of_user(
        &mut self,
        user_id: &str,
        keep: Option<&str>,
    ) -> Result<u64, DbError> {
        let done = sqlx::query("DELETE FROM sessions WHERE user_id = $1 AND id <> $2")
            .bind(user_id)
            .bind(keep.unwrap_or_default())
            .execute(self.connection.statements())
            .await?;
        Ok(done.rows_affected())
    }

    /// Ends the least recently used sessions of a user, so that `kept` remain, and returns their ids. At most a hundred
    /// per call.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_idlest_sessions(&mut self, user_id: &str, kept: u32) -> Result<Vec<String>, DbError> {
        let ended = sqlx::query(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE user_id = $1 \
             ORDER BY last_seen_at DESC, created_at DESC, id LIMIT 100 OFFSET $2) RETURNING id",
        )
        .bind(user_id)
        .bind(i64::from(kept))
        .fetch_all(self.connection.statements())
        .await?;
        ended.iter().map(|row| rows::text(row, "id")).collect()
    }

    /// Ends the sessions that began before `created_before` or were last used before `seen_before`, and returns their
    /// number.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_expired_sessions(
        &mut self,
        created_before: Option<Timestamp>,
        seen_before: Option<Timestamp>,
    ) -> Result<u64, DbError> {
        // No time is before `i64::MIN`, which therefore represents an absent limit.
        let micros = |limit: Option<Timestamp>| limit.map_or(i64::MIN, Timestamp::as_micros);
        let done = sqlx::query("DELETE FROM sessions WHERE created_at < $1 OR last_seen_at < $2")
            .bind(micros(created_before))
            .bind(micros(seen_before))
            .execute(self.connection.statements())
            .await?;
        Ok(done.rows_affected())
    }
}
