//! Calls tools of the MCP interface.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use crate::bench::conditions::cells::Access;

/// Calls a tool. Returns its structured content and the duration of the call.
pub fn call(bench: &Bench<'_>, access: &Access, tool: &str, arguments: &Value) -> Result<(Value, Duration)> {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments},
    });
    let reply = bench.environment.service.post(&access.caller, "/mcp", &message)?;
    let answer: Value = serde_json::from_slice(&reply.body)?;
    ensure!(answer.pointer("/result/isError") != Some(&json!(true)), "the tool failed: {answer}");
    let content = answer.pointer("/result/structuredContent").cloned();
    Ok((content.with_context(|| format!("the tool gave no structured content: {answer}"))?, reply.elapsed))
}
