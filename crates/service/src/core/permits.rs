//! Permits: limits on the work of each kind that this replica does at the same time, and each user's share of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::core::error::Result;
use crate::core::settings::Settings;
use crate::core::tasks::blocking;

/// Maximum number of concurrent calls that hold many whole spans. Building the answer takes several times the size of the
/// spans: up to some 100 MiB for each call.
const WHOLE_TRACES: usize = 8;
/// Concurrent sign-ins for each hash that may be computed at the same time.
const SIGN_INS_PER_HASH: usize = 4;
const MIN_SIGN_INS: usize = 16;
/// Maximum number of concurrent sign-ins with identity providers, each of which may wait half a minute for the provider.
const PROVIDER_SIGN_INS: usize = 64;
/// Maximum number of access tokens that are verified at the same time, each of which may wait for the provider.
const TOKEN_CHECKS: usize = 256;
/// One user gets at most 1/`SHARE` of the permits to hold whole spans, and one address of those to sign in, so that a flood
/// from one leaves permits for the others.
const SHARE: usize = 2;
/// Maximum number of records of denied or failed calls of one user that wait to be written. Records wait even after the
/// client has disconnected, so the connection limit does not bound them.
const AUDIT_RECORDS_PER_USER: usize = 100;
/// The limits of a replica, by kind of work.
pub(crate) struct Permits {
    pub(crate) queries: Limiter,
    /// Calls that hold many whole spans, by user.
    pub(crate) whole_traces: Limiter,
    /// Sign-ins, by address. Anonymous clients decide how many there are, and each writes to the application database twice.
    pub(crate) sign_ins: Limiter,
    /// Sign-ins with identity providers, by address. Separate from `sign_ins`: administrators sign in with a password while a
    /// provider does not answer.
    pub(crate) provider_sign_ins: Limiter,
    /// Verifications of signed tokens, by address. The provider may be asked for its keys, and anyone can send a token.
    pub(crate) token_checks: Limiter,
    /// Questions to the provider about opaque access tokens, by address. Separate from `token_checks`, most of which do not wait.
    pub(crate) introspections: Limiter,
    /// Questions to the provider about the claims of verified access tokens, by address. Separate from `introspections`, for which
    /// anyone can send a token.
    pub(crate) user_info: Limiter,
    /// Writes of the last use, by credential.
    pub(crate) last_use_writes: Limiter,
    /// Audit records of denied or failed calls that wait to be written, by user.
    pub(crate) audit_records: Limiter,
    /// Compilation of policies, which every read of traces needs: as many as there are processors, but at least two, so that
    /// one large policy does not block all others.
    pub(crate) compilation: Limiter,
    /// Checks of policies that any signed-in user can request; each may take a second. Separate from the work that readers wait for.
    pub(crate) key_policy_checks: Limiter,
    /// Checks of policies before they, or the model, are stored.
    pub(crate) model_checks: Limiter,
    /// Other work with policies for administrators: advice, test runs, viewers of a trace, impact of a change. Separate from
    /// `model_checks`, because an administrator who revokes access must not wait for these tasks.
    pub(crate) analysis: Limiter,
    /// Counts for previews of changes.
    pub(crate) previews: Limiter,
    /// Samples of recent traces for policy advice. Separate from `previews`: advice has a few seconds, and a preview may hold
    /// its permit for a minute.
    pub(crate) samples: Limiter,
    /// Scans of the audit log and of the model's history. Each may read the whole table over one of the few connections to
    /// the application database, which authentication needs too.
    pub(crate) scans: Limiter,
}

impl Permits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            queries: Limiter::by_key(settings.max_queries_per_user),
            whole_traces: Limiter::shared(WHOLE_TRACES, WHOLE_TRACES / SHARE),
            sign_ins: Limiter::sign_ins(settings.max_parallel_hashes),
            provider_sign_ins: Limiter::shared(PROVIDER_SIGN_INS, PROVIDER_SIGN_INS / SHARE),
            token_checks: Limiter::shared(TOKEN_CHECKS, TOKEN_CHECKS / SHARE),
            introspections: Limiter::shared(TOKEN_CHECKS, TOKEN_CHECKS / SHARE),
            user_info: Limiter::shared(TOKEN_CHECKS, TOKEN_CHECKS / SHARE),
            last_use_writes: Limiter::by_key(Some(1)),
            audit_records: Limiter::by_key(Some(AUDIT_RECORDS_PER_USER)),
            compilation: Limiter::total(processors.max(2)),
            key_policy_checks: Limiter::total(1),
            model_checks: Limiter::total(2),
            analysis: Limiter::total(2),
            previews: Limiter::total(2),
            samples: Limiter::total(2),
            scans: Limiter::total(2),
        }
    }
}

/// Limits the work of one kind: in total, by key (a user, a credential or an address), or both. Work has an amount, 1 unless a
/// caller says otherwise.
pub struct Limiter {
    total: Option<Arc<Semaphore>>,
    max_per_key: Option<usize>,
    running: Arc<RunningByKey>,
}

/// Amount of running work by key. A key without running work has no entry, so the map is never larger than the work.
type RunningByKey = Mutex<HashMap<String, usize>>;

/// Permit for one piece of work, released when it is dropped.
#[derive(Debug)]
pub struct Permit {
    _total: Option<OwnedSemaphorePermit>,
    _by_key: Option<KeyPermit>,
}

