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

const LINES: &str = "a page as NDJSON";

/// An unhealthy endpoint is tried again after at most ten seconds.
const BACK: Duration = Duration::from_secs(15);

const TRACE: &str = "00000000000000000000000000000001";

/// An answer as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Seen {
    /// A complete answer, with its decompressed length: the compressed length depends on the chunks.
    Whole(usize),
    /// An error with this status.
    Refused(u16),
    /// An MCP tool error.
    ToolError,
    /// An aborted answer.
    Broken,
}

/// A request under test.
pub struct Question {
    pub name: &'static str,
    request: RequestBuilder,
    is_compressed: bool,
    /// Whether its answer begins before ClickHouse's answer has ended.
    pub is_streamed: bool,
}

impl Seen {
    /// Whether it is an error or an incomplete answer.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Refused(status) => (500..600).contains(&status),
            Self::ToolError | Self::Broken => true,
        }
    }
}

impl Question {
    /// Whether the answer begins during the search, if the search takes a while.
    pub fn may_begin_early(&self) -> bool {
        self.name == LINES
    }

    /// Sends the request until the endpoint, which works again, is no longer considered unhealthy.
    pub async fn ask_when_back(&self) -> Seen {
        let begun = Instant::now();
        loop {
            let seen = self.ask().await;
            if !seen.is_failure() || begun.elapsed() > BACK {
                return seen;
            }
        }
    }

    pub async fn ask(&self) -> Seen {
        let request = self.request.try_clone().unwrap();
        let Ok(answer) = request.send().await else { return Seen::Broken };
        let status = answer.status().as_u16();
        let is_compressed = answer.headers().contains_key("content-encoding");
        let Ok(body) = answer.bytes().await else { return Seen::Broken };
        let mut body = body.to_vec();
        if status == 200 {
            assert_eq!(is_compressed, self.is_compressed, "{}", self.name);
        }
        if is_compressed {
            let compressed = std::mem::take(&mut body);
            if MultiGzDecoder::new(compressed.as_slice()).read_to_end(&mut body).is_err() {
                return Seen::Broken;
            }
        }
        match status {
            200 if String::from_utf8_lossy(&body).contains("\"isError\":true") => Seen::ToolError,
            // The number of progress lines depends on the duration.
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

/// Returns every kind of request whose answer contains data from ClickHouse.
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
        question(LINES, page(&lines, "spans"), true),
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

/// A service that reaches ClickHouse through a proxy, and its clients.
pub struct Scene {
    _store: Store,
    pub proxy: ChaosProxy,
    pub service: Service,
    pub ada: Client,
    agent: Client,
    /// A fixed time range, so that an answer always has the same length.
    window: [(&'static str, String); 2],
}

impl Scene {
    /// Starts with three traces of twenty spans each, whose name this expression computes.
    pub async fn start(name: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_behind(ChaosProxy::start, name, environment).await
    }

    /// The same, with a proxy that repeats the first answer to each statement.
    pub async fn start_remembering(name: &str) -> Self {
        Self::start_behind(ChaosProxy::replaying, name, &[]).await
    }

    async fn start_behind(
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
    pub async fn questions(&self) -> Vec<(Question, Seen)> {
        self.proxy.set(Fault::None);
        let mut all = Vec::new();
        for question in questions(&self.ada, &self.agent, &self.window) {
            // The first request also reads the columns, which are then cached for a while.
            let whole = question.ask().await;
            assert!(matches!(whole, Seen::Whole(_)), "{}: {whole:?}", question.name);
            all.push((question, whole));
        }
        all
    }

    /// Restarts the service with further settings and returns new requests for it.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) -> Vec<Question> {
        self.service.restart_with(environment);
        self.ada = self.ada.at(&self.service);
        self.agent = self.agent.at(&self.service);
        questions(&self.ada, &self.agent, &self.window)
    }

    /// Sends the request while the proxy rewrites answers. A changed answer must be detected. Cached data is not requested
    /// again, so there may be no answer to change.
    pub async fn ask_rewritten(&self, question: &Question, whole: Seen, rewriting: ResponseRewrite) -> bool {
        self.proxy.set(Fault::Rewrite(rewriting));
        let seen = question.ask().await;
        let changed = self.proxy.changed() > 0;
        let right = if changed { seen.is_failure() } else { seen == whole };
        assert!(right, "{}: {rewriting:?} gave {seen:?} instead of {whole:?}", question.name);
        changed
    }
}
