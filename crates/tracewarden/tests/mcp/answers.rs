//! Helpers that read members of any tool's answer.

use serde_json::Value;

/// Returns the list with this name, which must exist.
#[track_caller]
pub fn list<'a>(body: &'a Value, name: &str) -> &'a Vec<Value> {
    body[name].as_array().unwrap_or_else(|| panic!("no list `{name}` in {body}"))
}

/// Returns the string with this name, which must exist.
#[track_caller]
pub fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_else(|| panic!("no text `{name}` in {body}"))
}

/// Returns the number with this name, which must exist.
#[track_caller]
pub fn number(body: &Value, name: &str) -> u64 {
    body[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {body}"))
}

/// Returns the arguments of the calls to a tool that an answer suggests, in order.
pub fn suggested<'a>(body: &'a Value, tool: &'a str) -> impl Iterator<Item = &'a Value> {
    list(body, "next").iter().filter(move |next| next["tool"] == tool).map(|next| &next["arguments"])
}
