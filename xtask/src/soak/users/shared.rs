//! State that all threads of the soak share: addresses of the replicas, times of faults, errors found, and every request with its
//! outcome.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::expected_access::ExpectedAccess;
use super::spans::WrittenSpans;
use crate::stack::interrupt;

/// Time after a restart during which responses may still report unavailability, on two cores with everything else running.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of errors that are printed in full.
const MAX_PRINTED_ERRORS: usize = 30;

/// Address and state of a replica.
pub struct ReplicaState {
    pub base: String,
    /// Whether the load balancer sends requests to it.
    pub up: AtomicBool,
    /// Incremented when another process serves the address, which invalidates existing connections.
    pub generation: AtomicU64,
    pub process: AtomicU32,
}

/// Statistics of the requests of one kind.
#[derive(Default)]
pub struct RequestStats {
    /// Response times in microseconds without faults.
    pub without_fault: Vec<u32>,
    /// Response times in microseconds while a component was down or restarting.
    pub during_fault: Vec<u32>,
    /// Number of responses that report unavailability, which is permitted during faults.
    pub refused: u64,
    /// Number of connections that failed before the response was complete.
    pub cut_off: u64,
    /// Number of responses whose content was checked.
    pub checked: u64,
}

/// Audit records that are required or permitted.
#[derive(Default)]
pub struct ExpectedRecords {
    /// Request, action and outcome of required records.
    pub required: Vec<(String, &'static str, &'static str)>,
    /// Requests that failed with an error response.
    pub permitted: HashSet<String>,
    /// Requests whose credential was revoked while they ran. If they have a record, its outcome must be `denied`.
    pub denied: HashSet<String>,
    /// Number of requests without a response, by action.
    pub cut_off: BTreeMap<&'static str, u64>,
}

pub struct SharedState {
    pub seed: u64,
    /// Average pause of a user in seconds.
    pub pause: u64,
    pub replica_states: Vec<ReplicaState>,
    pub written: WrittenSpans,
    pub expected_access: ExpectedAccess,
    pub usernames: Vec<String>,
    pub kinds: Mutex<BTreeMap<&'static str, RequestStats>>,
    pub expected_records: Mutex<ExpectedRecords>,
    pub events: Mutex<BTreeMap<&'static str, u64>>,
    wrong: Mutex<Vec<String>>,
    /// End time of each fault, or `None` while it lasts.
    fault_ends: Mutex<Vec<Option<Instant>>>,
    over: AtomicBool,
}

/// Locks a mutex, also a poisoned one: a panicking thread leaves no inconsistent state here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    pub fn new(
        seed: u64,
        replica_states: Vec<ReplicaState>,
        written: WrittenSpans,
        expected_access: ExpectedAccess,
        usernames: Vec<String>,
    ) -> Self {
        Self {
            seed,
            pause: 1,
            replica_states,
            written,
            expected_access,
            usernames,
            kinds: Mutex::default(),
            expected_records: Mutex::default(),
            events: Mutex::default(),
            wrong: Mutex::default(),
            fault_ends: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    pub fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst) || interrupt::requested()
    }

    /// Sleeps, but not beyond the end of the soak.
    pub fn sleep(&self, duration: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < duration {
            thread::sleep(Duration::from_millis(50).min(duration.saturating_sub(begun.elapsed())));
        }
    }

    /// Records an error.
    pub fn wrong(&self, what: String) {
        let mut wrong = lock(&self.wrong);
        if wrong.len() < MAX_PRINTED_ERRORS {
            eprintln!("WRONG   {what}");
        }
        wrong.push(what);
    }

    /// Records the error `what` unless `holds`.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    pub fn error_count(&self) -> usize {
        lock(&self.wrong).len()
    }

    /// Runs a fault injection. Meanwhile, responses may report unavailability.
    pub fn inject_fault<T>(&self, what: &'static str, fault: impl FnOnce() -> T) -> T {
        let index = {
            let mut fault_ends = lock(&self.fault_ends);
            fault_ends.push(None);
            fault_ends.len() - 1
        };
        let outcome = fault();
        if let Some(revocation_finished) = lock(&self.fault_ends).get_mut(index) {
            *revocation_finished = Some(Instant::now());
        }
        *lock(&self.events).entry(what).or_default() += 1;
        outcome
    }

    /// Whether a fault was active, or within its grace period, since `begun`.
    pub fn fault_since(&self, begun: Instant) -> bool {
        lock(&self.fault_ends).iter().any(|revocation_finished| {
            revocation_finished.is_none_or(|revocation_finished| revocation_finished + GRACE_PERIOD > begun)
        })
    }

    pub fn record_response_time(&self, kind: &'static str, time: Duration, during_fault: bool) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let mut kinds = lock(&self.kinds);
        let kind = kinds.entry(kind).or_default();
        if during_fault { kind.during_fault.push(micros) } else { kind.without_fault.push(micros) }
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
            *lock(&self.expected_records).cut_off.entry(action).or_default() += 1;
        }
    }
}
