//! Counters of failed sign-ins, shared by all replicas.

use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::Throttle;
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

impl ReadTx {
    /// Returns the counter of a bucket.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn throttle(&mut self, bucket: &str) -> Result<Option<Throttle>, DbError> {
        let row = sqlx::query(
            "SELECT failures, window_start, blocked_until FROM login_throttles WHERE bucket = $1",
        )
        .bind(bucket)
        .fetch_optional(self.connection.statements())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let failures = u32::try_from(rows::integer(&row, "failures")?)
            .map_err(|_| DbError::Corrupt("`failures` is out of range".to_owned()))?;
        Ok(Some(Throttle {
            failures,
            window_start: rows::time(&row, "window_start")?,
            blocked_until: rows::time(&row, "blocked_until")?,
        }))
    }
}

impl WriteTx {
    /// Stores the counter of a bucket.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn put_throttle(&mut self, bucket: &str, throttle: &Throttle) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO login_throttles (bucket, failures, window_start, blocked_until) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (bucket) DO UPDATE SET failures = excluded.failures, \
             window_start = excluded.window_start, blocked_until = excluded.blocked_until",
        )
        .bind(bucket)
        .bind(i64::from(throttle.failures))
        .bind(throttle.window_start.as_micros())
        .bind(throttle.blocked_until.as_micros())
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }

    /// Deletes a bucket.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_throttle(&mut self, bucket: &str) -> Result<(), DbError> {
        sqlx::query("DELETE FROM login_throttles WHERE bucket = $1")
            .bind(bucket)
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Deletes buckets whose window began before `before` and that no longer block any client. Otherwise the table
    /// would grow with every address that ever tried.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_stale_throttles(&mut self, before: Timestamp) -> Result<(), DbError> {
        sqlx::query("DELETE FROM login_throttles WHERE window_start < $1 AND blocked_until < $1")
            .bind(before.as_micros())
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }
}
