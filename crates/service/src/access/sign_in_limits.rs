//! The queue of sign-ins for the application database. It has one writer at a time, and every read of traces needs it for two
//! audit records.

use std::time::Duration;

use tracewarden_appdb::WriteTx;

use crate::access::account::Account;
use crate::core::ServiceError;

/// Maximum wait of a sign-in for those before it; a longer wait means that the database does not work.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the queue in which sign-ins wait to write; not a user id.
const WRITE_QUEUE: &str = "log-ins";

/// Refusal of a sign-in when no permit is free. It does not wait: the number of waiting clients would be unbounded.
pub(crate) const TOO_MANY_SIGN_INS: ServiceError =
    ServiceError::Overloaded { what: "too many sign-ins are in progress" };

impl Account {
    /// Begins a write transaction for a client that is not signed in yet. All sign-ins share one place in the queue of the
    /// application database's writers, so that a user who reads traces waits for one sign-in at most.
    ///
    /// # Errors
    /// [`ServiceError::Unavailable`], also if the wait is too long.
    pub(crate) async fn begin_sign_in_write(&self) -> Result<WriteTx, ServiceError> {
        Ok(self.core.db.begin_queued_write(WRITE_QUEUE, TIMEOUT).await?)
    }
}
