//! Reads the same traces through MCP, as a coding agent does.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{DemoUnderTest, Findings};
use crate::demo::demo_users::{AGENT_OWNER, DEMO_USERS};
use crate::stack::api::{Client, expect};

/// Fetches each landmark with the agent's key: its totals if the key's owner sees it, otherwise the response for a trace that
/// does not exist.
pub fn traces_by_tool(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let owner = DEMO_USERS.iter().position(|demo_user| demo_user.username == AGENT_OWNER).unwrap_or_default();
    let agent = subject.accounts.of(AGENT_OWNER)?.client.with_key(&subject.accounts.key);
    let absent = get_trace(&agent, &subject.absent.to_string())?;
    for landmark in &subject.expectations.landmarks {
        let id = landmark.id.to_string();
        let what = || format!("{AGENT_OWNER}'s agent, svc_get_trace of `{}`", landmark.name);
        let Some(result) = findings.take(get_trace(&agent, &id), what)? else { continue };
        if landmark.visible.get(owner).copied().unwrap_or_default() {
            let spans = result.pointer("/structuredContent/trace/spans").and_then(Value::as_u64);
            findings.assert(spans == Some(landmark.spans.len() as u64), || {
                format!("{}: {spans:?} spans, must be {}", what(), landmark.spans.len())
            });
        } else {
            findings
                .assert(result == absent, || format!("{}: forbidden and absent differ: {result}", what()));
        }
    }
    Ok(())
}

/// Calls the tool, in the protocol revision that needs no initialisation. Returns its result.
fn get_trace(agent: &Client, id: &str) -> Result<Value> {
    let params = json!({"name": "svc_get_trace", "arguments": {"trace_id": id}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = agent.send("POST", "/mcp", None, Some(&message))?;
    let body = expect(&answer, "POST", "/mcp", &[200])?;
    body.get("result").cloned().with_context(|| format!("no result: {body}"))
}
