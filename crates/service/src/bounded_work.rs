//! Work that keeps a thread busy, so much of it at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::ServiceError;
use crate::service::blocking;

/// So much work at a time; the rest waits in order.
pub(crate) struct BoundedWork(Arc<Semaphore>);

impl BoundedWork {
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Does work off the threads that serve requests, in its turn. Whoever leaves before it has begun leaves the queue.
    ///
    /// # Errors
    /// An internal one when the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        // It moves into the work: a client that goes away must not let the next begin beside this one.
        let permit = permit.map_err(|error| ServiceError::internal(error.to_string()))?;
        blocking(move || {
            let result = work();
            drop(permit);
            result
        })
        .await
    }
}
