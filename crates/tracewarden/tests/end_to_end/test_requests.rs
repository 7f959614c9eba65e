//! All requests whose answers depend on ClickHouse, sent through a proxy that can fail, and classified as a client sees
//! them.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault, ResponseRewrite};

use crate::support::store::{Store, blue_policies, bound_service_at};
use crate::support::{Client, Service};

const NDJSON_PAGE: &str = "a page as NDJSON";

/// An unhealthy endpoint is tried again after at most ten seconds.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(15);

const TRACE: &str = "00000000000000000000000000000001";

/// An answer as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnswerOutcome {
    /// A complete answer, with its decompressed length: the compressed length depends on the chunks.
    Complete(usize),
    /// An error with this status.
    ErrorStatus(u16),
    /// An MCP tool error.
    ToolError,
    /// An aborted answer.
    Aborted,
}

/// A request under test.
pub struct TestRequest {
    pub name: &'static str,
    request: RequestBuilder,
    is_compressed: bool,
    /// Whether its answer begins before ClickHouse's answer has ended.
    pub is_streamed: bool,
}

impl AnswerOutcome {
    /// Whether it is an error or an incomplete answer.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Complete(_) => false,
            Self::ErrorStatus(status) => (500..600).contains(&status),
            Self::ToolError | Self::Aborted => true,
        }
    }
}

impl TestRequest {
    /// Whether the answer begins during the search, if the search takes a while.
    pub fn may_begin_early(&self) -> bool {
        self.name == NDJSON_PAGE
    }

    /// Sends the request until the endpoint, which works again, is no longer considered unhealthy.
    pub async fn ask_until_healthy(&self) -> AnswerOutcome {
        let begun = Instant::now();
        loop {
            let outcome = self.ask().await;
            if !outcome.is_failure() || begun.elapsed() > RECOVERY_TIMEOUT {
                return outcome;
            }
        }
    }

    pub async fn ask(&self) -> AnswerOutcome {
        let request = self.request.try_clone().unwrap();
        let Ok(answer) = request.send().await else { return AnswerOutcome::Aborted };
        let status = answer.status().as_u16();
        let is_compressed = answer.headers().contains_key("content-encoding");
        let Ok(body) = answer.bytes().await else { return AnswerOutcome::Aborted };
        let mut body = body.to_vec();
        if status == 200 {
            assert_eq!(is_compressed, self.is_compressed, "{}", self.name);
        }
        if is_compressed {
            let compressed = std::mem::take(&mut body);
            if MultiGzDecoder::new(compressed.as_slice()).read_to_end(&mut body).is_err() {
                return AnswerOutcome::Aborted;
            }
        }
        match status {
            200 if String::from_utf8_lossy(&body).contains("\"isError\":true") => AnswerOutcome::ToolError,
            // The number of progress lines depends on the duration.
            200 => AnswerOutcome::Complete(
                body.split(|byte| *byte == b'\n')
                    .filter(|line| !line.starts_with(b"{\"progress\""))
                    .map(<[u8]>::len)
                    .sum(),
            ),
            status => AnswerOutcome::ErrorStatus(status),
        }
    }
}

