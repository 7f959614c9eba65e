//! Hand-written MCP requests: one HTTP request per call, in the revision before the newest, which requires nothing else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client};

/// Adds the headers of every request.
fn with_mcp_headers(client: &Client) -> Client {
    client
        .with("accept", "application/json, text/event-stream")
        .with("content-type", "application/json")
        .with("mcp-protocol-version", "2025-11-25")
}

/// Sends a message.
pub async fn send(client: &Client, method: &str, params: Value) -> Answer {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    with_mcp_headers(client).send(Method::POST, "/mcp", Some(message)).await
}

/// A tool's answer.
#[derive(Debug)]
pub struct ToolResult {
    /// Whether the call failed.
    pub failed: bool,
    /// The text content.
    pub text: String,
    /// The structured content; null if the call failed.
    pub body: Value,
    /// The whole result as JSON.
    pub result: String,
}

impl ToolResult {
    /// Returns the answer, which must not be an error.
    #[track_caller]
    pub fn expect(self) -> Self {
        assert!(!self.failed, "{}", self.text);
        self
    }

    /// Returns the text of an error with this code.
    #[track_caller]
    pub fn failure(self, code: &str) -> String {
        assert!(self.failed, "{}", self.text);
        assert!(self.text.starts_with(&format!("error {code}:")), "{}", self.text);
        self.text
    }
}

/// Calls a tool.
pub async fn call(client: &Client, tool: &str, arguments: Value) -> ToolResult {
    let answer =
        send(client, "tools/call", json!({ "name": tool, "arguments": arguments })).await.expect(200);
    let result = &answer.body["result"];
    assert!(result.is_object(), "{tool} {arguments}: {}", answer.body);
    ToolResult {
        failed: result["isError"] == true,
        text: result["content"][0]["text"].as_str().unwrap().to_owned(),
        body: result["structuredContent"].clone(),
        result: result.to_string(),
    }
}

/// Creates an API key for this owner and returns a client that uses it.
pub async fn key(owner: &Client, constraint: Value) -> Client {
    owner.with_key(&token(owner, constraint).await)
}

/// Creates an API key for this owner.
pub async fn token(owner: &Client, constraint: Value) -> String {
    let mut new = json!({ "name": "agent" });
    new.as_object_mut().unwrap().extend(constraint.as_object().unwrap().clone());
    let created = owner.post("/me/api-keys", new).await.expect(201).body;
    created["token"].as_str().unwrap().to_owned()
}
