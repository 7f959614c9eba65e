//! ClickHouse exceptions after rows, in both formats that servers use, and span values that look like one.

use serde_json::json;
use tracewarden_testkit::chaos_proxy::{BodyEnd, Fault, ResponseRewrite, TAG};

use crate::end_to_end::test_requests::Fixture;

/// Format of servers before 25.11: plain text after the rows, since the status has already been sent.
const PLAIN_EXCEPTION: &str = "Code: 241. DB::Exception: Memory limit (for query) exceeded: would use 9.31 GiB (attempt to allocate \
    chunk of 4194304 bytes), maximum: 9.31 GiB. (MEMORY_LIMIT_EXCEEDED) (version 24.3.2.23 (official build))\n";

/// Format of later servers: a block with the tag from the response header. The number is the length of the message with its
/// newline.
const TAGGED_EXCEPTION: &str = "\r\n__exception__\r\nabcdefghijklmnop\r\n\
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
    assert!(TAGGED_EXCEPTION.contains(&format!("92 {TAG}\r\n")));
    let fixture = Fixture::start("repeat('x', 1000)", &[]).await;
    let mut splits = SPLITS.iter().cycle();
    for (test_request, whole) in fixture.test_requests().await {
        let name = test_request.name;
        fixture.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
        assert_eq!(test_request.ask().await, whole, "{name}");
        let bodies = fixture.proxy.bodies();
        let mut detected = 0;
        for (from, body) in bodies.iter().enumerate() {
            let first_line = body.iter().position(|byte| *byte == b'\n').map_or(1, |end| end + 1);
            let positions = [0, first_line, body.len() / 2, body.len() - 1, body.len()];
            for (at, keep) in positions.into_iter().enumerate() {
                // Each position is tested with both formats, in different answers.
                let suffix = if (at + from).is_multiple_of(2) { PLAIN_EXCEPTION } else { TAGGED_EXCEPTION };
                let (chunk_size, end) = *splits.next().unwrap();
                let rewriting = ResponseRewrite { from, keep, suffix, chunk_size, end };
                detected +=
                    usize::from(fixture.ask_with_rewritten_answer(&test_request, whole, rewriting).await);
            }
        }
        // After the last answer, which contains the spans if there are any, with different chunk sizes.
        let pieces = if test_request.is_streamed { 1..=8 } else { 1..=1 };
        for chunk_size in pieces {
            for suffix in [PLAIN_EXCEPTION, PLAIN_EXCEPTION.trim_end(), TAGGED_EXCEPTION] {
                let (from, keep, end) = (bodies.len() - 1, usize::MAX, BodyEnd::Complete);
                let rewriting = ResponseRewrite { from, keep, suffix, chunk_size, end };
                detected +=
                    usize::from(fixture.ask_with_rewritten_answer(&test_request, whole, rewriting).await);
            }
        }
        println!("{name}: {} answers, {detected} exceptions", bodies.len());
        assert!(detected > 4, "{name}");
    }
}

#[tokio::test]
async fn span_data_that_resembles_an_exception_is_returned() {
    // Line breaks, the tag of this very answer, and text that would end a JSON string, array and document.
    let text = format!("\"]}}\r\n{TAGGED_EXCEPTION}\n{PLAIN_EXCEPTION}\n");
    let literal = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\r', "\\r").replace('\n', "\\n");
    let fixture = Fixture::start(&format!("'{literal}'"), &[]).await;
    let test_requests = fixture.test_requests().await;
    fixture.proxy.set(Fault::Rewrite(ResponseRewrite::whole(BodyEnd::Complete)));
    for (test_request, whole) in &test_requests {
        assert_eq!(test_request.ask().await, *whole, "{}", test_request.name);
    }
    let page = fixture.ada.post("/traces/query", json!({})).await.expect(200).body;
    let spans = page["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 60);
    assert!(spans.iter().all(|span| span["SpanName"] == text), "{}", spans[0]);
    let lines = fixture.ada.with("accept", "application/x-ndjson");
    let lines = String::from_utf8(lines.post("/traces/query", json!({})).await.expect(200).bytes).unwrap();
    let spans = lines.lines().filter(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["span"]["SpanName"] == text
    });
    assert_eq!(spans.count(), 60);
}
