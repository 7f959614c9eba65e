//! Work that several callers need at the same time: it runs once, and all of them get its result or its failure.
//!
//! With a lock held over a statement, callers would fail one after the other when ClickHouse hangs, each after its own time
//! limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, WeakShared};
use tokio::time::Instant;

use crate::{ClickHouseError, Result};

type RunningWork<T, E> = WeakShared<BoxFuture<'static, Result<T, E>>>;

/// One kind of work, of which at most one runs at a time. It is cancelled when no caller waits for it.
pub struct SharedWork<T: Clone, E: Clone>(Mutex<Option<RunningWork<T, E>>>);

impl<T: Clone, E: Clone> Default for SharedWork<T, E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T, E> SharedWork<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Returns the result of the running work. If none runs, starts `work`.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn run(&self, work: BoxFuture<'static, Result<T, E>>) -> Result<T, E> {
        let shared = {
            let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let joined = running.as_ref().and_then(WeakShared::upgrade).filter(|work| work.peek().is_none());
            joined.unwrap_or_else(|| {
                let work = work.shared();
                *running = work.downgrade();
                work
            })
        };
        shared.await
    }
}

/// A cache of values read from ClickHouse. Each is kept for a while, and one read serves all callers that wait for it.
pub(crate) struct TtlCache<K, T: Clone>(Mutex<HashMap<K, Arc<Entry<T>>>>);

struct Entry<T: Clone> {
    cached: Mutex<Option<(Instant, T)>>,
    pending_read: SharedWork<T, ClickHouseError>,
}

/// Maximum number of keys with cached values; more than a service has tables.
const MAX_KEYS: usize = 64;

impl<K, T: Clone> Default for TtlCache<K, T> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<T: Clone> Entry<T> {
    fn cached(&self) -> MutexGuard<'_, Option<(Instant, T)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T> TtlCache<K, T>
where
    K: Eq + Hash,
    T: Clone + Send + Sync + 'static,
{
    /// Returns the cached value if it is not older than `ttl`, or else the result of `read`. Failures are not cached.
    pub(crate) async fn get(&self, key: K, ttl: Duration, read: BoxFuture<'static, Result<T>>) -> Result<T> {
        let entry = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if entries.len() >= MAX_KEYS {
                entries.clear();
            }
            let new = || Arc::new(Entry { cached: Mutex::new(None), pending_read: SharedWork::default() });
            Arc::clone(entries.entry(key).or_insert_with(new))
        };
        if let Some((_, value)) = entry.cached().as_ref().filter(|(read_at, _)| read_at.elapsed() < ttl) {
            return Ok(value.clone());
        }
        let weak_entry = Arc::downgrade(&entry);
        let work = async move {
            let read_at = Instant::now();
            let value = read.await?;
            if let Some(entry) = weak_entry.upgrade() {
                *entry.cached() = Some((read_at, value.clone()));
            }
            Ok(value)
        };
        entry.pending_read.run(work.boxed()).await
    }

    /// Makes all cached values older.
    #[cfg(test)]
    pub(crate) fn age(&self, by: Duration) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.values() {
            if let Some((read_at, _)) = entry.cached().as_mut() {
                *read_at -= by;
            }
        }
    }

    /// Returns the value that was last read, whatever its age, without reading.
    pub(crate) fn peek(&self, key: &K) -> Option<T> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = entries.get(key)?.cached();
        cached.as_ref().map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_results_and_failures() {
        let cache = Arc::new(TtlCache::<u8, u32>::default());
        let runs = Arc::new(AtomicU32::new(0));
        let ask = |fails: bool| {
            let (cache, runs) = (Arc::clone(&cache), Arc::clone(&runs));
            async move {
                let read = async move {
                    let run = runs.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    if fails { Err(ClickHouseError::Timeout("hangs".to_owned())) } else { Ok(run) }
                };
                cache.get(1, Duration::from_secs(30), read.boxed()).await
            }
        };
        let begun = Instant::now();
        assert!(join_all((0..10).map(|_| ask(true))).await.iter().all(Result::is_err));
        assert_eq!((begun.elapsed().as_secs(), runs.load(Ordering::Relaxed)), (5, 1));
        assert_eq!(cache.peek(&1), None);
        // Failures are not cached.
        assert_eq!(join_all((0..10).map(|_| ask(false))).await, vec![Ok(1); 10]);
        assert_eq!((begun.elapsed().as_secs(), cache.peek(&1)), (10, Some(1)));
        assert_eq!(ask(true).await, Ok(1));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(ask(false).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn shared_work_ends_with_its_last_waiter() {
        let work = SharedWork::<u8, ()>::default();
        let never = std::future::pending::<Result<u8, ()>>();
        let gone = tokio::time::timeout(Duration::from_secs(1), work.run(never.boxed())).await;
        assert!(gone.is_err());
        assert_eq!(work.run(async { Ok(7) }.boxed()).await, Ok(7));
    }
}
