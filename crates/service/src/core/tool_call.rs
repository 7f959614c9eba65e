//! Tool calls as audit records contain them.

use serde_json::json;

use crate::core::audit_detail::{bounded, with_members};
use crate::core::text::sanitize;

/// Tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Name of the tool as called; need not exist.
    pub tool: String,
    /// Arguments as sent.
    pub arguments: serde_json::Value,
    /// Name and version that the client gives itself; not verified.
    pub client: Option<String>,
}

/// Tool call as audit records contain it: JSON of bounded size. Kept as text, because a parsed tree takes some forty times as
/// much memory and records queue to be written, also those of clients that have disconnected.
#[derive(Debug)]
pub struct RecordedCall(pub(crate) String);

impl RecordedCall {
    /// Sanitises the name of the client and of the tool, which are text from the client.
    pub(crate) fn new(call: &ToolCall) -> Self {
        let client = call.client.as_deref().map(sanitize);
        let detail = bounded(json!({ "arguments": call.arguments }));
        let call = [("tool", json!(sanitize(&call.tool))), ("client", json!(client))];
        Self(with_members(detail, call).to_string())
    }
}
