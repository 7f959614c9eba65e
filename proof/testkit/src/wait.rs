//! Waiting for background work: until it is done, rather than for a fixed time that is only long enough on a fast machine.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Time-out for a condition that is certain to occur. Only a program that hangs takes this long.
pub const TIMEOUT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Calls `poll` repeatedly, for at most [`TIMEOUT`], until `done` accepts the result, and returns that result.
///
/// # Panics
/// After the time-out, with the last result.
#[track_caller]
pub fn until<T: Debug, Fut: Future<Output = T>>(
    poll: impl FnMut() -> Fut,
    done: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    until_within(TIMEOUT, poll, done)
}

/// As [`until`], for tests in which the time limit matters.
///
/// # Panics
/// After the time-out, with the last result.
#[track_caller]
pub fn until_within<T: Debug, Fut: Future<Output = T>>(
    timeout: Duration,
    mut poll: impl FnMut() -> Fut,
    done: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            // Evaluated before asking: after a slow answer that exceeds the limit there is one more attempt.
            let last = started.elapsed() >= timeout;
            let answer = poll().await;
            if done(&answer) {
                return answer;
            }
            assert!(!last, "{caller}: after {timeout:?} still {answer:#?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn returns_the_answer_that_was_waited_for() {
        let polled = Cell::new(0);
        let poll = async || {
            polled.set(polled.get() + 1);
            polled.get()
        };
        assert_eq!(until(poll, |polled| *polled == 3).await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "still 7")]
    async fn reports_the_last_answer() {
        until_within(Duration::from_millis(1), async || 7, |answer| *answer == 8).await;
    }
}
