//! ClickHouse exceptions after rows, in both formats that servers use, and span values that look like one.

use serde_json::json;
use tracewarden_testkit::chaos_proxy::{BodyEnd, Fault, ResponseRewrite, TAG};

use crate::questions::Scene;

/// Format of servers before 25.11: plain text after the rows, since the status has already been sent.
const AS_IT_IS: &str = "Code: 241. DB::Exception: Memory limit (for query) exceeded: would use 9.31 GiB (attempt to allocate \
    chunk of 4194304 bytes), maximum: 9.31 GiB. (MEMORY_LIMIT_EXCEEDED) (version 24.3.2.23 (official build))\n";

/// Format of later servers: a block with the tag from the response header. The number is the length of the message with its
/// newline.
const IN_A_BLOCK: &str = "\r\n__exception__\r\nabcdefghijklmnop\r\n\
    Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 26.1.1.1)\n\
    92 abcdefghijklmnop\r\n__exception__\r\n";

#[tokio::test]
async fn exceptions_are_not_mistaken_for_the_end() {
    const SPLITS: [(usize, BodyEnd); 4] = [
        (usize::MAX, BodyEnd::Complete),
        (1, BodyEnd::Complete),
        (7, BodyEnd::Truncated),
        (40, BodyEnd::Complete),
    ];
    assert!(IN_A_BLOCK.contains(&format!("92 {TAG}\r\n")));
    let scene = Scene::start("repeat('x', 1000)", &[]).await;
    let mut splits = SPLITS.iter().cycle();
    for (question, whole) in scene.questions().await {
        let name = question.name;
        scene.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
        assert_eq!(question.ask().await, whole, "{name}");
        let bodies = scene.proxy.bodies();
        let mut told = 0;
        for (from, body) in bodies.iter().enumerate() {
            let first_line = body.iter().position(|byte| *byte == b'\n').map_or(1, |end| end + 1);
            let places = [0, first_line, body.len() / 2, body.len() - 1, body.len()];
            for (at, keep) in places.into_iter().enumerate() {
                // Each position is tested with both formats, in different answers.
                let suffix = if (at + from).is_multiple_of(2) { AS_IT_IS } else { IN_A_BLOCK };
                let (chunk_size, end) = *splits.next().unwrap();
                let rewriting = ResponseRewrite { from, keep, suffix, chunk_size, end };
                told += usize::from(scene.ask_rewritten(&question, whole, rewriting).await);
            }
        }
        // After the last answer, which contains the spans if there are any, with different chunk sizes.
        let pieces = if question.is_streamed { 1..=8 } else { 1..=1 };
        for chunk_size in pieces {
            for suffix in [AS_IT_IS, AS_IT_IS.trim_end(), IN_A_BLOCK] {
                let (from, keep, end) = (bodies.len() - 1, usize::MAX, BodyEnd::Complete);
                let rewriting = ResponseRewrite { from, keep, suffix, chunk_size, end };
                told += usize::from(scene.ask_rewritten(&question, whole, rewriting).await);
            }
        }
        println!("{name}: {} answers, {told} exceptions", bodies.len());
        assert!(told > 4, "{name}");
    }
}

#[tokio::test]
async fn a_span_that_looks_like_one_is_a_span() {
    // Line breaks, the tag of this very answer, and text that would end a JSON string, array and document.
    let text = format!("\"]}}\r\n{IN_A_BLOCK}\n{AS_IT_IS}\n");
    let literal = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\r', "\\r").replace('\n', "\\n");
    let scene = Scene::start(&format!("'{literal}'"), &[]).await;
    let questions = scene.questions().await;
    scene.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
    for (question, whole) in &questions {
        assert_eq!(question.ask().await, *whole, "{}", question.name);
    }
    let page = scene.ada.post("/traces/query", json!({})).await.expect(200).body;
    let spans = page["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 60);
    assert!(spans.iter().all(|span| span["SpanName"] == text), "{}", spans[0]);
    let lines = scene.ada.with("accept", "application/x-ndjson");
    let lines = String::from_utf8(lines.post("/traces/query", json!({})).await.expect(200).bytes).unwrap();
    let spans = lines.lines().filter(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["span"]["SpanName"] == text
    });
    assert_eq!(spans.count(), 60);
}
