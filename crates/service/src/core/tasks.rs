//! Work that runs apart from the request that asked for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinError;
use tracing::Instrument as _;

use crate::core::error::{Result, ServiceError};

/// Runs work to completion, even if the caller that awaits it is cancelled.
///
/// # Errors
/// The errors of the work; an internal error if it panicked.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work.in_current_span()).await.map_err(|error| ended_early(&error))?
}

/// Runs work that blocks its thread on the blocking thread pool, off the threads that serve requests.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ended_early(&error))
}

/// Omits the join error itself, which quotes the panic message.
fn ended_early(error: &JoinError) -> ServiceError {
    ServiceError::internal(if error.is_panic() { "a task panicked" } else { "a task was ended" })
}

/// Marks a pending request; sets its flag when dropped, to stop the evaluation after the client disconnects.
pub(crate) struct CancelOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
