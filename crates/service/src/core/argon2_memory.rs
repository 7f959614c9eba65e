//! Memory in which password hashes are computed: 19 MiB or more for each, kept and reused. If each hash allocated its own
//! memory, the allocator would keep it for the thread that requested it, and a burst of sign-ins would leave one block for
//! each thread instead of one for each concurrent hash.

use std::sync::{Arc, Mutex, PoisonError};

use argon2::{Block, Params};

use crate::core::error::{Result, ServiceError};
use crate::core::permits::Limiter;

/// Memory for one hash at a time; grows to the size of the most expensive hash that was computed in it.
#[derive(Default)]
pub(crate) struct Argon2Memory(Vec<Block>);

impl Argon2Memory {
    /// Returns as much memory as the parameters require. It may contain data of earlier hashes: each hash writes before it
    /// reads.
    pub(crate) fn blocks(&mut self, params: &Params) -> Result<&mut [Block]> {
        let count = params.block_count();
        if self.0.len() < count {
            // Freed first, because its content need not be copied.
            self.0 = Vec::new();
            self.0.try_reserve_exact(count).map_err(ServiceError::internal)?;
            self.0.resize(count, Block::new());
        }
        self.0.get_mut(..count).ok_or_else(|| ServiceError::internal("the memory of a hash is too small"))
    }
}

/// A bounded number of memories, which bounds the number of concurrent hashes.
pub(crate) struct Argon2MemoryPool {
    work: Limiter,
    /// Used as a stack: a service with little load touches one memory only.
    idle: Arc<Mutex<Vec<Argon2Memory>>>,
}

impl Argon2MemoryPool {
    /// Allows `count` memories, of which `first` is already allocated.
    pub(crate) fn new(count: usize, first: Argon2Memory) -> Self {
        Self { work: Limiter::total(count), idle: Arc::new(Mutex::new(vec![first])) }
    }

    /// Runs work off the async threads as soon as one of the memories is free.
    pub(crate) async fn with_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Argon2Memory) -> T + Send + 'static,
    ) -> Result<T> {
        let idle = Arc::clone(&self.idle);
        self.work
            .run(move || {
                // A poisoned lock is safe to use: each holder only pushes or pops, which has either happened or not.
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

    /// Uses a runtime with one thread, which this work would block if it ran there.
    #[tokio::test]
    async fn hashing_blocks_no_request_threads_and_is_limited() {
        let memories = Arc::new(Argon2MemoryPool::new(2, Argon2Memory::default()));
        let (begun, beginnings) = mpsc::channel();
        let begin = || {
            let (end, ended) = mpsc::channel::<()>();
            let (memories, begun) = (Arc::clone(&memories), begun.clone());
            let work = async move {
                memories
                    .with_memory(move |_| {
                        begun.send(()).is_ok() && ended.recv_timeout(Duration::from_secs(60)).is_ok()
                    })
                    .await
            };
            (end, tokio::spawn(work))
        };
        let mut works: Vec<_> = (0..3).map(|_| begin()).collect();
        // Waits up to 30 seconds for the expected tasks to start, then 200 ms for tasks that must not start.
        let begun_so_far = async |expected: usize| {
            let (started, mut seen) = (Instant::now(), 0);
            while seen < expected && started.elapsed() < Duration::from_secs(30) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                seen += beginnings.try_iter().count();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            seen + beginnings.try_iter().count()
        };
        assert_eq!(begun_so_far(2).await, 2);
        // The hash of a cancelled caller continues and keeps its permit.
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
