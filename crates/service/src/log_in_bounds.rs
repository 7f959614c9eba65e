//! What a flood of log-ins can take of this replica. A stranger decides how many there are, and each writes to the own
//! database twice, where one writes at a time and every read of traces has two records to write.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracewarden_appdb::WriteTx;

use crate::error::ServiceError;
use crate::running::{Permit, Running};
use crate::service::Service;

/// Log-ins under way for each hash that may be computed at the same time.
const PLACES_PER_HASH: usize = 4;
const PLACES_MIN: usize = 16;

/// One address gets at most one place of so many, so that a flood from a single one leaves others to everybody else.
const SHARE_OF_ADDRESS: usize = 2;

/// A log-in that waited so long for the ones before it meets a database that does not work.
const PATIENCE: Duration = Duration::from_secs(5);

/// Under which log-ins wait to write; no user's id.
const WRITERS: &str = "log-ins";

const TOO_MANY: ServiceError = ServiceError::Overloaded { what: "too many log-ins are under way" };

/// Log-ins under way.
pub(crate) struct LogIns {
    places: Arc<Semaphore>,
    by_address: Running,
}

/// The leave to log in, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _place: OwnedSemaphorePermit,
    _of_address: Permit,
}

impl LogIns {
    pub(crate) fn new(max_parallel_hashes: usize) -> Self {
        let places = max_parallel_hashes.saturating_mul(PLACES_PER_HASH).max(PLACES_MIN);
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            by_address: Running::new(Some(places / SHARE_OF_ADDRESS)),
        }
    }

    /// The leave to begin one more. Nobody waits for it: those who wait would themselves be without bound.
    ///
    /// # Errors
    /// [`ServiceError::Overloaded`].
    pub(crate) fn admit(&self, address: &str) -> Result<Place, ServiceError> {
        let of_address = self.by_address.admit(address).ok_or(TOO_MANY)?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| TOO_MANY)?;
        Ok(Place { _place: place, _of_address: of_address })
    }
}

impl Service {
    /// Begins a transaction that writes for somebody who is not logged in yet. Of all of them one at a time stands among the
    /// writers of the own database, so that whoever reads traces waits there for one log-in at most.
    ///
    /// # Errors
    /// [`ServiceError::Unavailable`], also when the wait is too long.
    pub(crate) async fn begin_log_in_write(&self) -> Result<WriteTx, ServiceError> {
        Ok(self.db().begin_write_of(WRITERS, PATIENCE).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_to_others_and_all_come_back() {
        let log_ins = LogIns::new(5);
        let at = |address: &str, count: usize| -> Vec<_> {
            (0..count).map_while(|_| log_ins.admit(address).ok()).collect()
        };
        for _ in 0..2 {
            let flood = at("a", 100);
            assert_eq!(flood.len(), 10);
            let others = [at("b", 6), at("c", 100)];
            assert_eq!(others.each_ref().map(Vec::len), [6, 4]);
            assert!(matches!(log_ins.admit("d"), Err(ServiceError::Overloaded { .. })));
            drop(flood);
            assert_eq!(at("d", 100).len(), 10);
        }
        let few = LogIns::new(1);
        let all: Vec<_> = (0..100).map_while(|number| few.admit(&number.to_string()).ok()).collect();
        assert_eq!(all.len(), 16);
    }
}
