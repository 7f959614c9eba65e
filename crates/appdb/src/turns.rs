//! Whoever writes much stands among the writers once. Writers are served one after another, and each waits for so long at
//! most: without this, one caller with many requests would have everybody else wait too long for a turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// Queues by name. That of a name that nobody holds or waits for is not there, so that there are never more of them than callers.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<String, Arc<Queue<()>>>>>);

/// A name's turn, given back when it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    name: String,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// The turn of a name, once those before it have been given back.
    pub(crate) async fn of(&self, name: &str) -> Turn {
        let queue = Arc::clone(self.queues().entry(name.to_owned()).or_default());
        // Before waiting, so that whoever gives up leaves nothing behind either.
        let mut turn = Turn { turns: self.clone(), name: name.to_owned(), held: None };
        turn.held = Some(queue.lock_owned().await);
        turn
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Queue<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        self.held = None;
        // Only the map has it: nobody holds it, and nobody waits.
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
    async fn a_name_has_one_turn_at_a_time_and_leaves_nothing_behind() {
        let turns = Turns::default();
        let held = turns.of("ada").await;
        let mut second = Box::pin(turns.of("ada"));
        let mut given_up = Box::pin(turns.of("ada"));
        assert!(poll_immediate(&mut second).await.is_none());
        assert!(poll_immediate(&mut given_up).await.is_none());
        drop(turns.of("bob").await);
        drop(given_up);
        drop(held);
        let held = poll_immediate(&mut second).await.expect("the first has been given back");
        assert!(poll_immediate(Box::pin(turns.of("ada"))).await.is_none());
        drop(held);
        let name = |number: usize| if number.is_multiple_of(2) { "ada" } else { "bob" };
        let (turns, taken) = (&turns, std::cell::Cell::new(0));
        join_all((0..100).map(|number| {
            let taken = &taken;
            async move {
                let _turn = turns.of(name(number)).await;
                taken.set(taken.get() + 1);
            }
        }))
        .await;
        assert_eq!(taken.get(), 100);
        assert!(turns.queues().is_empty());
    }
}
