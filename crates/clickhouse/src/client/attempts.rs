//! The endpoints to which one statement was sent, and how it failed there.

use std::time::{Duration, Instant};

use tracewarden_model::Entropy;

use super::failure::AttemptError;
use super::pool::{Pool, backoff};
use crate::ClickHouseError;

/// Maximum pause of a statement that waits for a free slot at an endpoint.
const MAX_CAPACITY_PAUSE: Duration = Duration::from_millis(500);
/// With less time left a statement is not sent again: it would fail with a time-out although the server was full.
const MIN_TIME_LEFT: Duration = Duration::from_millis(150);

/// The attempts of a statement so far.
#[derive(Default)]
pub(super) struct Attempts {
    /// Endpoints in the order in which they got the statement. One that must not get it again is listed twice.
    pub(super) attempted: Vec<usize>,
    /// Number of endpoints that were lost while they had the statement.
    pub(super) lost: usize,
    /// Endpoints that run their maximum number of statements.
    overloaded: Vec<usize>,
    /// How often the statement has waited for a free slot.
    waits: u32,
    /// When the first of the exhausted quotas ends, in seconds from now.
    quota_ends: Option<u64>,
    /// Cause of the last failure.
    failure: Option<String>,
}

impl Attempts {
    /// Whether the statement was not sent to any endpoint.
    pub(super) fn is_first(&self) -> bool {
        self.attempted.is_empty() && self.waits == 0
    }

    /// Whether the endpoint answers after a failed attempt at another endpoint, or after an endpoint was lost.
    pub(super) fn failed_over(&self, at: usize) -> bool {
        self.attempted.iter().any(|before| *before != at) || self.lost > 0
    }

    pub(super) fn record_failure(&mut self, at: usize, failure: AttemptError) {
        self.attempted.push(at);
        let cause = match failure {
            AttemptError::ConnectionLost(cause) | AttemptError::Silent(cause) => {
                self.lost += 1;
                cause
            }
            AttemptError::Unreachable(cause) | AttemptError::Unsupported(cause) => cause,
            AttemptError::Overloaded(cause) => {
                // Not a second time before a pause.
                self.attempted.push(at);
                self.overloaded.push(at);
                cause
            }
            AttemptError::Exhausted { message, seconds } => {
                self.attempted.push(at);
                self.quota_ends = Some(self.quota_ends.map_or(seconds, |known| known.min(seconds)));
                message
            }
            AttemptError::Final(error) => error.to_string(),
        };
        self.failure = Some(cause);
    }

    /// Waits a moment, after which the full endpoints may get the statement again. Returns false when no endpoint is
    /// full, or when the time does not suffice.
    pub(super) async fn wait_for_capacity(&mut self, until: Instant, entropy: &dyn Entropy) -> bool {
        let backoff = backoff(self.waits, entropy).min(MAX_CAPACITY_PAUSE);
        if self.overloaded.is_empty() || Instant::now() + backoff + MIN_TIME_LEFT >= until {
            return false;
        }
        tokio::time::sleep(backoff).await;
        self.waits = self.waits.saturating_add(1);
        self.attempted.retain(|at| !self.overloaded.contains(at));
        self.overloaded.clear();
        true
    }

    /// Returns the error of the whole statement.
    pub(super) fn into_error(self, pool: &Pool) -> ClickHouseError {
        let nothing = "all ClickHouse endpoints are unhealthy; retrying in the background".to_owned();
        let message = self.failure.unwrap_or(nothing);
        match self.quota_ends.filter(|_| self.overloaded.is_empty()) {
            Some(retry_after_seconds) => ClickHouseError::Unavailable { message, retry_after_seconds },
            None => pool.unavailable(message),
        }
    }
}
