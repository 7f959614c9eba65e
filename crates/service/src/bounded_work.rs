//! Bounded concurrency for work that blocks its thread.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::ServiceError;
use crate::service::blocking;

/// Runs a limited number of tasks at the same time; further ones wait in order.
pub(crate) struct BoundedWork(Arc<Semaphore>);

impl BoundedWork {
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Runs work off the threads that serve requests once a permit is free. A caller that is cancelled before the work starts
    /// leaves the queue.
    ///
    /// # Errors
    /// An internal error if the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        // The permit moves into the work: otherwise, after a client disconnects, the next work would start while this one
        // still runs.
        let permit = permit.map_err(|error| ServiceError::internal(error.to_string()))?;
        blocking(move || {
            let result = work();
            drop(permit);
            result
        })
        .await
    }
}
