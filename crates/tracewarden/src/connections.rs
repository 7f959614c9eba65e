//! How many connections are open at the same time, and how many files the operating system lets the process open for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A connection may need another one to the trace store.
const FILES_PER_CONNECTION: u64 = 2;
/// What is open besides: the own database, the log, listeners.
const OTHER_FILES: u64 = 100;

/// What strangers can make happen as often as they like is said once in so long.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// The connections of one listener. Cheap to clone; clones count together.
///
/// Those beyond the limit wait to be accepted, in the operating system's queue: a burst is served late rather than refused, in
/// the order of arrival, and whoever opens connections and says nothing loses them at the deadline for heads, so that the
/// queue moves. Closing them at once instead would let in whoever tries most often.
#[derive(Debug, Clone)]
pub struct Connections {
    most: usize,
    places: Arc<Semaphore>,
    open: Gauge,
    full: Counter,
    failures: Counter,
    said: Arc<Said>,
}

#[derive(Debug, Default)]
struct Said {
    full: Seldom,
    failure: Seldom,
}

/// The leave to accept one connection.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// An open connection; it ends when this is dropped.
#[derive(Debug)]
pub struct Open {
    _place: Place,
    open: Gauge,
}

impl Connections {
    /// At most `most` at the same time.
    pub fn new(most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let (open, full, failures) = Default::default();
        Self { most, places, open, full, failures, said: Arc::default() }
    }

    /// Names the counts in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("tracewarden_http_connections", "Open connections", self.open.clone());
        registry.register(
            "tracewarden_http_connections_full",
            "Times that as many connections were open as may be, so that the next one had to wait",
            self.full.clone(),
        );
        registry.register(
            "tracewarden_http_accept_failures",
            "Times that a connection could not be accepted, as for lack of file descriptors",
            self.failures.clone(),
        );
    }

    /// The leave to accept the next one, once there is room.
    pub async fn place(&self) -> Place {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Place { _permit: place };
        }
        self.full.inc();
        if let Some(times) = self.said.full.say(Instant::now()) {
            tracing::warn!(times, most = self.most, "as many connections are open as may be; others wait");
        }
        match Arc::clone(&self.places).acquire_owned().await {
            Ok(place) => Place { _permit: place },
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// A connection was accepted.
    pub fn opened(&self, place: Place) -> Open {
        self.open.inc();
        Open { _place: place, open: self.open.clone() }
    }

    /// None could be accepted.
    pub fn failed(&self, error: &std::io::Error) {
        self.failures.inc();
        if let Some(times) = self.said.failure.say(Instant::now()) {
            tracing::error!(%error, times, "cannot accept connections");
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// Something that is said at most once in a while.
#[derive(Debug, Default)]
struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// How often it happened since it was said last, with this time, when it is to be said now.
    fn say(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, times) = &mut *state;
        *times = times.saturating_add(1);
        if last.is_some_and(|last| now.duration_since(last) < BETWEEN_LINES) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(times))
    }
}

/// Lets the process open as many files as it may, which is often far more than it begins with; says so when that is too few for
/// so many connections.
pub fn make_room(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the number of open files stays as it is");
        }
    }
    let needed = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(FILES_PER_CONNECTION)
        .saturating_add(OTHER_FILES);
    if let Some(files) = getrlimit(Resource::Nofile).current.filter(|files| *files < needed) {
        tracing::warn!(
            files,
            needed,
            "fewer files may be open than `max_connections` may need; raise the limit (`ulimit -n`, `LimitNOFILE`) or lower it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_said_seldom_and_counted() {
        let (seldom, begun) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.say(begun), Some(1));
        assert!((0..99).all(|_| seldom.say(begun + BETWEEN_LINES / 2).is_none()));
        let later = begun + BETWEEN_LINES;
        assert_eq!((seldom.say(later), seldom.say(later)), (Some(100), None));
    }
}
