//! The endpoints: which are healthy, which gets a statement, and when an unhealthy one is retried.
//!
//! Endpoints are used in the configured order: the first healthy one gets all statements, and gets them again when it
//! recovers. Replicas lag behind each other. Statements that belong together, such as selecting traces and reading
//! them, stay with one endpoint as long as it works ([`Session`]); spread over two, the second could return fewer spans
//! than the first counted.
//!
//! An endpoint that fails is marked unhealthy, and a task checks it with growing pauses: requests do not pay for it.
//! When all are unhealthy, a request is refused at once, with the time until the next retry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracewarden_model::Entropy;
use url::Url;

use super::capabilities::ServerCapabilities;
use crate::ClickHouseError;

/// First pause before a failed endpoint is retried. Each further pause is twice as long.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
/// Maximum pause.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// How long a request waits for an endpoint to recover when all are unhealthy. A restarting server that is nearly up
/// takes this long.
const RECOVERY_WAIT: Duration = Duration::from_millis(500);

pub(super) struct Pool {
    pub(super) endpoints: Vec<Endpoint>,
    recovered: Notify,
}

/// One server, or a proxy in front of several.
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// Host, port and path, for logs and metrics.
    pub(super) name: String,
    pub(super) capabilities: ServerCapabilities,
    /// When the endpoint is retried; `None` while it is healthy, and gets statements.
    next_try: Mutex<Option<Instant>>,
}

/// The endpoint that gets the statements of one request, once it has answered one of them.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// From 1; 0 before the first answer.
    number: AtomicUsize,
    /// How often it changed, the first endpoint included.
    endpoint_switches: AtomicUsize,
}

impl Session {
    pub(super) fn stick_to(&self, at: usize) {
        let number = at.saturating_add(1);
        if self.number.swap(number, Ordering::AcqRel) != number {
            self.endpoint_switches.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn endpoint_switches(&self) -> usize {
        self.endpoint_switches.load(Ordering::Acquire)
    }

    /// Returns the endpoint; `None` before the first answer.
    pub(super) fn endpoint(&self) -> Option<usize> {
        self.number.load(Ordering::Acquire).checked_sub(1)
    }
}

impl Endpoint {
    fn new(url: Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let name = format!("{host}:{port}{}", url.path().trim_end_matches('/'));
        Self { url, name, capabilities: ServerCapabilities::default(), next_try: Mutex::default() }
    }

    fn next_try(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next_try.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.next_try().is_none()
    }

    /// Marks the endpoint unhealthy. Returns whether it was healthy before.
    pub(super) fn mark_unhealthy(&self) -> bool {
        let mut next_try = self.next_try();
        let was_healthy = next_try.is_none();
        next_try.get_or_insert_with(Instant::now);
        was_healthy
    }

    pub(super) fn retry_after(&self, backoff: Duration) {
        *self.next_try() = Some(Instant::now() + backoff);
    }

    /// Address of the health check. It needs no statement: ClickHouse, and proxies that are made for it, answer it at
    /// once, however busy they are.
    pub(super) fn ping_url(&self) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("ping");
        }
        url
    }
}

impl Pool {
    pub(super) fn new(urls: impl IntoIterator<Item = Url>) -> Self {
        Self { endpoints: urls.into_iter().map(Endpoint::new).collect(), recovered: Notify::new() }
    }

    /// Whether an endpoint other than this one works.
    pub(super) fn another_is_healthy(&self, at: usize) -> bool {
        self.endpoints.iter().enumerate().any(|(other, endpoint)| other != at && endpoint.is_healthy())
    }

    /// Returns the endpoint that gets the statement next, given those that had it before. A working endpoint gets it a
    /// second time only when no other is left: its connection broke, perhaps because it had been idle for too long.
    /// With `pinned`, the result is that endpoint or `None`.
    pub(super) fn choose(
        &self,
        session: Option<&Session>,
        pinned: Option<usize>,
        attempted: &[usize],
    ) -> Option<usize> {
        let times = |at: usize| attempted.iter().filter(|before| **before == at).count();
        let all = 0..if pinned.is_some() { 0 } else { self.endpoints.len() };
        let candidates =
            || pinned.or_else(|| session.and_then(Session::endpoint)).into_iter().chain(all.clone());
        let working = |at: &usize| self.endpoints.get(*at).is_some_and(Endpoint::is_healthy);
        (0..2).find_map(|most| candidates().filter(working).find(|at| times(*at) == most))
    }

