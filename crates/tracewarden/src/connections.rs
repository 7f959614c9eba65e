//! Limits the number of open connections, and raises the process's limit of open files for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A connection may need another one to ClickHouse.
const FILES_PER_CONNECTION: u64 = 2;
/// Other open files: application database, log, listeners.
const OTHER_FILES: u64 = 100;

/// Minimum time between log lines about events that clients can trigger at will.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The connections of one listener. Cheap to clone; clones share the count.
///
/// Connections beyond the limit wait in the operating system's accept queue: a burst is served late, in order of arrival,
/// rather than refused. A client that opens connections and sends nothing loses them at the deadline for request heads, so
/// the queue advances. Closing excess connections at once would favour the clients that retry most often.
#[derive(Debug, Clone)]
pub struct Connections {
    limit: usize,
    permits: Arc<Semaphore>,
    open: Gauge,
    limit_reached: Counter,
    failures: Counter,
    limit_log: Arc<LogRateLimiter>,
    failure_log: Arc<LogRateLimiter>,
}

/// An open connection; dropping it marks the connection as closed.
#[derive(Debug)]
pub struct OpenConnection {
    _permit: OwnedSemaphorePermit,
    open: Gauge,
}

impl Connections {
    /// Creates a limit of `limit` open connections.
    pub fn new(limit: usize) -> Self {
        let permits = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        let (open, limit_reached, failures, limit_log, failure_log) = Default::default();
        Self { limit, permits, open, limit_reached, failures, limit_log, failure_log }
    }

    pub fn register(&self, registry: &mut Registry) {
        registry.register("tracewarden_http_connections", "Open connections", self.open.clone());
        registry.register(
            "tracewarden_http_connections_full",
            "Times that the connection limit was reached, so that the next connection had to wait",
            self.limit_reached.clone(),
        );
        registry.register(
            "tracewarden_http_accept_failures",
            "Times that a connection could not be accepted, for example for lack of file descriptors",
            self.failures.clone(),
        );
    }

    /// Waits for a permit to accept the next connection.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return permit;
        }
        self.limit_reached.inc();
        if let Some(times) = self.limit_log.record(Instant::now()) {
            tracing::warn!(times, limit = self.limit, "connection limit reached; new connections are queued");
        }
        match Arc::clone(&self.permits).acquire_owned().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts an accepted connection as open.
    pub fn record_open(&self, permit: OwnedSemaphorePermit) -> OpenConnection {
        self.open.inc();
        OpenConnection { _permit: permit, open: self.open.clone() }
    }

    /// Counts and logs a failure to accept.
    pub fn record_accept_failure(&self, error: &std::io::Error) {
        self.failures.inc();
        if let Some(times) = self.failure_log.record(Instant::now()) {
            tracing::error!(%error, times, "cannot accept connections");
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// Limits how often an event is logged.
#[derive(Debug, Default)]
struct LogRateLimiter(Mutex<(Option<Instant>, u64)>);

impl LogRateLimiter {
    /// Returns the number of events since the last log line, including this one, if the event is to be logged now.
    fn record(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, times) = &mut *state;
        *times = times.saturating_add(1);
        if last.is_some_and(|last| now.duration_since(last) < LOG_INTERVAL) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(times))
    }
}

/// Raises the process's limit of open files to its maximum, which is often far above the initial limit. Logs a warning if
/// the maximum is too low for this number of connections.
pub fn raise_open_files_limit(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "cannot raise the limit of open files");
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
            "the limit of open files is lower than `max_connections` may need; raise the limit (`ulimit -n`, \
             `LimitNOFILE`) or lower `max_connections`"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_events_are_logged_rarely_with_their_count() {
        let (limiter, begun) = (LogRateLimiter::default(), Instant::now());
        assert_eq!(limiter.record(begun), Some(1));
        assert!((0..99).all(|_| limiter.record(begun + LOG_INTERVAL / 2).is_none()));
        let later = begun + LOG_INTERVAL;
        assert_eq!((limiter.record(later), limiter.record(later)), (Some(100), None));
    }
}
