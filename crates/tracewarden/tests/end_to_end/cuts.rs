//! Answers of the trace store that are cut off somewhere: whatever was asked, an explicit error or an answer that visibly breaks
//! off, never a shorter one.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};

use crate::support::Client;
use crate::support::store::{Store, bound_service_at};

const TRACE: &str = "00000000000000000000000000000001";

/// What a client can make of an answer.
#[derive(Debug, PartialEq)]
enum Seen {
    /// All of it, so many bytes.
    Whole(usize),
    /// An error with this status.
    Refused(u16),
    /// An error that a tool tells.
    ToolError,
    /// Broken off.
    Broken,
}

/// Something that is asked, and how long its answer is when nothing fails: nothing for one that is compressed, which depends on
/// the pieces in which it came.
struct Question {
    name: &'static str,
    request: RequestBuilder,
    is_compressed: bool,
    /// Whether its answer begins before the store's has ended.
    is_streamed: bool,
}

impl Question {
    async fn ask(&self) -> Seen {
        let request = self.request.try_clone().unwrap();
        let Ok(answer) = request.send().await else { return Seen::Broken };
        let status = answer.status().as_u16();
        let Ok(body) = answer.bytes().await else { return Seen::Broken };
        match status {
            200 if String::from_utf8_lossy(&body).contains("\"isError\":true") => Seen::ToolError,
            200 if self.is_compressed => Seen::Whole(0),
            // How often it is told how far the search is depends on how long that takes.
            200 => Seen::Whole(
                body.split(|byte| *byte == b'\n')
                    .filter(|line| !line.starts_with(b"{\"progress\""))
                    .map(<[u8]>::len)
                    .sum(),
            ),
            status => Seen::Refused(status),
        }
    }
}

/// Every kind of answer that holds what the store said.
fn questions(ada: &Client, agent: &Client, window: &[(&str, String)]) -> Vec<Question> {
    let json = ada.with("accept", "application/json").with("accept-encoding", "identity");
    let lines = json.with("accept", "application/x-ndjson");
    let compressed = ada.with("accept", "application/json").with("accept-encoding", "gzip");
    let within = |mut asked: serde_json::Value| {
        for (name, value) in window {
            asked[*name] = json!(value);
        }
        asked
    };
    let page = |client: &Client, view: &str| {
        let body = within(json!({"view": view}));
        client.request(Method::POST, "/traces/query").json(&body)
    };
    let tool = |name: &str, arguments: serde_json::Value| {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        agent.request(Method::POST, "/mcp").json(&message)
    };
    let [from, to] = [&window[0].1, &window[1].1];
    let values = format!("/filter/values?ref=ServiceName&from={from}&to={to}");
    let question = |name, request, is_streamed| Question { name, request, is_compressed: false, is_streamed };
    vec![
        question("a page", page(&json, "spans"), true),
        question("a page in lines", page(&lines, "spans"), true),
        Question { is_compressed: true, ..question("a compressed page", page(&compressed, "spans"), true) },
        question("summaries", page(&json, "summary"), false),
        question("ids", page(&json, "ids"), false),
        question("one trace", json.request(Method::GET, &format!("/traces/{TRACE}")), true),
        question("an explanation", json.request(Method::GET, &format!("/traces/{TRACE}/explain")), false),
        question("values", json.request(Method::GET, &values), false),
        question("an agent's trace", tool("svc_get_trace", json!({"trace_id": TRACE})), false),
        question("an agent's search", tool("svc_query_traces", within(json!({}))), false),
        question("an agent's counts", tool("svc_trace_stats", within(json!({}))), false),
    ]
}

/// `TRACEWARDEN_TEST_CUT_STEP` bytes lie between cuts; some 55 cuts of each page and 14 of other answers are made where nothing is
/// set.
#[tokio::test]
async fn a_cut_anywhere_is_seen() {
    let step: Option<u64> = std::env::var("TRACEWARDEN_TEST_CUT_STEP").ok().map(|step| step.parse().unwrap());
    let store = Store::start();
    // Some 100 KB, so that the answer comes in several pieces.
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, leftPad(toString(number % 3 + 1), 32, '0'), leftPad(toString(number), 16, '0'), \
             repeat('x', 1000), 'shop', map('team', 'blue') FROM numbers(60)",
        )
        .await;
    let proxy = ChaosProxy::start(store.address()).unwrap();
    let environment = [("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")];
    let (service, admin) = bound_service_at(&proxy.url(), &store, &environment).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let created = ada.post("/me/api-keys", json!({"name": "agent"})).await.expect(201).body;
    let agent = ada
        .with_key(created["token"].as_str().unwrap())
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2025-11-25");
    // A window that does not move, so that an answer is always as long.
    let found = ada.get("/filter/values?ref=ServiceName").await.expect(200).body;
    let window = ["from", "to"].map(|name| (name, found[name].as_str().unwrap().to_owned()));
    for question in questions(&ada, &agent, &window) {
        let name = question.name;
        proxy.set(Fault::None);
        let whole = question.ask().await;
        assert!(matches!(whole, Seen::Whole(_)), "{name}: {whole:?}");
        // The first look asks the store for its columns as well, which are known for a while then.
        proxy.set(Fault::None);
        assert_eq!(question.ask().await, whole, "{name}");
        let total = proxy.passed();
        let (many, apart) = if question.is_streamed { (30, 1) } else { (8, 4) };
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
        assert!(refused > 0, "{name}");
        assert_eq!(broken > 0, question.is_streamed, "{name}: {broken} of {many} answers were broken off");
        proxy.set(Fault::None);
        assert_eq!(question.ask().await, whole, "{name}");
        proxy.set(Fault::Drip(Duration::from_micros(1)));
        assert_eq!(question.ask().await, whole, "{name}, dripping");
        proxy.set(Fault::Refuse);
        let refused = question.ask().await;
        assert!(matches!(refused, Seen::Refused(503) | Seen::ToolError), "{name}: {refused:?}");
    }
}
