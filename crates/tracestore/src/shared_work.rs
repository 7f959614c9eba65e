//! Work that several callers want at the same time: done once, its result and its failure given to all of them.
//!
//! A lock held over a statement would have them fail one after the other when the store hangs, each after a time limit of its
//! own.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, WeakShared};
use tokio::time::Instant;

use crate::StoreError;

type Running<T, E> = WeakShared<BoxFuture<'static, Result<T, E>>>;

/// One kind of work, of which at most one is under way. When all who wait for it are gone, it ends.
pub struct SharedWork<T: Clone, E: Clone>(Mutex<Option<Running<T, E>>>);

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
    /// The result of the work that is under way, or else of this, which then is.
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

/// What was read from the store, by keys, each kept for a while and read by one caller at a time for all.
pub(crate) struct Remembered<K, T: Clone>(Mutex<HashMap<K, Arc<Entry<T>>>>);

struct Entry<T: Clone> {
    kept: Mutex<Option<(Instant, T)>>,
    reading: SharedWork<T, StoreError>,
}

/// Keys of which results are kept; more than a service has tables.
const KEYS_MAX: usize = 64;

impl<K, T: Clone> Default for Remembered<K, T> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<T: Clone> Entry<T> {
    fn kept(&self) -> MutexGuard<'_, Option<(Instant, T)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T> Remembered<K, T>
where
    K: Eq + Hash,
    T: Clone + Send + Sync + 'static,
{
    /// What is kept and not older than `life`, or else what `read` gives. A failure is not kept.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) async fn get(
        &self,
        key: K,
        life: Duration,
        read: BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let entry = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if entries.len() >= KEYS_MAX {
                entries.clear();
            }
            let new = || Arc::new(Entry { kept: Mutex::new(None), reading: SharedWork::default() });
            Arc::clone(entries.entry(key).or_insert_with(new))
        };
        if let Some((_, value)) = entry.kept().as_ref().filter(|(read_at, _)| read_at.elapsed() < life) {
            return Ok(value.clone());
        }
        let keep = Arc::downgrade(&entry);
        let work = async move {
            let read_at = Instant::now();
            let value = read.await?;
            if let Some(entry) = keep.upgrade() {
                *entry.kept() = Some((read_at, value.clone()));
            }
            Ok(value)
        };
        entry.reading.run(work.boxed()).await
    }

    /// Makes everything that is kept older.
    #[cfg(test)]
    pub(crate) fn age(&self, by: Duration) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.values() {
            if let Some((read_at, _)) = entry.kept().as_mut() {
                *read_at -= by;
            }
        }
    }

    /// What was read last, however long ago, without reading.
    pub(crate) fn peek(&self, key: &K) -> Option<T> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = entries.get(key)?.kept();
        kept.as_ref().map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_at_the_same_time_share_result_and_failure() {
        let remembered = Arc::new(Remembered::<u8, u32>::default());
        let runs = Arc::new(AtomicU32::new(0));
        let ask = |fails: bool| {
            let (remembered, runs) = (Arc::clone(&remembered), Arc::clone(&runs));
            async move {
                let read = async move {
                    let run = runs.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    if fails { Err(StoreError::Timeout("hangs".to_owned())) } else { Ok(run) }
                };
                remembered.get(1, Duration::from_secs(30), read.boxed()).await
            }
        };
        let begun = Instant::now();
        assert!(join_all((0..10).map(|_| ask(true))).await.iter().all(Result::is_err));
        assert_eq!((begun.elapsed().as_secs(), runs.load(Ordering::Relaxed)), (5, 1));
        assert_eq!(remembered.peek(&1), None);
        // A failure is not kept.
        assert_eq!(join_all((0..10).map(|_| ask(false))).await, vec![Ok(1); 10]);
        assert_eq!((begun.elapsed().as_secs(), remembered.peek(&1)), (10, Some(1)));
        assert_eq!(ask(true).await, Ok(1));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(ask(false).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_with_those_who_wait_for_it() {
        let work = SharedWork::<u8, ()>::default();
        let never = std::future::pending::<Result<u8, ()>>();
        let gone = tokio::time::timeout(Duration::from_secs(1), work.run(never.boxed())).await;
        assert!(gone.is_err());
        assert_eq!(work.run(async { Ok(7) }.boxed()).await, Ok(7));
    }
}
