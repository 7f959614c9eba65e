//! Answers of the trace store that are cut off somewhere: whatever was asked, an explicit error or an answer that visibly breaks
//! off, never a shorter one.

use std::time::Duration;

use tracewarden_testkit::chaos_proxy::Fault;

use crate::questions::{Scene, Seen};

/// `TRACEWARDEN_TEST_CUT_STEP` bytes lie between cuts; some 28 cuts of each page and 10 of other answers are made where nothing is
/// set.
#[tokio::test]
async fn a_cut_anywhere_is_seen() {
    let step: Option<u64> = std::env::var("TRACEWARDEN_TEST_CUT_STEP").ok().map(|step| step.parse().unwrap());
    // Some 100 KB, so that the answer comes in several pieces.
    let scene = Scene::start("repeat('x', 1000)", &[]).await;
    let proxy = &scene.proxy;
    for (question, whole) in scene.questions().await {
        let name = question.name;
        proxy.set(Fault::None);
        assert_eq!(question.ask().await, whole, "{name}");
        let total = proxy.passed();
        let (many, apart) = if question.is_streamed { (16, 2) } else { (6, 6) };
        let between = step.unwrap_or(total / many).max(1);
        let mut cuts: Vec<u64> = (0..total).step_by(usize::try_from(between).unwrap()).collect();
        cuts.extend((1..25.min(total)).step_by(apart).map(|back| total - back));
        let (mut refused, mut broken, many) = (0, 0, cuts.len());
        for cut in cuts {
            proxy.set(Fault::CutAfter(cut));
            match question.ask().await {
                // Within the last bytes everything has arrived, the zero that ends the answer included: answers
                // differ by a few bytes in their headers, and a client may do without the very last newline.
                seen @ Seen::Whole(_) => assert!(
                    seen == whole && cut + 64 > total,
                    "{name}: cut after {cut} of {total} bytes came {seen:?}, and it is {whole:?}"
                ),
                Seen::Refused(status) => {
                    assert!((500..600).contains(&status), "{name}: {status}");
                    refused += 1;
                }
                Seen::ToolError => refused += 1,
                Seen::Broken => broken += 1,
            }
        }
        println!("{name}: {total} bytes, {many} cuts: {refused} refused, {broken} broken off");
        assert!(refused > 0 || question.may_begin_early(), "{name}");
        assert_eq!(broken > 0, question.is_streamed, "{name}: {broken} of {many} answers were broken off");
        proxy.set(Fault::None);
        assert_eq!(question.ask().await, whole, "{name}");
        proxy.set(Fault::Drip(Duration::from_micros(1)));
        assert_eq!(question.ask().await, whole, "{name}, dripping");
        proxy.set(Fault::Refuse);
        let refused = question.ask().await;
        // The search waits for the store to come back.
        let begun = question.may_begin_early() && refused == Seen::Broken;
        assert!(matches!(refused, Seen::Refused(503) | Seen::ToolError) || begun, "{name}: {refused:?}");
    }
}