#[derive(Debug)]
struct KeyPermit {
    running: Arc<RunningByKey>,
    key: String,
    amount: usize,
}

impl Limiter {
    /// At most `total` together.
    pub fn total(total: usize) -> Self {
        Self::new(Some(total), None)
    }

    /// At most `max` for each key; any number if it is `None`.
    pub(crate) fn by_key(max: Option<usize>) -> Self {
        Self::new(None, max)
    }

    /// At most `total` together, and `max_per_key` for each key.
    pub fn shared(total: usize, max_per_key: usize) -> Self {
        Self::new(Some(total), Some(max_per_key))
    }

    pub(crate) fn sign_ins(max_parallel_hashes: usize) -> Self {
        let total = max_parallel_hashes.saturating_mul(SIGN_INS_PER_HASH).max(MIN_SIGN_INS);
        Self::shared(total, total / SHARE)
    }

    fn new(total: Option<usize>, max_per_key: Option<usize>) -> Self {
        let total = total.map(|total| Arc::new(Semaphore::new(total.clamp(1, Semaphore::MAX_PERMITS))));
        Self { total, max_per_key, running: Arc::default() }
    }

    pub(crate) fn try_acquire(&self, key: &str) -> Option<Permit> {
        let by_key = self.key_permit(key, 1)?;
        let total = match &self.total {
            Some(total) => Some(Arc::clone(total).try_acquire_owned().ok()?),
            None => None,
        };
        Some(Permit { _total: total, _by_key: Some(by_key) })
    }

    /// Waits for a permit; `None` if the key would have more than its share.
    pub async fn acquire(&self, key: &str, amount: usize) -> Option<Permit> {
        let by_key = self.key_permit(key, amount)?;
        Some(Permit { _by_key: Some(by_key), ..self.wait_for(amount).await })
    }

    /// Waits for a permit of the total; those who wait get it in order.
    pub(crate) async fn wait(&self) -> Permit {
        self.wait_for(1).await
    }

    async fn wait_for(&self, amount: usize) -> Permit {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        let total = match &self.total {
            // The semaphore is never closed.
            Some(total) => Arc::clone(total).acquire_many_owned(amount).await.ok(),
            None => None,
        };
        Permit { _total: total, _by_key: None }
    }

    /// Runs work off the threads that serve requests once there is a permit. A caller that is cancelled before the work starts
    /// leaves the queue.
    ///
    /// # Errors
    /// An internal error if the work panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        // The permit moves into the work: otherwise, after a client disconnects, the next work would start while this one
        // still runs.
        let permit = self.wait().await;
        blocking(move || {
            let result = work();
            drop(permit);
            result
        })
        .await
    }

    fn key_permit(&self, key: &str, amount: usize) -> Option<KeyPermit> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let total = running.get(key).copied().unwrap_or_default().saturating_add(amount);
        if self.max_per_key.is_some_and(|max| total > max) {
            return None;
        }
        running.insert(key.to_owned(), total);
        Some(KeyPermit { running: Arc::clone(&self.running), key: key.to_owned(), amount })
    }
}

impl Drop for KeyPermit {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.get_mut(&self.key) {
            Some(total) if *total > self.amount => *total -= self.amount,
            _ => {
                running.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_by_key_and_released() {
        let limiter = Limiter::by_key(Some(2));
        let first = limiter.try_acquire("ada").unwrap();
        let second = limiter.try_acquire("ada").unwrap();
        assert!(limiter.try_acquire("ada").is_none());
        let other = limiter.try_acquire("bob").unwrap();
        drop(first);
        let third = limiter.try_acquire("ada").unwrap();
        assert!(limiter.try_acquire("ada").is_none());
        drop((second, third, other));
        assert!(limiter.running.lock().unwrap().is_empty());
        let unlimited = Limiter::by_key(None);
        let many: Vec<_> = (0..1_000).map(|_| unlimited.try_acquire("ada").unwrap()).collect();
        assert_eq!(many.len(), 1_000);
    }

    #[test]
    fn one_address_cannot_take_all_permits_and_all_are_returned() {
        let limiter = Limiter::sign_ins(5);
        let at = |address: &str, count: usize| -> Vec<_> {
            (0..count).map_while(|_| limiter.try_acquire(address)).collect()
        };
        for _ in 0..2 {
            let flood = at("a", 100);
            assert_eq!(flood.len(), 10);
            let others = [at("b", 6), at("c", 100)];
            assert_eq!(others.each_ref().map(Vec::len), [6, 4]);
            assert!(limiter.try_acquire("d").is_none());
            drop(flood);
            assert_eq!(at("d", 100).len(), 10);
        }
        let few = Limiter::sign_ins(1);
        let all: Vec<_> = (0..100).map_while(|number| few.try_acquire(&number.to_string())).collect();
        assert_eq!(all.len(), 16);
    }

    #[tokio::test]
    async fn a_user_with_its_share_does_not_wait_and_others_get_what_is_returned() {
        let limiter = Arc::new(Limiter::shared(2, 1));
        let ada = limiter.acquire("ada", 1).await.unwrap();
        assert!(limiter.acquire("ada", 1).await.is_none());
        let bob = limiter.acquire("bob", 1).await.unwrap();
        let waiting = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.acquire("eve", 1).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop((ada, bob));
        assert!(waiting.await.unwrap());
    }
}
