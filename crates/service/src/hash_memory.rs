//! The memory that password hashes are computed in: 19 MiB or more for each, kept and used again. Taken from the allocator
//! for each hash, it would stay with whichever thread asked for it, and a burst of log-ins would leave as many of them
//! behind as there were threads, not as many as may be in use.

use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Block, Params};
use tokio::sync::Semaphore;

use crate::error::ServiceError;
use crate::service::blocking;

/// Room for one hash at a time, which grows with the dearest that was computed in it.
#[derive(Default)]
pub(crate) struct HashMemory(Vec<Block>);

impl HashMemory {
    /// As much as these parameters ask for, with whatever is left in it: each hash writes before it reads.
    ///
    /// # Errors
    /// When there is not so much.
    pub(crate) fn blocks(&mut self, params: &Params) -> Result<&mut [Block], ServiceError> {
        let count = params.block_count();
        if self.0.len() < count {
            // Given back first: nothing in it is worth copying.
            self.0 = Vec::new();
            self.0.try_reserve_exact(count).map_err(|error| ServiceError::internal(error.to_string()))?;
            self.0.resize(count, Block::new());
        }
        self.0.get_mut(..count).ok_or_else(|| ServiceError::internal("the memory of a hash is too small"))
    }
}

/// A bounded number of memories, which bounds how many hashes are computed at the same time.
pub(crate) struct HashMemories {
    permits: Arc<Semaphore>,
    /// The last one given back is the next one taken, so that a quiet service touches one only.
    idle: Arc<Mutex<Vec<HashMemory>>>,
}

impl HashMemories {
    /// As many, one of them in use already.
    pub(crate) fn new(count: usize, first: HashMemory) -> Self {
        Self { permits: Arc::new(Semaphore::new(count.max(1))), idle: Arc::new(Mutex::new(vec![first])) }
    }

    /// Does work off the async threads, once one of the memories is free.
    pub(crate) async fn lend<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        // The permit moves into the work: a client that goes away must not let the next hash begin beside this one.
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|error| ServiceError::internal(error.to_string()))?;
        let idle = Arc::clone(&self.idle);
        blocking(move || {
            // Whoever died while they held the lock was pushing or popping, which is done or not.
            let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
            let mut memory = lock().pop().unwrap_or_default();
            let result = work(&mut memory);
            lock().push(memory);
            drop(permit);
            result
        })
        .await
    }
}
