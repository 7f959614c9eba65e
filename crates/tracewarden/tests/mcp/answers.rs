//! What is read from answers of tools, whichever tool it was.

use serde_json::Value;

/// The list of this name, which must be there.
#[track_caller]
pub fn list<'a>(body: &'a Value, name: &str) -> &'a Vec<Value> {
    body[name].as_array().unwrap_or_else(|| panic!("no list `{name}` in {body}"))
}

/// The text of this name, which must be there.
#[track_caller]
pub fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_else(|| panic!("no text `{name}` in {body}"))
}

/// The number of this name, which must be there.
#[track_caller]
pub fn number(body: &Value, name: &str) -> u64 {
    body[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {body}"))
}

/// Arguments of the calls of a tool that an answer suggests, in its order.
pub fn suggested<'a>(body: &'a Value, tool: &'a str) -> impl Iterator<Item = &'a Value> {
    list(body, "next").iter().filter(move |next| next["tool"] == tool).map(|next| &next["arguments"])
}
