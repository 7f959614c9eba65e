//! Counters of failed sign-ins, shared by all replicas.

use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::Throttle;
use crate::rows::from_row;
use crate::transactions::{ReadTx, WriteTx};
use crate::values::values;

from_row!(Throttle: failures, window_start, blocked_until);

impl ReadTx {
    /// Returns the counter of a bucket.
    pub async fn throttle(&mut self, bucket: &str) -> Result<Option<Throttle>, DbError> {
        let statement = "SELECT failures, window_start, blocked_until FROM login_throttles WHERE bucket = $1";
        self.connection.optional(statement, values![bucket]).await
    }
}

impl WriteTx {
    /// Stores the counter of a bucket.
    pub async fn put_throttle(&mut self, bucket: &str, throttle: &Throttle) -> Result<(), DbError> {
        let statement = "INSERT INTO login_throttles (bucket, failures, window_start, blocked_until) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (bucket) DO UPDATE SET failures = excluded.failures, \
             window_start = excluded.window_start, blocked_until = excluded.blocked_until";
        let Throttle { failures, window_start, blocked_until } = *throttle;
        let values = values![bucket, failures, window_start, blocked_until];
        self.connection.execute(statement, values).await.map(drop)
    }

    /// Deletes a bucket.
    pub async fn delete_throttle(&mut self, bucket: &str) -> Result<(), DbError> {
        let statement = "DELETE FROM login_throttles WHERE bucket = $1";
        self.connection.execute(statement, values![bucket]).await.map(drop)
    }

    /// Deletes buckets whose window began before `before` and that no longer block any client. Otherwise the table
    /// would grow with every address that ever tried.
    pub async fn delete_stale_throttles(&mut self, before: Timestamp) -> Result<(), DbError> {
        let statement = "DELETE FROM login_throttles WHERE window_start < $1 AND blocked_until < $1";
        self.connection.execute(statement, values![before]).await.map(drop)
    }
}
