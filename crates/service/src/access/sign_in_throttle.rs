//! Rate limit on password guessing, in the database that all replicas share.
//!
//! Two counters exist: attempts on one account from one address, and all attempts from one address. There is no counter of an
//! account alone: with one, an anonymous client could lock out any user by failing in the user's name.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;
use tracewarden_appdb::{ReadTx, Throttle, WriteTx, fold_username};
use tracewarden_model::Timestamp;

use crate::access::Account;
use crate::core::{AuditContext, Core, Event, Outcome, Result, ServiceError, UsernameKey};

/// Maximum wait of a sign-in for those before it; a longer wait means that the database does not work.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the queue in which sign-ins wait to write; not a user id.
const WRITE_QUEUE: &str = "log-ins";

/// Refusal of a sign-in when no permit is free. It does not wait: the number of waiting clients would be unbounded.
pub(crate) const TOO_MANY_SIGN_INS: ServiceError =
    ServiceError::Overloaded { what: "too many sign-ins are in progress" };

const SECOND_NANOS: i64 = 1_000_000_000;

/// Value of `blocked_until` for no block. Not the current time: a replica whose clock is behind would read that as a block.
const NO_BLOCK: Timestamp = Timestamp::from_nanos(0);

struct ThrottleRule {
    /// Failures within the window that cause no wait.
    free_failures: u32,
    window_seconds: i64,
    /// Wait after the first failure beyond the free ones; doubles with each further failure.
    first_wait_seconds: i64,
    longest_wait_seconds: i64,
}

const ACCOUNT_AND_ADDRESS_RULE: ThrottleRule = ThrottleRule {
    free_failures: 5,
    window_seconds: 3_600,
    first_wait_seconds: 5,
    longest_wait_seconds: 900,
};
/// Generous, because a whole company may share one address.
const ADDRESS_RULE: ThrottleRule = ThrottleRule {
    free_failures: 50,
    window_seconds: 900,
    first_wait_seconds: 10,
    longest_wait_seconds: 900,
};

/// The buckets in which an attempt is counted.
pub(crate) struct SignInAttempt {
    pair: String,
    address: String,
}

impl SignInAttempt {
    pub(crate) fn new(username: &str, client_ip: Option<IpAddr>, username_key: &UsernameKey) -> Self {
        let address = address(client_ip);
        let name = username_key.digest(&fold_username(username));
        Self { pair: format!("pair:{address}:{name}"), address: format!("address:{address}") }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn buckets(&self) -> [(&'static str, &str, &'static ThrottleRule); 2] {
        [
            ("user_at_address", &self.pair, &ACCOUNT_AND_ADDRESS_RULE),
            ("address", &self.address, &ADDRESS_RULE),
        ]
    }
}

/// A period in which attempts are rejected.
pub(crate) struct Block {
    /// The counter that rejects.
    counted: &'static str,
    until: Timestamp,
    /// The bucket that stores the end of the recorded block.
    record_bucket: String,
    /// Whether the audit log has a record of this block.
    pub(crate) is_recorded: bool,
}

impl Block {
    /// Returns the block that applies to an attempt now; of two, the one that lasts longer.
    pub(crate) async fn active_for(
        attempt: &SignInAttempt,
        tx: &mut ReadTx,
        now: Timestamp,
    ) -> Result<Option<Self>> {
        let mut active: Option<Self> = None;
        for (counted, bucket, _) in attempt.buckets() {
            let until = tx.throttle(bucket).await?.map_or(now, |throttle| throttle.blocked_until);
            if until > active.as_ref().map_or(now, |block| block.until) {
                let record_bucket = format!("noted:{bucket}");
                let is_recorded = tx
                    .throttle(&record_bucket)
                    .await?
                    .is_some_and(|recorded| recorded.blocked_until == until);
                active = Some(Self { counted, until, record_bucket, is_recorded });
            }
        }
        Ok(active)
    }

