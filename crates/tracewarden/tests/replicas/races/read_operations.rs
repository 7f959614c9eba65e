//! The ways to read a trace; revoked access must be rejected by each of them.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};

use crate::replicas::fleet::{read_traces, spans};
use crate::support::store::BLUE;
use crate::support::{Answer, Client};

/// How the blue trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadOperation {
    Search,
    Ndjson,
    Fetch,
    Explanation,
    Values,
    ToolSearch,
    ToolTrace,
    ToolStatistics,
    ToolValues,
    ToolSpans,
    ToolPath,
    ToolExplanation,
    ToolComparison,
}

/// The ways for sessions first, then those that need an API key.
const READ_OPERATIONS: [ReadOperation; 13] = [
    ReadOperation::Search,
    ReadOperation::Ndjson,
    ReadOperation::Fetch,
    ReadOperation::Explanation,
    ReadOperation::Values,
    ReadOperation::ToolSearch,
    ReadOperation::ToolTrace,
    ReadOperation::ToolStatistics,
    ReadOperation::ToolValues,
    ReadOperation::ToolSpans,
    ReadOperation::ToolPath,
    ReadOperation::ToolExplanation,
    ReadOperation::ToolComparison,
];
const SESSION_OPERATIONS: usize = 5;

impl ReadOperation {
    /// Returns a random way; for a session, one that sessions can use.
    pub fn any(random: &mut ChaCha8Rng, is_key: bool) -> Self {
        READ_OPERATIONS
            [random.random_range(0..if is_key { READ_OPERATIONS.len() } else { SESSION_OPERATIONS })]
    }

    pub async fn read(self, client: &Client) -> Answer {
        match self {
            Self::Search => read_traces(client).await,
            Self::Ndjson => read_traces(&client.with("accept", "application/x-ndjson")).await,
            Self::Fetch => client.get(&format!("/traces/{BLUE}")).await,
            Self::Explanation => client.get(&format!("/traces/{BLUE}/explain")).await,
            Self::Values => client.get("/filter/values?ref=ServiceName").await,
            Self::ToolSearch => call(client, "svc_query_traces", json!({})).await,
            Self::ToolTrace => call(client, "svc_get_trace", json!({"trace_id": BLUE})).await,
            Self::ToolStatistics => call(client, "svc_trace_stats", json!({})).await,
            Self::ToolValues => call(client, "svc_field_values", json!({"ref": "ServiceName"})).await,
            Self::ToolSpans => {
                let arguments = json!({"trace_id": BLUE, "span_ids": ["0000000000000000"]});
                call(client, "svc_get_spans", arguments).await
            }
            Self::ToolPath => call(client, "svc_critical_path", json!({"trace_id": BLUE})).await,
            Self::ToolExplanation => call(client, "svc_explain_access", json!({"trace_id": BLUE})).await,
            Self::ToolComparison => {
                let arguments = json!({"first_trace_id": BLUE, "second_trace_id": BLUE});
                call(client, "svc_compare_traces", arguments).await
            }
        }
    }

    /// Whether an answer shows data of the trace. Any other answer must be the one for a caller without access.
    pub fn shows_trace(self, answer: &Answer) -> bool {
        match (self, answer.status) {
            (_, 401) => false,
            (_, 403) if answer.body["code"] == "password_change_required" => false,
            (Self::Fetch | Self::Explanation, 404) if answer.body["code"] == "trace_not_found" => false,
            (Self::Search | Self::Fetch, 200) => spans(answer) > 0,
            (Self::Ndjson, 200) => {
                let text = String::from_utf8_lossy(&answer.bytes);
                assert!(text.contains("\"end\""), "{text}");
                text.contains("\"span\"")
            }
            (Self::Explanation, 200) => {
                assert_eq!(answer.body["visible"], true, "{}", answer.body);
                true
            }
            (Self::Values, 200) => !answer.body["values"].as_array().unwrap().is_empty(),
            (tool, 200) if tool.is_tool() => self.tool_shows_trace(answer),
            _ => panic!("{self:?}: {}: {}", answer.status, answer.body),
        }
    }

    fn is_tool(self) -> bool {
        !READ_OPERATIONS[..SESSION_OPERATIONS].contains(&self)
    }

    /// Whether the request names a trace, which is then reported as not found.
    fn has_trace_id(self) -> bool {
        !matches!(self, Self::ToolSearch | Self::ToolStatistics | Self::ToolValues)
    }

    fn tool_shows_trace(self, answer: &Answer) -> bool {
        let result = &answer.body["result"];
        let content = &result["structuredContent"];
        match self {
            // Access may have been revoked after authentication and before the read began.
            _ if result["isError"] == true => {
                let text = result["content"][0]["text"].as_str().unwrap();
                let code = text.strip_prefix("error ").and_then(|text| text.split(':').next()).unwrap();
                let is_authorization_error = matches!(code, "unauthenticated" | "password_change_required");
                assert!(
                    is_authorization_error || (self.has_trace_id() && code == "trace_not_found"),
                    "{text}"
                );
                false
            }
            Self::ToolSearch => !content["traces"].as_array().unwrap().is_empty(),
            Self::ToolStatistics => content["all"]["traces"].as_u64().unwrap() > 0,
            Self::ToolValues => !content["values"].as_array().unwrap().is_empty(),
            _ => {
                assert!(content.is_object(), "{result}");
                true
            }
        }
    }
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Answer {
    let client = client
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2025-11-25");
    let params = json!({"name": tool, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    client.send(Method::POST, "/mcp", Some(message)).await
}