/// Returns every kind of request whose answer contains data from ClickHouse.
fn test_requests(ada: &Client, agent: &Client, window: &[(&str, String)]) -> Vec<TestRequest> {
    let json = ada.with("accept", "application/json").with("accept-encoding", "identity");
    let lines = json.with("accept", "application/x-ndjson");
    let compressed = ada.with("accept", "application/json").with("accept-encoding", "gzip");
    let within = |mut arguments_in_window: serde_json::Value| {
        for (name, value) in window {
            arguments_in_window[*name] = json!(value);
        }
        arguments_in_window
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
    let test_request =
        |name, request, is_streamed| TestRequest { name, request, is_compressed: false, is_streamed };
    vec![
        test_request("a page", page(&json, "spans"), true),
        test_request(NDJSON_PAGE, page(&lines, "spans"), true),
        TestRequest {
            is_compressed: true,
            ..test_request("a compressed page", page(&compressed, "spans"), true)
        },
        test_request("summaries", page(&json, "summary"), false),
        test_request("ids", page(&json, "ids"), false),
        test_request("one trace", json.request(Method::GET, &format!("/traces/{TRACE}")), true),
        test_request("an explanation", json.request(Method::GET, &format!("/traces/{TRACE}/explain")), false),
        test_request("values", json.request(Method::GET, &values), false),
        test_request("an agent's trace", tool("svc_get_trace", json!({"trace_id": TRACE})), false),
        test_request("an agent's search", tool("svc_query_traces", within(json!({}))), false),
        test_request("an agent's counts", tool("svc_trace_stats", within(json!({}))), false),
    ]
}

/// A service that reaches ClickHouse through a proxy, and its clients.
pub struct Fixture {
    _store: Store,
    pub proxy: ChaosProxy,
    pub service: Service,
    pub ada: Client,
    agent: Client,
    /// A fixed time range, so that an answer always has the same length.
    window: [(&'static str, String); 2],
}

impl Fixture {
    /// Starts with three traces of twenty spans each, whose name this expression computes.
    pub async fn start(name: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with_proxy(ChaosProxy::start, name, environment).await
    }

    /// The same, with a proxy that repeats the first answer to each statement.
    pub async fn start_with_repeated_answers(name: &str) -> Self {
        Self::start_with_proxy(ChaosProxy::replaying, name, &[]).await
    }

    async fn start_with_proxy(
        proxy: impl FnOnce(SocketAddr) -> std::io::Result<ChaosProxy>,
        name: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let store = Store::start();
        store
            .run(&format!(
                "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
                 SELECT now64(9) - 60, leftPad(toString(number % 3 + 1), 32, '0'), leftPad(toString(number), 16, '0'), \
                 {name}, 'shop', map('team', 'blue') FROM numbers(60)"
            ))
            .await;
        let proxy = proxy(store.address()).unwrap();
        let environment = [environment, &[("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")]].concat();
        let (service, admin) = bound_service_at(&proxy.url(), &store, &environment).await;
        admin.put("/roles/blue", blue_policies()).await.expect(201);
        let ada = service.user(&admin, "ada", &["blue"]).await;
        let created = ada.post("/me/api-keys", json!({"name": "agent"})).await.expect(201).body;
        let agent = ada
            .with_key(created["token"].as_str().unwrap())
            .with("accept", "application/json, text/event-stream")
            .with("mcp-protocol-version", "2025-11-25");
        let found = ada.get("/filter/values?ref=ServiceName").await.expect(200).body;
        let window = ["from", "to"].map(|name| (name, found[name].as_str().unwrap().to_owned()));
        Self { _store: store, proxy, service, ada, agent, window }
    }

    /// Returns every request with its result in the absence of faults.
    pub async fn test_requests(&self) -> Vec<(TestRequest, AnswerOutcome)> {
        self.proxy.set(Fault::None);
        let mut all = Vec::new();
        for test_request in test_requests(&self.ada, &self.agent, &self.window) {
            // The first request also reads the columns, which are then cached for a while.
            let whole = test_request.ask().await;
            assert!(matches!(whole, AnswerOutcome::Complete(_)), "{}: {whole:?}", test_request.name);
            all.push((test_request, whole));
        }
        all
    }

    /// Restarts the service with further settings and returns new requests for it.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> Vec<TestRequest> {
        self.service.restart_with(environment);
        self.ada = self.ada.at(&self.service);
        self.agent = self.agent.at(&self.service);
        test_requests(&self.ada, &self.agent, &self.window)
    }

    /// Sends the request while the proxy rewrites answers. A changed answer must be detected. Cached data is not requested
    /// again, so there may be no answer to change.
    pub async fn ask_with_rewritten_answer(
        &self,
        test_request: &TestRequest,
        whole: AnswerOutcome,
        rewriting: ResponseRewrite,
    ) -> bool {
        self.proxy.set(Fault::Rewrite(rewriting));
        let outcome = test_request.ask().await;
        let changed = self.proxy.changed() > 0;
        let is_expected = if changed { outcome.is_failure() } else { outcome == whole };
        assert!(is_expected, "{}: {rewriting:?} gave {outcome:?} instead of {whole:?}", test_request.name);
        changed
    }
}