    pub(crate) fn to_error(&self, now: Timestamp) -> ServiceError {
        let wait_nanos = self.until.as_nanos().saturating_sub(now.as_nanos());
        let seconds = u64::try_from(wait_nanos / SECOND_NANOS).unwrap_or_default().saturating_add(1);
        ServiceError::TooManyAttempts { retry_after_seconds: seconds }
    }
}

/// Returns the address as it is counted: an IPv6 address by its /64. One household or data centre usually has a whole /64, so
/// a limit on single addresses would have no effect.
fn address(client_ip: Option<IpAddr>) -> String {
    match client_ip.map(|address| address.to_canonical()) {
        None => "unknown".to_owned(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

/// Begins a write transaction for a client that is not signed in yet. All sign-ins share one place in the queue of the
/// application database's writers, which every read of traces needs for two audit records: a user who reads traces waits
/// for one sign-in at most.
///
/// # Errors
/// [`ServiceError::Unavailable`], also if the wait is too long.
pub(crate) async fn begin_sign_in_write(core: &Core) -> Result<WriteTx> {
    Ok(core.db.begin_queued_write(WRITE_QUEUE, WRITE_TIMEOUT).await?)
}

impl Account {
    /// Counts an attempt as failed before the password is checked, so that concurrent attempts cannot exceed the limit; a
    /// successful attempt is subtracted again.
    ///
    /// # Errors
    /// [`ServiceError::TooManyAttempts`]; the attempt is not counted.
    pub(crate) async fn reserve_attempt(&self, attempt: &SignInAttempt) -> Result<()> {
        let mut tx = begin_sign_in_write(&self.core).await?;
        // Read here, because waiting for earlier writers took time.
        let now = self.core.now();
        if let Some(block) = Block::active_for(attempt, &mut tx, now).await? {
            return Err(block.to_error(now));
        }
        for (_, bucket, rule) in attempt.buckets() {
            let counted = count(tx.throttle(bucket).await?, rule, now);
            tx.put_throttle(bucket, &counted).await?;
        }
        tx.delete_stale_throttles(stale_before(now)).await?;
        Ok(tx.commit().await?)
    }

    /// Records that sign-ins are rejected, once for each block: a client can repeat rejected attempts at no cost, and these
    /// must neither fill the log nor delay other writers.
    pub(crate) async fn record_block(&self, context: &AuditContext, attempt: &SignInAttempt) -> Result<()> {
        let mut tx = begin_sign_in_write(&self.core).await?;
        let now = self.core.now();
        let Some(block) = Block::active_for(attempt, &mut tx, now).await?.filter(|block| !block.is_recorded)
        else {
            return Ok(());
        };
        let recorded = Throttle { failures: 0, window_start: now, blocked_until: block.until };
        tx.put_throttle(&block.record_bucket, &recorded).await?;
        let detail = json!({
            "reason": "too_many_attempts",
            "counted": block.counted,
            "until": block.until.to_string(),
        });
        let event = Event { action: "login", outcome: Outcome::Denied, target: None, detail };
        context.append(&mut tx, now, event).await?;
        Ok(tx.commit().await?)
    }
}

/// Returns the time before which a counter's window must have begun for the counter to be stale.
pub(crate) fn stale_before(now: Timestamp) -> Timestamp {
    let longest = ACCOUNT_AND_ADDRESS_RULE.window_seconds.max(ADDRESS_RULE.window_seconds);
    now.saturating_sub(longest.saturating_mul(SECOND_NANOS))
}

/// Takes a successful attempt back: deletes the counter of account and address, but subtracts only this attempt from the
/// counter of the address. Otherwise an attacker could sign in to an account of their own to reset the limit for guessing at
/// others.
pub(crate) async fn undo_attempt(tx: &mut WriteTx, attempt: &SignInAttempt) -> Result<()> {
    tx.delete_throttle(&attempt.pair).await?;
    if let Some(mut throttle) = tx.throttle(&attempt.address).await? {
        throttle.failures = throttle.failures.saturating_sub(1);
        if throttle.failures <= ADDRESS_RULE.free_failures {
            throttle.blocked_until = NO_BLOCK;
        }
        tx.put_throttle(&attempt.address, &throttle).await?;
    }
    Ok(())
}

fn count(stored: Option<Throttle>, rule: &ThrottleRule, now: Timestamp) -> Throttle {
    let window = rule.window_seconds.saturating_mul(SECOND_NANOS);
    let (failures, window_start) = match stored {
        Some(throttle) if now < throttle.window_start.saturating_add(window) => {
            (throttle.failures.saturating_add(1), throttle.window_start)
        }
        _ => (1, now),
    };
    let blocked_until = match failures.checked_sub(rule.free_failures) {
        None | Some(0) => NO_BLOCK,
        Some(beyond) => {
            let wait_seconds = rule.first_wait_seconds.saturating_mul(1 << (beyond - 1).min(20));
            now.saturating_add(wait_seconds.min(rule.longest_wait_seconds).saturating_mul(SECOND_NANOS))
        }
    };
    Throttle { failures, window_start, blocked_until }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_with_the_window() {
        let mut now = Timestamp::from_nanos(0);
        let mut stored = None;
        let mut waits = Vec::new();
        for _ in 0..16 {
            let throttle = count(stored, &ACCOUNT_AND_ADDRESS_RULE, now);
            let wait = if throttle.blocked_until == NO_BLOCK {
                0
            } else {
                throttle.blocked_until.as_nanos() - now.as_nanos()
            };
            waits.push(wait / SECOND_NANOS);
            now = now.saturating_add(wait);
            stored = Some(throttle);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]);
        let later = now.saturating_add(3_600 * SECOND_NANOS);
        assert_eq!(count(stored, &ACCOUNT_AND_ADDRESS_RULE, later).failures, 1);
    }

    #[test]
    fn addresses_of_an_ipv6_network_count_together() {
        let bucket = |text: &str| address(Some(text.parse().unwrap()));
        assert_eq!(bucket("2001:db8:1:2::1"), bucket("2001:db8:1:2:ffff::9"));
        assert_ne!(bucket("2001:db8:1:2::1"), bucket("2001:db8:1:3::1"));
        assert_eq!(bucket("::ffff:192.0.2.7"), bucket("192.0.2.7"));
        assert_ne!(bucket("192.0.2.8"), bucket("192.0.2.7"));
    }
}
