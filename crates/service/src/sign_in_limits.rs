//! Limits on concurrent sign-ins. Anonymous clients decide how many there are, and each writes to the application database
//! twice. That database has one writer at a time, and every read of traces needs it for two audit records.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracewarden_appdb::WriteTx;

use crate::error::ServiceError;
use crate::keyed_limiter::{KeyedLimiter, Permit};
use crate::service::Service;

/// Concurrent sign-ins for each hash that may be computed at the same time.
const PERMITS_PER_HASH: usize = 4;
const MIN_PERMITS: usize = 16;

/// One address gets at most 1/`SHARE_OF_ADDRESS` of the permits, so that a flood from one address leaves permits for other
/// clients.
const SHARE_OF_ADDRESS: usize = 2;

/// Maximum wait of a sign-in for those before it; a longer wait means that the database does not work.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Name of the queue in which sign-ins wait to write; not a user id.
const WRITE_QUEUE: &str = "log-ins";

const TOO_MANY_SIGN_INS: ServiceError =
    ServiceError::Overloaded { what: "too many sign-ins are in progress" };

/// Sign-ins in progress.
pub(crate) struct SignInLimiter {
    permits: Arc<Semaphore>,
    by_address: KeyedLimiter,
}

/// Permit to sign in, released when it is dropped.
#[derive(Debug)]
pub(crate) struct SignInPermit {
    _permit: OwnedSemaphorePermit,
    _address_permit: Permit,
}

impl SignInLimiter {
    pub(crate) fn new(max_parallel_hashes: usize) -> Self {
        let permits = max_parallel_hashes.saturating_mul(PERMITS_PER_HASH).max(MIN_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            by_address: KeyedLimiter::new(Some(permits / SHARE_OF_ADDRESS)),
        }
    }

    /// Returns a permit for one more sign-in. Does not wait: the number of waiting clients would be unbounded.
    ///
    /// # Errors
    /// [`ServiceError::Overloaded`].
    pub(crate) fn try_acquire(&self, address: &str) -> Result<SignInPermit, ServiceError> {
        let address_permit = self.by_address.try_acquire(address).ok_or(TOO_MANY_SIGN_INS)?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| TOO_MANY_SIGN_INS)?;
        Ok(SignInPermit { _permit: permit, _address_permit: address_permit })
    }
}

impl Service {
    /// Begins a write transaction for a client that is not signed in yet. All sign-ins share one place in the queue of the
    /// application database's writers, so that a user who reads traces waits for one sign-in at most.
    ///
    /// # Errors
    /// [`ServiceError::Unavailable`], also if the wait is too long.
    pub(crate) async fn begin_sign_in_write(&self) -> Result<WriteTx, ServiceError> {
        Ok(self.db().begin_queued_write(WRITE_QUEUE, TIMEOUT).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_permits_and_all_are_returned() {
        let limiter = SignInLimiter::new(5);
        let at = |address: &str, count: usize| -> Vec<_> {
            (0..count).map_while(|_| limiter.try_acquire(address).ok()).collect()
        };
        for _ in 0..2 {
            let flood = at("a", 100);
            assert_eq!(flood.len(), 10);
            let others = [at("b", 6), at("c", 100)];
            assert_eq!(others.each_ref().map(Vec::len), [6, 4]);
            assert!(matches!(limiter.try_acquire("d"), Err(ServiceError::Overloaded { .. })));
            drop(flood);
            assert_eq!(at("d", 100).len(), 10);
        }
        let few = SignInLimiter::new(1);
        let all: Vec<_> = (0..100).map_while(|number| few.try_acquire(&number.to_string()).ok()).collect();
        assert_eq!(all.len(), 16);
    }
}
