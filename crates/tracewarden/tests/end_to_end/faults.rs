//! ClickHouse answers that are reset, late or ended only by closing the connection: the service returns the right answer,
//! or visibly fails in time.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tracewarden_testkit::chaos_proxy::{BodyEnd, Fault, ResponseRewrite};

use crate::questions::{Question, Scene, Seen};

/// `query_timeout` for tests that wait for it.
const LIMIT: Duration = Duration::from_secs(3);

/// The limit, a second, and a margin for a very busy machine; without a limit, the request would not end.
const IN_TIME: Duration = Duration::from_secs(10);

/// Some 100 KB, so that an answer arrives in several chunks.
const NAME: &str = "repeat('x', 1000)";

#[tokio::test]
async fn resets_are_detected_at_every_position() {
    let scene = Scene::start(NAME, &[]).await;
    for (question, whole) in scene.questions().await {
        let name = question.name;
        scene.proxy.set(Fault::None);
        question.ask_when_back().await;
        scene.proxy.set(Fault::None);
        assert_eq!(question.ask().await, whole, "{name}");
        let total = scene.proxy.forwarded_bytes();
        let many: u64 = if question.is_streamed { 12 } else { 6 };
        let mut places: Vec<u64> = (0..many).map(|part| total * part / many).collect();
        places.extend([1, total - 100]);
        let (mut resets, many) = (0, places.len());
        for place in places {
            // An unhealthy endpoint would fail the request without a reset.
            scene.proxy.set(Fault::None);
            assert_eq!(question.ask_when_back().await, whole, "{name}");
            scene.proxy.set(Fault::ResetAfter(place));
            let seen = question.ask().await;
            // Cached data is not requested again, so the position of the reset may not be reached.
            let untouched = seen == whole && !scene.proxy.has_held_back();
            assert!(
                seen.is_failure() || untouched,
                "{name}: reset after {place} of {total} bytes gave {seen:?}"
            );
            resets += usize::from(!untouched);
        }
        println!("{name}: {total} bytes, {resets} resets");
        assert!(resets > many / 2, "{name}: {resets} of {many}");
    }
}

#[tokio::test]
async fn closing_the_connection_does_not_end_an_answer() {
    let scene = Scene::start(NAME, &[]).await;
    for (question, whole) in scene.questions().await {
        let name = question.name;
        scene.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
        assert_eq!(question.ask().await, whole, "{name}");
        // The same bytes, but ended by closing the connection.
        for end in [BodyEnd::ConnectionClose, BodyEnd::IdentityThenClose] {
            scene.proxy.set(Fault::Rewrite(ResponseRewrite::whole(end)));
            let seen = question.ask().await;
            let begun = question.may_begin_early() && seen == Seen::Broken;
            assert!(
                matches!(seen, Seen::Refused(502) | Seen::ToolError) || begun,
                "{name}, {end:?}: {seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_late_answer_is_the_answer_and_one_too_late_a_failure_in_time() {
    const LATE: Duration = Duration::from_millis(300);
    let mut scene = Scene::start(NAME, &[]).await;
    let mut middles = Vec::new();
    for (question, whole) in scene.questions().await {
        let name = question.name;
        scene.proxy.set(Fault::None);
        question.ask().await;
        let middle = scene.proxy.forwarded_bytes() / 2;
        middles.push(middle);
        for place in [0, middle] {
            scene.proxy.set(Fault::PauseAfter(place, LATE));
            let begun = Instant::now();
            assert_eq!(question.ask().await, whole, "{name}: late after {place} bytes");
            assert!(
                begun.elapsed() >= LATE || scene.proxy.forwarded_bytes() <= place,
                "{name}: {:?}",
                begun.elapsed()
            );
        }
    }
    let questions = scene.restart_with(&[("TRACEWARDEN_QUERY_TIMEOUT", "3s")]);
    // Silence from the first byte on, for all requests at once.
    scene.proxy.set(Fault::Silence);
    join_all(questions.iter().map(fails_in_time)).await;
    let (pages, others): (Vec<_>, Vec<_>) =
        questions.iter().zip(middles).partition(|(question, _)| question.is_streamed);
    for (question, middle) in pages.into_iter().chain(others.into_iter().take(1)) {
        let total = u32::try_from(2 * middle).unwrap();
        // Fill the cache first.
        scene.proxy.set(Fault::None);
        question.ask_when_back().await;
        scene.proxy.set(Fault::SilenceAfter(middle));
        fails_in_time(question).await;
        scene.proxy.set(Fault::PauseAfter(0, 10 * LIMIT));
        fails_in_time(question).await;
        // Bytes keep arriving, but not all in time. Most of a page is the one answer with its spans. Other results may
        // consist of several answers of similar length; their response headers alone, some 600 bytes, take longer than the
        // limit.
        let pause = if question.is_streamed { 10 * LIMIT / total } else { LIMIT / 200 };
        scene.proxy.set(Fault::Drip(pause));
        fails_in_time(question).await;
    }
}

async fn fails_in_time(question: &Question) {
    let begun = Instant::now();
    let seen = question.ask().await;
    let took = begun.elapsed();
    assert!(
        matches!(seen, Seen::Refused(504) | Seen::ToolError | Seen::Broken),
        "{}: {seen:?}",
        question.name
    );
    assert!((LIMIT..IN_TIME).contains(&took), "{}: {took:?}", question.name);
}