    /// Waits for any endpoint to recover, for a short time. Returns whether one works.
    pub(super) async fn wait_for_recovery(&self) -> bool {
        let recovered = self.recovered.notified();
        tokio::pin!(recovered);
        // Before the check, to catch an endpoint that recovers between the check and the wait.
        recovered.as_mut().enable();
        self.endpoints.iter().any(Endpoint::is_healthy)
            || tokio::time::timeout(RECOVERY_WAIT, recovered).await.is_ok()
    }

    pub(super) fn mark_healthy(&self, endpoint: &Endpoint) {
        *endpoint.next_try() = None;
        self.recovered.notify_waiters();
    }

    /// Returns the error that no endpoint answers, with this reason.
    pub(super) fn unavailable(&self, message: String) -> ClickHouseError {
        let now = Instant::now();
        let soonest = self.endpoints.iter().map(|endpoint| {
            endpoint.next_try().map_or(Duration::ZERO, |next_try| next_try.saturating_duration_since(now))
        });
        let retry_after_seconds = soonest.min().unwrap_or_default().as_secs().saturating_add(1);
        ClickHouseError::Unavailable { message, retry_after_seconds }
    }
}

/// Returns the pause after this number of failed retries, less up to a quarter at random: otherwise many processes
/// would return to a server at the same moment.
pub(super) fn backoff(failures: u32, entropy: &dyn Entropy) -> Duration {
    let longest = MIN_BACKOFF.saturating_mul(1 << failures.min(16)).min(MAX_BACKOFF);
    let mut byte = [0_u8; 1];
    // Without randomness, processes retry at the same moment, which is harmless.
    let early = entropy.fill(&mut byte).map_or(0, |()| byte.into_iter().map(u32::from).sum());
    longest.saturating_sub(longest.saturating_mul(early) / 1_024)
}

#[cfg(test)]
mod tests {
    use tracewarden_model::ambient::EntropyError;

    use super::*;

    struct Fixed(u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    fn pool() -> Pool {
        let urls = ["http://a:8123/", "https://b/one/", "http://[::1]:8123/"];
        Pool::new(urls.map(|url| Url::parse(url).unwrap()))
    }

    #[test]
    fn endpoint_names_are_unique() {
        let pool = pool();
        let names: Vec<_> = pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        assert_eq!(names, ["a:8123", "b:443/one", "[::1]:8123"]);
        assert_eq!(pool.endpoints[0].ping_url().as_str(), "http://a:8123/ping");
        assert_eq!(pool.endpoints[1].ping_url().as_str(), "https://b/one/ping");
    }

    #[test]
    fn the_first_healthy_endpoint_is_used_and_sessions_stay() {
        let (pool, kept) = (pool(), Session::default());
        let session = Some(&kept);
        assert_eq!(pool.choose(session, None, &[]), Some(0));
        assert_eq!(pool.choose(session, None, &[0]), Some(1));
        // Twice only when no other is left, and not a third time.
        assert_eq!(pool.choose(session, None, &[0, 1, 2]), Some(0));
        assert_eq!(pool.choose(session, None, &[0, 1, 2, 0, 1, 2]), None);
        // Statements about traces that were selected at the second endpoint go to the second.
        assert_eq!(pool.choose(session, Some(1), &[]), Some(1));
        assert_eq!(pool.choose(session, Some(1), &[1]), Some(1));
        assert_eq!(pool.choose(session, Some(1), &[1, 1]), None);
        assert!(pool.endpoints[0].mark_unhealthy());
        assert_eq!(pool.choose(session, Some(0), &[]), None);
        assert!(!pool.endpoints[0].mark_unhealthy());
        assert_eq!(pool.choose(session, None, &[]), Some(1));
        kept.stick_to(1);
        pool.mark_healthy(&pool.endpoints[0]);
        assert_eq!(pool.choose(session, None, &[]), Some(1));
        assert_eq!(pool.choose(None, None, &[]), Some(0));
        assert!(pool.endpoints[1].mark_unhealthy());
        assert_eq!(pool.choose(session, None, &[]), Some(0));
        for at in [0, 2] {
            pool.endpoints[at].mark_unhealthy();
        }
        assert_eq!(pool.choose(session, None, &[]), None);
        for at in 0..3 {
            pool.endpoints[at].retry_after(Duration::from_millis(4_500 + at as u64 * 1_000));
        }
        let ClickHouseError::Unavailable { retry_after_seconds, .. } = pool.unavailable(String::new()) else {
            panic!()
        };
        assert_eq!(retry_after_seconds, 5);
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let millis = |failures, byte| backoff(failures, &Fixed(byte)).as_millis();
        assert_eq!([0, 1, 2, 3].map(|failures| millis(failures, 0)), [50, 100, 200, 400]);
        assert_eq!(millis(40, 0), 10_000);
        assert!((7_500..10_000).contains(&millis(40, 255)));
    }
}
