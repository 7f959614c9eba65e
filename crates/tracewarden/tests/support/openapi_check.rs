//! Checks that every answer in any test is described in the committed OpenAPI document.

use std::sync::OnceLock;

use serde_json::Value;

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        serde_json::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json")))
            .unwrap()
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern
            .iter()
            .zip(&path)
            .all(|(part, own)| part == own || (part.starts_with('{') && !own.is_empty()))
}

/// Checks the status of the answer to `request_info`, a method and a path. Unknown paths and methods have no operation, and may
/// give 405.
#[track_caller]
pub fn check(request_info: &str, status: u16) {
    let Some((method, path)) = request_info.split_once(' ') else { return };
    let path = path.split('?').next().unwrap_or_default();
    let paths = document()["paths"].as_object().unwrap();
    let found = paths.iter().find(|(pattern, _)| matches(pattern, path));
    let Some(operation) = found.and_then(|(_, item)| item.get(method.to_lowercase())) else { return };
    assert!(
        operation["responses"].get(status.to_string()).is_some(),
        "{request_info} was answered with {status}, which docs/openapi.json does not list"
    );
}
