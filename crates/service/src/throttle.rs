//! Slowing down whoever guesses passwords, in the database that all replicas share.
//!
//! Counted are attempts of one account from one address, and all attempts from one address. There is no counter of an
//! account alone: with one, a stranger could lock any user out by failing in their name.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use tracewarden_appdb::{Throttle, WriteTx, fold_username};
use tracewarden_model::Timestamp;

use crate::error::ServiceError;
use crate::service::Service;

const SECOND_NANOS: i64 = 1_000_000_000;

struct Rule {
    /// Failures within the window that cost nothing.
    free: u32,
    window_seconds: i64,
    /// Wait after the first failure too many; doubles with each further one.
    first_wait_seconds: i64,
    longest_wait_seconds: i64,
}

const ACCOUNT_AT_ADDRESS: Rule =
    Rule { free: 5, window_seconds: 3_600, first_wait_seconds: 5, longest_wait_seconds: 900 };
/// Generous, because a company may sit behind one address.
const ADDRESS: Rule =
    Rule { free: 50, window_seconds: 900, first_wait_seconds: 10, longest_wait_seconds: 900 };

/// The buckets that one attempt counts in.
pub(crate) struct Attempt {
    pair: String,
    address: String,
}

impl Attempt {
    pub(crate) fn new(username: &str, client_ip: Option<IpAddr>) -> Self {
        let address = address(client_ip);
        // Hashed, because people type passwords where the name belongs, and the table must not keep those.
        let name = hex::encode(Sha256::digest(fold_username(username).as_bytes()));
        Self { pair: format!("pair:{address}:{name}"), address: format!("address:{address}") }
    }
}

/// One household or data centre usually has a whole IPv6 /64: counting its addresses singly would count nothing.
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

impl Service {
    /// Counts an attempt as failed before it is tried, so that many at once cannot slip past the counter; success
    /// takes it back.
    ///
    /// # Errors
    /// [`ServiceError::TooManyAttempts`], without counting.
    pub(crate) async fn reserve_attempt(&self, attempt: &Attempt) -> Result<(), ServiceError> {
        let now = self.now();
        let mut tx = self.db().begin_write().await?;
        let mut wait_nanos = 0;
        let mut counted = Vec::with_capacity(2);
        for (bucket, rule) in [(&attempt.pair, &ACCOUNT_AT_ADDRESS), (&attempt.address, &ADDRESS)] {
            let stored = tx.throttle(bucket).await?;
            if let Some(throttle) = stored {
                wait_nanos = wait_nanos.max(throttle.blocked_until.as_nanos().saturating_sub(now.as_nanos()));
            }
            counted.push((bucket, count(stored, rule, now)));
        }
        if wait_nanos > 0 {
            let seconds = u64::try_from(wait_nanos / SECOND_NANOS).unwrap_or_default().saturating_add(1);
            return Err(ServiceError::TooManyAttempts { retry_after_seconds: seconds });
        }
        for (bucket, throttle) in counted {
            tx.put_throttle(bucket, &throttle).await?;
        }
        tx.delete_stale_throttles(stale_before(now)).await?;
        Ok(tx.commit().await?)
    }
}

/// A counter whose window began before this counts no more.
pub(crate) fn stale_before(now: Timestamp) -> Timestamp {
    let longest = ACCOUNT_AT_ADDRESS.window_seconds.max(ADDRESS.window_seconds);
    now.saturating_sub(longest.saturating_mul(SECOND_NANOS))
}

/// Takes a successful attempt back: the pair is forgotten, the address loses this one attempt only, so that one own
/// account does not clear the way to guess at others.
pub(crate) async fn succeeded(
    tx: &mut WriteTx,
    attempt: &Attempt,
    now: Timestamp,
) -> Result<(), ServiceError> {
    tx.delete_throttle(&attempt.pair).await?;
    if let Some(mut throttle) = tx.throttle(&attempt.address).await? {
        throttle.failures = throttle.failures.saturating_sub(1);
        if throttle.failures <= ADDRESS.free {
            throttle.blocked_until = now;
        }
        tx.put_throttle(&attempt.address, &throttle).await?;
    }
    Ok(())
}

fn count(stored: Option<Throttle>, rule: &Rule, now: Timestamp) -> Throttle {
    let window = rule.window_seconds.saturating_mul(SECOND_NANOS);
    let (failures, window_start) = match stored {
        Some(throttle) if now < throttle.window_start.saturating_add(window) => {
            (throttle.failures.saturating_add(1), throttle.window_start)
        }
        _ => (1, now),
    };
    let wait_seconds = match failures.checked_sub(rule.free) {
        None | Some(0) => 0,
        Some(beyond) => {
            rule.first_wait_seconds.saturating_mul(1 << (beyond - 1).min(20)).min(rule.longest_wait_seconds)
        }
    };
    Throttle {
        failures,
        window_start,
        blocked_until: now.saturating_add(wait_seconds.saturating_mul(SECOND_NANOS)),
    }
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
            let throttle = count(stored, &ACCOUNT_AT_ADDRESS, now);
            waits.push((throttle.blocked_until.as_nanos() - now.as_nanos()) / SECOND_NANOS);
            now = throttle.blocked_until;
            stored = Some(throttle);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]);
        let later = now.saturating_add(3_600 * SECOND_NANOS);
        assert_eq!(count(stored, &ACCOUNT_AT_ADDRESS, later).failures, 1);
    }

    #[test]
    fn neighbours_in_an_ipv6_network_count_together() {
        let bucket = |text: &str| address(Some(text.parse().unwrap()));
        assert_eq!(bucket("2001:db8:1:2::1"), bucket("2001:db8:1:2:ffff::9"));
        assert_ne!(bucket("2001:db8:1:2::1"), bucket("2001:db8:1:3::1"));
        assert_eq!(bucket("::ffff:192.0.2.7"), bucket("192.0.2.7"));
        assert_ne!(bucket("192.0.2.8"), bucket("192.0.2.7"));
    }
}
