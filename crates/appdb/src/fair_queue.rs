//! A fair queue for writers: a user with many writes has only one of them among all writers at a time. Writers are
//! served one after another with a time-out; without this queue, the requests of one user would make all others time
//! out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// Queues by name. A queue that is neither held nor waited for is removed, so there are never more queues than callers.
#[derive(Clone, Default)]
pub(crate) struct FairQueue(Arc<Mutex<HashMap<String, Arc<Queue<()>>>>>);

/// A permit for a name, released on drop.
pub(crate) struct QueuePermit {
    fair_queue: FairQueue,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl FairQueue {
    /// Acquires the permit of a name, after the waiters before it.
    pub(crate) async fn acquire(&self, name: &str) -> QueuePermit {
        let queue = Arc::clone(self.queues().entry(name.to_owned()).or_default());
        // Created before waiting, so that a caller that gives up leaves no queue behind.
        let mut permit = QueuePermit { fair_queue: self.clone(), name: name.to_owned(), guard: None };
        permit.guard = Some(queue.lock_owned().await);
        permit
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Queue<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        let mut queues = self.fair_queue.queues();
        self.guard = None;
        // Only the map refers to the queue: it is neither held nor waited for.
        if queues.get(&self.name).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join_all, poll_immediate};

    use super::*;

    #[tokio::test]
    async fn a_name_has_one_permit_at_a_time_and_is_removed() {
        let fair_queue = FairQueue::default();
        let guard = fair_queue.acquire("ada").await;
        let mut second = Box::pin(fair_queue.acquire("ada"));
        let mut given_up = Box::pin(fair_queue.acquire("ada"));
        assert!(poll_immediate(&mut second).await.is_none());
        assert!(poll_immediate(&mut given_up).await.is_none());
        drop(fair_queue.acquire("bob").await);
        drop(given_up);
        drop(guard);
        let guard = poll_immediate(&mut second).await.expect("the first has been given back");
        assert!(poll_immediate(Box::pin(fair_queue.acquire("ada"))).await.is_none());
        drop(guard);
        let name = |number: usize| if number.is_multiple_of(2) { "ada" } else { "bob" };
        let (fair_queue, acquired) = (&fair_queue, std::cell::Cell::new(0));
        join_all((0..100).map(|number| {
            let acquired = &acquired;
            async move {
                let _permit = fair_queue.acquire(name(number)).await;
                acquired.set(acquired.get() + 1);
            }
        }))
        .await;
        assert_eq!(acquired.get(), 100);
        assert!(fair_queue.queues().is_empty());
    }
}
