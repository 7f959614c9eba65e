//! What all threads of the soak share: where the replicas are, when something was away, what was found wrong, and every request
//! with how it was answered.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::rights::Rights;
use super::spans::Written;
use crate::stack::interrupt;

/// How long after something came back answers may still say that it is away: on two cores, with everything else running.
const GRACE: Duration = Duration::from_secs(10);

/// So many faults are told in full.
const TOLD: usize = 30;

/// Where a replica is.
pub struct Place {
    pub base: String,
    /// Whether whoever balances load sends requests there.
    pub up: AtomicBool,
    /// Changes when another process serves there: connections to the one before are worth nothing.
    pub generation: AtomicU64,
    pub process: AtomicU32,
}

/// The requests of one kind.
#[derive(Default)]
pub struct Kind {
    /// Times of those that were answered, in microseconds; undisturbed ones.
    pub calm: Vec<u32>,
    /// While something was away or coming back.
    pub disturbed: Vec<u32>,
    /// Answers that nothing can be said of but that they may come when something is away.
    pub refused: u64,
    /// Connections that broke before the answer was whole.
    pub cut_off: u64,
    /// Answers that were compared with what had to be in them.
    pub checked: u64,
}

/// Records that there must be, and that there may be.
#[derive(Default)]
pub struct Recorded {
    /// Request, action and outcome.
    pub must: Vec<(String, &'static str, &'static str)>,
    /// Requests that were answered with an error.
    pub may: HashSet<String>,
    /// Requests with a credential that ended meanwhile: where they leave a record, it says that they were denied.
    pub denied: HashSet<String>,
    /// Requests without an answer, by action.
    pub cut_off: BTreeMap<&'static str, u64>,
}

pub struct Shared {
    pub seed: u64,
    /// Seconds that a user pauses, on average.
    pub pause: u64,
    pub places: Vec<Place>,
    pub written: Written,
    pub rights: Rights,
    pub usernames: Vec<String>,
    pub kinds: Mutex<BTreeMap<&'static str, Kind>>,
    pub recorded: Mutex<Recorded>,
    pub events: Mutex<BTreeMap<&'static str, u64>>,
    wrong: Mutex<Vec<String>>,
    /// When what was away came back; nothing as long as it is away.
    away: Mutex<Vec<Option<Instant>>>,
    over: AtomicBool,
}

/// Nothing here is left half changed by a thread that panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(
        seed: u64,
        places: Vec<Place>,
        written: Written,
        rights: Rights,
        usernames: Vec<String>,
    ) -> Self {
        Self {
            seed,
            pause: 1,
            places,
            written,
            rights,
            usernames,
            kinds: Mutex::default(),
            recorded: Mutex::default(),
            events: Mutex::default(),
            wrong: Mutex::default(),
            away: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    pub fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst) || interrupt::requested()
    }

    /// Sleeps, but not beyond the end.
    pub fn sleep(&self, duration: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < duration {
            thread::sleep(Duration::from_millis(50).min(duration.saturating_sub(begun.elapsed())));
        }
    }

    /// Notes something that must not be.
    pub fn wrong(&self, what: String) {
        let mut wrong = lock(&self.wrong);
        if wrong.len() < TOLD {
            eprintln!("WRONG   {what}");
        }
        wrong.push(what);
    }

    /// Notes `what` unless `holds`.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    pub fn wrongs(&self) -> usize {
        lock(&self.wrong).len()
    }

    /// Does something during which answers may say that they cannot be had.
    pub fn disturb<T>(&self, what: &'static str, disturbance: impl FnOnce() -> T) -> T {
        let place = {
            let mut away = lock(&self.away);
            away.push(None);
            away.len() - 1
        };
        let outcome = disturbance();
        if let Some(ended) = lock(&self.away).get_mut(place) {
            *ended = Some(Instant::now());
        }
        *lock(&self.events).entry(what).or_default() += 1;
        outcome
    }

    /// Whether something was away or coming back between then and now.
    pub fn disturbed_since(&self, begun: Instant) -> bool {
        lock(&self.away).iter().any(|ended| ended.is_none_or(|ended| ended + GRACE > begun))
    }

    pub fn took(&self, kind: &'static str, time: Duration, disturbed: bool) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let mut kinds = lock(&self.kinds);
        let kind = kinds.entry(kind).or_default();
        if disturbed { kind.disturbed.push(micros) } else { kind.calm.push(micros) }
    }

    pub fn checked(&self, kind: &'static str) {
        lock(&self.kinds).entry(kind).or_default().checked += 1;
    }

    pub fn refused(&self, kind: &'static str) {
        lock(&self.kinds).entry(kind).or_default().refused += 1;
    }

    pub fn cut_off(&self, kind: &'static str, action: Option<&'static str>) {
        lock(&self.kinds).entry(kind).or_default().cut_off += 1;
        if let Some(action) = action {
            *lock(&self.recorded).cut_off.entry(action).or_default() += 1;
        }
    }
}
