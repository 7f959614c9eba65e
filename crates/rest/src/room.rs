//! Room for large bodies: all of them together are bounded, and so is what one user has of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http_body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::body::Takes;
use crate::problem::Problem;

/// Bodies up to this size are read without asking for room: connections are bounded, and so are they all together.
const SMALL_BODY_KIB: usize = 16;

/// All larger bodies that are read and worked on at the same time in this process. What is made of one takes some forty times its
/// bytes at worst, so without this a few hundred requests take all memory.
const LARGE_BODIES_KIB: usize = 16 * 1024;

/// What one user may have of it: as much as the largest body that there is. Room is given before a body arrives, and a body may
/// take its time, so that a few silent connections of one user would keep everybody else out.
const SHARE_KIB: usize = LARGE_BODIES_KIB / 2;

static ROOM: Room = Room { free: Semaphore::const_new(LARGE_BODIES_KIB), held: Mutex::new(None) };

/// Waiting for room ends after this time.
const PATIENCE: Duration = Duration::from_secs(10);

struct Room {
    free: Semaphore,
    /// In KiB, by user; what waits counts. A map cannot be made before it is needed.
    held: Mutex<Option<HashMap<String, usize>>>,
}

/// Room for a body, given back when it is dropped.
pub(crate) struct Held<'a> {
    room: &'a Room,
    user: String,
    kib: usize,
    permit: Option<SemaphorePermit<'a>>,
}

/// How much of a body may have to be kept, in KiB: what does not say how long it is may be as long as it may be, and of more
/// than that, no more is kept.
pub(crate) fn kept_kib(body: &Body, takes: Takes) -> usize {
    let declared = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    declared.map_or(takes.limit(), |bytes| bytes.min(takes.limit())).div_ceil(1024)
}

/// Room for so much of a user's body, to be held until its request is answered or its answer has begun. Strangers send no
/// large ones.
///
/// # Errors
/// `overloaded` when the user has their share, or others have all room for long.
pub(crate) async fn room(user: &str, kib: usize) -> Result<Option<Held<'static>>, Problem> {
    ROOM.hold(user, kib).await
}

impl Room {
    async fn hold(&self, user: &str, kib: usize) -> Result<Option<Held<'_>>, Problem> {
        if kib <= SMALL_BODY_KIB {
            return Ok(None);
        }
        let full = |what: &str| Problem::overloaded(&format!("{what} are under way"));
        let mut held = self.share(user, kib).ok_or_else(|| full("too many large requests of yours"))?;
        let permits = u32::try_from(kib).unwrap_or(u32::MAX);
        match tokio::time::timeout(PATIENCE, self.free.acquire_many(permits)).await {
            Ok(Ok(permit)) => held.permit = Some(permit),
            _ => return Err(full("too many large requests")),
        }
        Ok(Some(held))
    }

    fn share(&self, user: &str, kib: usize) -> Option<Held<'_>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = held.get_or_insert_default().entry(user.to_owned()).or_default();
        let together = of_user.saturating_add(kib);
        if together > SHARE_KIB {
            return None;
        }
        *of_user = together;
        Some(Held { room: self, user: user.to_owned(), kib, permit: None })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(users) = held.as_mut() else { return };
        match users.get_mut(&self.user) {
            Some(of_user) if *of_user > self.kib => *of_user -= self.kib,
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

    fn of(kib: usize) -> Room {
        Room { free: Semaphore::new(kib), held: Mutex::new(None) }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_room_and_small_ones_do_not() {
        let room = of(1_100);
        let body = |bytes: usize| Body::from(vec![b' '; bytes]);
        let held = room.hold("ada", kept_kib(&body(MAX_BODY_BYTES), Takes::Json)).await.ok().unwrap();
        assert!(held.is_some());
        // How long it will be is not said.
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let endless = kept_kib(&endless, Takes::Json);
        let refused = room.hold("bob", endless).await.err().unwrap();
        assert_eq!(refused.code(), Code::Overloaded);
        for (body, takes) in
            [(body(SMALL_BODY_KIB * 1024), Takes::Json), (body(MAX_BODY_BYTES), Takes::LittleJson)]
        {
            assert!(room.hold("bob", kept_kib(&body, takes)).await.ok().unwrap().is_none());
        }
        drop(held);
        assert!(room.hold("bob", endless).await.ok().unwrap().is_some());
        assert_eq!(kept_kib(&body(2 * MAX_BODY_BYTES), Takes::Json), MAX_BODY_BYTES / 1024);
        assert!(room.held.lock().unwrap().as_ref().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_has_a_share_of_it() {
        let room = of(LARGE_BODIES_KIB);
        let mut held = Vec::new();
        while let Ok(more) = room.hold("ada", 1_024).await {
            held.push(more);
        }
        assert_eq!(held.len() * 1_024, SHARE_KIB);
        assert!(room.hold("ada", SMALL_BODY_KIB + 1).await.is_err());
        // The largest that there is.
        let largest = kept_kib(&Body::from(vec![b' '; crate::body::MAX_DOCUMENT_BYTES]), Takes::ModelFile);
        let other = room.hold("bob", largest).await.ok().unwrap();
        // What cannot be had in time is not held.
        held.pop();
        assert!(room.hold("eve", 1_025).await.is_err());
        assert!(room.hold("ada", 1_024).await.is_ok());
        drop((held, other));
        assert!(room.held.lock().unwrap().as_ref().unwrap().is_empty());
    }
}
