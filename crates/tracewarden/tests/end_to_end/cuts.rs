//! Answers of ClickHouse that are cut at arbitrary points: every kind of request ends in an explicit error or a visibly
//! aborted answer, never in a shorter one.

use std::time::{Duration, Instant};

use futures::future::join_all;
use tracewarden_testkit::chaos_proxy::Fault;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions;

use crate::end_to_end::test_requests::{AnswerOutcome, Fixture};

/// The request that is cut most often, and the factor between its cuts and those of other requests.
const DENSEST_REQUEST: &str = "a page";
const SPARSE_FACTOR: u64 = 20;

/// Number of concurrent lanes of a long run, each with its own ClickHouse server: most of the time is spent waiting for
/// disks.
const LANES: usize = 6;

/// Set `TRACEWARDEN_TEST_CUT_STEP` to the number of bytes between two cuts of a page; by default, there are some 28 cuts of
/// each page and 10 of other answers.
#[tokio::test]
async fn cuts_are_detected_at_every_position() {
    let step: Option<u64> = repetitions::from_environment("TRACEWARDEN_TEST_CUT_STEP");
    let lanes = if step.is_some() { LANES } else { 1 };
    let all: usize = join_all((0..lanes).map(|lane| cut_answers(step, lane, lanes))).await.iter().sum();
    println!("{all} cuts in all");
}

/// Makes the cuts of one lane and returns their number.
async fn cut_answers(step: Option<u64>, lane: usize, lanes: usize) -> usize {
    // Some 100 KB, so that the answer arrives in several chunks. ClickHouse computes each answer once; the proxy then
    // repeats it.
    let fixture = Fixture::start_with_repeated_answers("repeat('x', 1100)").await;
    let (proxy, mut all) = (&fixture.proxy, 0);
    for (test_request, whole) in fixture.test_requests().await {
        let name = test_request.name;
        proxy.set(Fault::None);
        assert_eq!(test_request.ask().await, whole, "{name}");
        let total = proxy.forwarded_bytes();
        let (many, apart) = if test_request.is_streamed { (16, 2) } else { (6, 6) };
        let step = step.map(|step| if name == DENSEST_REQUEST { step } else { SPARSE_FACTOR * step });
        let between = step.unwrap_or(total / many).max(1);
        let mut cuts: Vec<u64> = (0..total).step_by(usize::try_from(between).unwrap()).collect();
        cuts.extend((1..25.min(total)).step_by(apart).map(|back| total - back));
        let mut position = 0;
        cuts.retain(|_| {
            position += 1;
            position % lanes == lane
        });
        let (mut refused, mut broken, many) = (0, 0, cuts.len());
        all += many;
        let begun = Instant::now();
        let progress = Progress::of(many, format!("cuts of {name}"));
        for (at, cut) in cuts.into_iter().enumerate() {
            progress.at(at);
            // In a long run, the endpoint must not be marked unhealthy after every cut.
            proxy.set(if lanes > 1 { Fault::CutResponsesAfter(cut) } else { Fault::CutAfter(cut) });
            match test_request.ask().await {
                // A cut within the last bytes may have no effect: answers differ by a few bytes in their headers, and a
                // client may not need the final newline. Data that the service has cached is not requested again.
                outcome @ AnswerOutcome::Complete(_) => assert!(
                    outcome == whole && (cut + 64 > total || !proxy.has_held_back()),
                    "{name}: cut after {cut} of {total} bytes gave {outcome:?} instead of {whole:?}"
                ),
                AnswerOutcome::ErrorStatus(status) => {
                    assert!((500..600).contains(&status), "{name}: {status}");
                    refused += 1;
                }
                AnswerOutcome::ToolError => refused += 1,
                AnswerOutcome::Aborted => broken += 1,
            }
        }
        let took = begun.elapsed();
        println!("{name}: {total} bytes, {many} cuts in {took:.1?}: {refused} refused, {broken} aborted");
        assert!(refused > 0 || test_request.may_begin_early(), "{name}");
        assert_eq!(broken > 0, test_request.is_streamed, "{name}: {broken} of {many} answers were aborted");
        proxy.set(Fault::None);
        assert_eq!(test_request.ask_until_healthy().await, whole, "{name}");
        proxy.set(Fault::Drip(Duration::from_micros(1)));
        assert_eq!(test_request.ask().await, whole, "{name}, dripping");
        proxy.set(Fault::Refuse);
        let refused = test_request.ask().await;
        // The search waits until the endpoint is available again.
        let begun = test_request.may_begin_early() && refused == AnswerOutcome::Aborted;
        assert!(
            matches!(refused, AnswerOutcome::ErrorStatus(503) | AnswerOutcome::ToolError) || begun,
            "{name}: {refused:?}"
        );
    }
    assert!(proxy.repeated() >= all, "{} answers were repeated for {all} cuts", proxy.repeated());
    all
}
