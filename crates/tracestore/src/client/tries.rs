//! The endpoints that one statement was sent to, and what became of it there.

use std::time::{Duration, Instant};

use tracewarden_model::Entropy;

use super::failure::Miss;
use super::pool::{Pool, pause};
use crate::StoreError;

/// The pauses of a statement that waits for a place grow to this.
const PLACE_PAUSE_LONGEST: Duration = Duration::from_millis(500);
/// With less time left a statement is not sent again: it would end as a statement that ran out of time, where the server was full.
const LEAST_TIME_LEFT: Duration = Duration::from_millis(150);

/// What has become of a statement so far.
#[derive(Default)]
pub(super) struct Tries {
    /// The endpoints in the order in which they were asked. One that must not be asked again is in it twice.
    pub(super) asked: Vec<usize>,
    /// How many were lost while they had the statement.
    pub(super) lost: usize,
    /// Those that have as many statements as they take.
    full: Vec<usize>,
    /// How often the statement has waited for a place.
    waits: u32,
    /// When the first of the exhausted quotas ends, in seconds from now.
    quota_ends: Option<u64>,
    /// What the last one said.
    failure: Option<String>,
}

impl Tries {
    /// Whether no endpoint was asked.
    pub(super) fn is_first(&self) -> bool {
        self.asked.is_empty() && self.waits == 0
    }

    /// Whether an endpoint answers in place of one that was asked before it.
    pub(super) fn failed_over(&self, at: usize) -> bool {
        self.asked.iter().any(|before| *before != at) || self.lost > 0
    }

    /// Takes in what an endpoint said in place of an answer.
    pub(super) fn missed(&mut self, at: usize, miss: Miss) {
        self.asked.push(at);
        let cause = match miss {
            Miss::Cut(cause) | Miss::Silent(cause) => {
                self.lost += 1;
                cause
            }
            Miss::Unreachable(cause) | Miss::Cannot(cause) => cause,
            Miss::Full(cause) => {
                // Not a second time before a pause.
                self.asked.push(at);
                self.full.push(at);
                cause
            }
            Miss::Exhausted { message, seconds } => {
                self.asked.push(at);
                self.quota_ends = Some(self.quota_ends.map_or(seconds, |known| known.min(seconds)));
                message
            }
            Miss::Final(error) => error.to_string(),
        };
        self.failure = Some(cause);
    }

    /// Waits a moment, after which those that were full may be asked again; whether there are such, and time for it.
    pub(super) async fn wait_for_place(&mut self, until: Instant, entropy: &dyn Entropy) -> bool {
        let pause = pause(self.waits, entropy).min(PLACE_PAUSE_LONGEST);
        if self.full.is_empty() || Instant::now() + pause + LEAST_TIME_LEFT >= until {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.waits = self.waits.saturating_add(1);
        self.asked.retain(|at| !self.full.contains(at));
        self.full.clear();
        true
    }

    /// No endpoint answers, for this reason.
    pub(super) fn failure(self, pool: &Pool) -> StoreError {
        let nothing = "every endpoint has failed and is tried again by and by".to_owned();
        let message = self.failure.unwrap_or(nothing);
        match self.quota_ends.filter(|_| self.full.is_empty()) {
            Some(retry_after_seconds) => StoreError::Unavailable { message, retry_after_seconds },
            None => pool.unavailable(message),
        }
    }
}
