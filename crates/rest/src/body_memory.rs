//! Memory limits for large request bodies: one for all bodies together and one for each user.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use http_body::Body as _;
use tracewarden_service::{Limiter, Permit};

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

static BODY_MEMORY: LazyLock<Limiter> = LazyLock::new(|| Limiter::shared(LARGE_BODIES_KIB, MAX_KIB_PER_USER));

/// Time-out for acquiring a permit.
const TIMEOUT: Duration = Duration::from_secs(10);

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
pub(crate) async fn body_memory(user: &str, kib: usize) -> Result<Option<Permit>, Problem> {
    acquire(&BODY_MEMORY, user, kib).await
}

async fn acquire(limiter: &Limiter, user: &str, kib: usize) -> Result<Option<Permit>, Problem> {
    if kib <= SMALL_BODY_KIB {
        return Ok(None);
    }
    let full = |what: &str| Problem::overloaded(&format!("{what} are in progress"));
    let permit = tokio::time::timeout(TIMEOUT, limiter.acquire(user, kib)).await;
    let permit = permit.map_err(|_| full("too many large requests"))?;
    permit.map(Some).ok_or_else(|| full("too many of your large requests"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::stream;

    use super::*;
    use crate::body::MAX_BODY_BYTES;
    use crate::code::Code;

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_memory_and_small_ones_do_not() {
        let body_memory = Limiter::shared(1_100, MAX_KIB_PER_USER);
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let reserved = acquire(&body_memory, "ada", required_kib(&body(MAX_BODY_BYTES), BodyLimit::Json))
            .await
            .ok()
            .unwrap();
        assert!(reserved.is_some());
        // The length is not declared.
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let endless = required_kib(&endless, BodyLimit::Json);
        let refused = acquire(&body_memory, "bob", endless).await.err().unwrap();
        assert_eq!(refused.code(), Code::Overloaded);
        for (body, body_limit) in
            [(body(SMALL_BODY_KIB * 1024), BodyLimit::Json), (body(MAX_BODY_BYTES), BodyLimit::AnonymousJson)]
        {
            assert!(
                acquire(&body_memory, "bob", required_kib(&body, body_limit)).await.ok().unwrap().is_none()
            );
        }
        drop(reserved);
        assert!(acquire(&body_memory, "bob", endless).await.ok().unwrap().is_some());
        assert_eq!(required_kib(&body(2 * MAX_BODY_BYTES), BodyLimit::Json), MAX_BODY_BYTES / 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_is_limited_to_a_share_of_memory() {
        let body_memory = Limiter::shared(LARGE_BODIES_KIB, MAX_KIB_PER_USER);
        let mut reserved = Vec::new();
        while let Ok(more) = acquire(&body_memory, "ada", 1_024).await {
            reserved.push(more);
        }
        assert_eq!(reserved.len() * 1_024, MAX_KIB_PER_USER);
        assert!(acquire(&body_memory, "ada", SMALL_BODY_KIB + 1).await.is_err());
        // The largest possible body.
        let largest =
            required_kib(&Body::from(vec![b' '; crate::body::MAX_DOCUMENT_BYTES]), BodyLimit::ModelFile);
        let other = acquire(&body_memory, "bob", largest).await.ok().unwrap();
        // After a time-out, nothing stays reserved.
        reserved.pop();
        assert!(acquire(&body_memory, "eve", 1_025).await.is_err());
        assert!(acquire(&body_memory, "ada", 1_024).await.is_ok());
        drop((std::mem::take(&mut reserved), other));
        // Everything is free again.
        for user in ["ada", "bob"] {
            reserved.push(acquire(&body_memory, user, MAX_KIB_PER_USER).await.ok().unwrap());
        }
    }
}
