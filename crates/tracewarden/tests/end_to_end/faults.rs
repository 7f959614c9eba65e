//! ClickHouse answers that are reset, late or ended only by closing the connection: the service returns the right answer,
//! or visibly fails in time.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tracewarden_testkit::chaos_proxy::{BodyEnd, Fault, ResponseRewrite};

use crate::end_to_end::test_requests::{AnswerOutcome, Fixture, TestRequest};

/// `query_timeout` for tests that wait for it.
const LIMIT: Duration = Duration::from_secs(3);

/// The limit, a second, and a margin for a very busy machine; without a limit, the request would not end.
const IN_TIME: Duration = Duration::from_secs(10);

/// Some 100 KB, so that an answer arrives in several chunks.
const NAME: &str = "repeat('x', 1000)";

#[tokio::test]
async fn resets_are_detected_at_every_position() {
    let fixture = Fixture::start(NAME, &[]).await;
    for (test_request, whole) in fixture.test_requests().await {
        let name = test_request.name;
        fixture.proxy.set(Fault::None);
        test_request.ask_until_healthy().await;
        fixture.proxy.set(Fault::None);
        assert_eq!(test_request.ask().await, whole, "{name}");
        let total = fixture.proxy.forwarded_bytes();
        let many: u64 = if test_request.is_streamed { 12 } else { 6 };
        let mut positions: Vec<u64> = (0..many).map(|part| total * part / many).collect();
        positions.extend([1, total - 100]);
        let (mut resets, many) = (0, positions.len());
        for position in positions {
            // An unhealthy endpoint would fail the request without a reset.
            fixture.proxy.set(Fault::None);
            assert_eq!(test_request.ask_until_healthy().await, whole, "{name}");
            fixture.proxy.set(Fault::ResetAfter(position));
            let outcome = test_request.ask().await;
            // Cached data is not requested again, so the position of the reset may not be reached.
            let untouched = outcome == whole && !fixture.proxy.has_held_back();
            assert!(
                outcome.is_failure() || untouched,
                "{name}: reset after {position} of {total} bytes gave {outcome:?}"
            );
            resets += usize::from(!untouched);
        }
        println!("{name}: {total} bytes, {resets} resets");
        assert!(resets > many / 2, "{name}: {resets} of {many}");
    }
}

#[tokio::test]
async fn closing_the_connection_does_not_end_an_answer() {
    let fixture = Fixture::start(NAME, &[]).await;
    for (test_request, whole) in fixture.test_requests().await {
        let name = test_request.name;
        fixture.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
        assert_eq!(test_request.ask().await, whole, "{name}");
        // The same bytes, but ended by closing the connection.
        for end in [BodyEnd::ConnectionClose, BodyEnd::IdentityThenClose] {
            fixture.proxy.set(Fault::Rewrite(ResponseRewrite::whole(end)));
            let outcome = test_request.ask().await;
            let begun = test_request.may_begin_early() && outcome == AnswerOutcome::Aborted;
            assert!(
                matches!(outcome, AnswerOutcome::ErrorStatus(502) | AnswerOutcome::ToolError) || begun,
                "{name}, {end:?}: {outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn late_answers_are_returned_and_missing_answers_time_out() {
    const LATE: Duration = Duration::from_millis(300);
    let mut fixture = Fixture::start(NAME, &[]).await;
    let mut middles = Vec::new();
    for (test_request, whole) in fixture.test_requests().await {
        let name = test_request.name;
        fixture.proxy.set(Fault::None);
        test_request.ask().await;
        let middle = fixture.proxy.forwarded_bytes() / 2;
        middles.push(middle);
        for position in [0, middle] {
            fixture.proxy.set(Fault::PauseAfter(position, LATE));
            let begun = Instant::now();
            assert_eq!(test_request.ask().await, whole, "{name}: late after {position} bytes");
            assert!(
                begun.elapsed() >= LATE || fixture.proxy.forwarded_bytes() <= position,
                "{name}: {:?}",
                begun.elapsed()
            );
        }
    }
    let test_requests = fixture.restart_with(&[("TRACEWARDEN_QUERY_TIMEOUT", "3s")]);
    // Silence from the first byte on, for all requests at once.
    fixture.proxy.set(Fault::Silence);
    join_all(test_requests.iter().map(assert_times_out)).await;
    let (pages, others): (Vec<_>, Vec<_>) =
        test_requests.iter().zip(middles).partition(|(test_request, _)| test_request.is_streamed);
    for (test_request, middle) in pages.into_iter().chain(others.into_iter().take(1)) {
        let total = u32::try_from(2 * middle).unwrap();
        // Fill the cache first.
        fixture.proxy.set(Fault::None);
        test_request.ask_until_healthy().await;
        fixture.proxy.set(Fault::SilenceAfter(middle));
        assert_times_out(test_request).await;
        fixture.proxy.set(Fault::PauseAfter(0, 10 * LIMIT));
        assert_times_out(test_request).await;
        // Bytes keep arriving, but not all in time. Most of a page is the one answer with its spans. Other results may
        // consist of several answers of similar length; their response headers alone, some 600 bytes, take longer than the
        // limit.
        let pause = if test_request.is_streamed { 10 * LIMIT / total } else { LIMIT / 200 };
        fixture.proxy.set(Fault::Drip(pause));
        assert_times_out(test_request).await;
    }
}

async fn assert_times_out(test_request: &TestRequest) {
    let begun = Instant::now();
    let outcome = test_request.ask().await;
    let took = begun.elapsed();
    assert!(
        matches!(
            outcome,
            AnswerOutcome::ErrorStatus(504) | AnswerOutcome::ToolError | AnswerOutcome::Aborted
        ),
        "{}: {outcome:?}",
        test_request.name
    );
    assert!((LIMIT..IN_TIME).contains(&took), "{}: {took:?}", test_request.name);
}
