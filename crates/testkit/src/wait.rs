//! Waiting for work in the background: until it is done, and not for a time that is long enough on a fast machine.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// How long a test waits for what is sure to come. Only a program that hangs takes as long.
pub const LIMIT: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(10);

/// Asks again and again, for at most [`LIMIT`], until the answer is as `done` wants it, and returns that answer.
///
/// # Panics
/// After that time, with the last answer.
#[track_caller]
pub fn until<T: Debug, Asked: Future<Output = T>>(
    ask: impl FnMut() -> Asked,
    done: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    until_within(LIMIT, ask, done)
}

/// As [`until`], where a time is part of what is tested.
///
/// # Panics
/// After that time, with the last answer.
#[track_caller]
pub fn until_within<T: Debug, Asked: Future<Output = T>>(
    limit: Duration,
    mut ask: impl FnMut() -> Asked,
    done: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let begun = Instant::now();
        loop {
            // Before asking: an answer that took long to come is the last one all the same.
            let last = begun.elapsed() >= limit;
            let answer = ask().await;
            if done(&answer) {
                return answer;
            }
            assert!(!last, "{caller}: after {limit:?} still {answer:#?}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn returns_the_answer_that_was_waited_for() {
        let asked = Cell::new(0);
        let ask = async || {
            asked.set(asked.get() + 1);
            asked.get()
        };
        assert_eq!(until(ask, |asked| *asked == 3).await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "still 7")]
    async fn tells_what_it_saw_last() {
        until_within(Duration::from_millis(1), async || 7, |answer| *answer == 8).await;
    }
}
