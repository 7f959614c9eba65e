//! The memory that password hashes are computed in: 19 MiB or more for each, kept and used again. Taken from the allocator
//! for each hash, it would stay with whichever thread asked for it, and a burst of log-ins would leave as many of them
//! behind as there were threads, not as many as may be in use.

use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Block, Params};

use crate::bounded_work::BoundedWork;
use crate::error::ServiceError;

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
    work: BoundedWork,
    /// The last one given back is the next one taken, so that a quiet service touches one only.
    idle: Arc<Mutex<Vec<HashMemory>>>,
}

impl HashMemories {
    /// As many, one of them in use already.
    pub(crate) fn new(count: usize, first: HashMemory) -> Self {
        Self { work: BoundedWork::new(count), idle: Arc::new(Mutex::new(vec![first])) }
    }

    /// Does work off the async threads, once one of the memories is free.
    pub(crate) async fn lend<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let idle = Arc::clone(&self.idle);
        self.work
            .run(move || {
                // Whoever died while they held the lock was pushing or popping, which is done or not.
                let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
                let mut memory = lock().pop().unwrap_or_default();
                let result = work(&mut memory);
                lock().push(memory);
                result
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    /// On a runtime with one thread, which this work would stop if it ran there.
    #[tokio::test]
    async fn hashes_keep_no_thread_of_requests_and_so_many_run_at_once() {
        let memories = Arc::new(HashMemories::new(2, HashMemory::default()));
        let (begun, beginnings) = mpsc::channel();
        let begin = || {
            let (end, ended) = mpsc::channel::<()>();
            let (memories, begun) = (Arc::clone(&memories), begun.clone());
            let work = async move {
                memories
                    .lend(move |_| {
                        begun.send(()).is_ok() && ended.recv_timeout(Duration::from_secs(60)).is_ok()
                    })
                    .await
            };
            (end, tokio::spawn(work))
        };
        let mut works: Vec<_> = (0..3).map(|_| begin()).collect();
        // As many as shall begin have time for it; that no more do is seen in a fifth of a second.
        let begun_so_far = async |expected: usize| {
            let (asked, mut seen) = (Instant::now(), 0);
            while seen < expected && asked.elapsed() < Duration::from_secs(30) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                seen += beginnings.try_iter().count();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            seen + beginnings.try_iter().count()
        };
        assert_eq!(begun_so_far(2).await, 2);
        // Whoever leaves leaves the hash, which keeps its place.
        let (left, work) = works.remove(0);
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        assert_eq!(begun_so_far(0).await, 0);
        left.send(()).unwrap();
        assert_eq!(begun_so_far(1).await, 1);
        for (end, work) in works {
            end.send(()).unwrap();
            assert!(work.await.unwrap().unwrap());
        }
    }
}
