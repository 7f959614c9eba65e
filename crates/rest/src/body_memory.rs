//! Memory limits for large request bodies: one for all bodies together and one for each user.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http_body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::body::BodyLimit;
use crate::problem::Problem;

/// Size of bodies that are read without a permit. The limit on connections bounds their total.
const SMALL_BODY_KIB: usize = 16;

/// Total size of larger bodies that this process reads and processes at the same time. The parsed form can need some forty times
/// the bytes of a body, so without this limit a few hundred requests exhaust the memory.
const LARGE_BODIES_KIB: usize = 16 * 1024;

/// Share of one user: the size of the largest possible body. The permit is acquired before the body arrives, and a body may
/// arrive slowly, so without this limit a few silent connections of one user would block all others.
const MAX_KIB_PER_USER: usize = LARGE_BODIES_KIB / 2;

static BODY_MEMORY: BodyMemoryLimiter =
    BodyMemoryLimiter { free: Semaphore::const_new(LARGE_BODIES_KIB), reserved: Mutex::new(None) };

/// Time-out for acquiring a permit.
const TIMEOUT: Duration = Duration::from_secs(10);

struct BodyMemoryLimiter {
    free: Semaphore,
    /// KiB by user, including requests that wait. A map cannot be created in a constant.
    reserved: Mutex<Option<HashMap<String, usize>>>,
}

/// Permit for a body; dropping it releases the memory.
pub(crate) struct BodyMemoryPermit<'a> {
    body_memory: &'a BodyMemoryLimiter,
    user: String,
    kib: usize,
    permit: Option<SemaphorePermit<'a>>,
}

/// Returns how much of a body may have to be buffered, in KiB. A body of undeclared length may reach the limit; more than the
/// limit is never buffered.
pub(crate) fn required_kib(body: &Body, body_limit: BodyLimit) -> usize {
    let declared = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    declared.map_or(body_limit.limit(), |bytes| bytes.min(body_limit.limit())).div_ceil(1024)
}

/// Acquires a permit for a user's body, to be held until the response begins. Anonymous clients cannot send large bodies.
///
/// # Errors
/// `overloaded` when the user's share is exhausted, or when the time-out expires because others use all memory.
pub(crate) async fn body_memory(
    user: &str,
    kib: usize,
) -> Result<Option<BodyMemoryPermit<'static>>, Problem> {
    BODY_MEMORY.acquire(user, kib).await
}

impl BodyMemoryLimiter {
    async fn acquire(&self, user: &str, kib: usize) -> Result<Option<BodyMemoryPermit<'_>>, Problem> {
        if kib <= SMALL_BODY_KIB {
            return Ok(None);
        }
        let full = |what: &str| Problem::overloaded(&format!("{what} are in progress"));
        let mut reserved = self.reserve(user, kib).ok_or_else(|| full("too many of your large requests"))?;
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        match tokio::time::timeout(TIMEOUT, self.free.acquire_many(permits)).await {
            Ok(Ok(permit)) => reserved.permit = Some(permit),
            _ => return Err(full("too many large requests")),
        }
        Ok(Some(reserved))
    }

    fn reserve(&self, user: &str, kib: usize) -> Option<BodyMemoryPermit<'_>> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let user_kib = reserved.get_or_insert_default().entry(user.to_owned()).or_default();
        let total = user_kib.saturating_add(kib);
        if total > MAX_KIB_PER_USER {
            return None;
        }
        *user_kib = total;
        Some(BodyMemoryPermit { body_memory: self, user: user.to_owned(), kib, permit: None })
    }
}

impl Drop for BodyMemoryPermit<'_> {
    fn drop(&mut self) {
        let mut reserved = self.body_memory.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(users) = reserved.as_mut() else { return };
        match users.get_mut(&self.user) {
            Some(user_kib) if *user_kib > self.kib => *user_kib -= self.kib,
            _ => {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::stream;

    use super::*;
    use crate::body::MAX_BODY_BYTES;
    use crate::code::Code;

    fn limiter(kib: usize) -> BodyMemoryLimiter {
        BodyMemoryLimiter { free: Semaphore::new(kib), reserved: Mutex::new(None) }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_memory_and_small_ones_do_not() {
        let body_memory = limiter(1_100);
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let reserved = body_memory
            .acquire("ada", required_kib(&body(MAX_BODY_BYTES), BodyLimit::Json))
            .await
            .ok()
            .unwrap();
        assert!(reserved.is_some());
        // The length is not declared.
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let endless = required_kib(&endless, BodyLimit::Json);
        let refused = body_memory.acquire("bob", endless).await.err().unwrap();
        assert_eq!(refused.code(), Code::Overloaded);
        for (body, body_limit) in
            [(body(SMALL_BODY_KIB * 1024), BodyLimit::Json), (body(MAX_BODY_BYTES), BodyLimit::AnonymousJson)]
        {
            assert!(
                body_memory.acquire("bob", required_kib(&body, body_limit)).await.ok().unwrap().is_none()
            );
        }
        drop(reserved);
        assert!(body_memory.acquire("bob", endless).await.ok().unwrap().is_some());
        assert_eq!(required_kib(&body(2 * MAX_BODY_BYTES), BodyLimit::Json), MAX_BODY_BYTES / 1024);
        assert!(body_memory.reserved.lock().unwrap().as_ref().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_is_limited_to_a_share_of_memory() {
        let body_memory = limiter(LARGE_BODIES_KIB);
        let mut reserved = Vec::new();
        while let Ok(more) = body_memory.acquire("ada", 1_024).await {
            reserved.push(more);
        }
        assert_eq!(reserved.len() * 1_024, MAX_KIB_PER_USER);
        assert!(body_memory.acquire("ada", SMALL_BODY_KIB + 1).await.is_err());
        // The largest possible body.
        let largest =
            required_kib(&Body::from(vec![b' '; crate::body::MAX_DOCUMENT_BYTES]), BodyLimit::ModelFile);
        let other = body_memory.acquire("bob", largest).await.ok().unwrap();
        // After a time-out, nothing stays reserved.
        reserved.pop();
        assert!(body_memory.acquire("eve", 1_025).await.is_err());
        assert!(body_memory.acquire("ada", 1_024).await.is_ok());
        drop((reserved, other));
        assert!(body_memory.reserved.lock().unwrap().as_ref().unwrap().is_empty());
    }
}
