//! Checks request ids. A response repeats the id of its request, so an id that cannot be repeated exactly is rejected.

use std::collections::HashMap;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;
use serde_json::value::RawValue;
use tracewarden_model::Decimal;

/// JSON-RPC error code for an invalid request.
const INVALID_REQUEST: i32 = -32600;
const DETAIL: &str = "`id` must be a string or a 64-bit integer, and unique for each request";

/// From this value on, a double represents more than one integer.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Returns the error response for a request whose id cannot be repeated. Leaves invalid messages to their parser.
pub(crate) fn refusal(body: &[u8]) -> Option<Response> {
    let members: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let method = members.get("method")?;
    let id = members.get("id")?.get();
    // Notifications have no response.
    let is_notification = id == "null" && method.get().starts_with("\"notifications/");
    if is_notification || is_valid(id) {
        return None;
    }
    let message =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": INVALID_REQUEST, "message": DETAIL } });
    Some((StatusCode::BAD_REQUEST, Json(message)).into_response())
}

fn is_valid(id: &str) -> bool {
    if id.starts_with('"') || id.parse::<i64>().is_ok() {
        return true;
    }
    let Ok((whole, true)) = Decimal::parse(id).map(|number| number.floor()) else { return false };
    whole.to_string().parse::<i64>().is_ok_and(|whole| whole.unsigned_abs() < MAX_EXACT_INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_cannot_be_returned_are_refused() {
        let refused = |id: &str| {
            refusal(format!(r#"{{"jsonrpc": "2.0", "id": {id}, "method": "ping"}}"#).as_bytes()).is_some()
        };
        for id in
            [r#""""#, r#""1e400""#, "0", "-7", "9223372036854775807", "-9223372036854775808", "1.0", "1e2"]
        {
            assert!(!refused(id), "{id}");
        }
        for id in [
            "9223372036854775808",
            "18446744073709551616",
            "1.5",
            "1e400",
            "1e18",
            "null",
            "true",
            "[1]",
            "{}",
        ] {
            assert!(refused(id), "{id}");
        }
        for message in [
            r#"{"id": null, "method": "notifications/initialized"}"#,
            "{}",
            r#"{"id": 1.5, "result": {}}"#,
            r#"{"method": "ping"}"#,
            "[]",
            "no JSON",
        ] {
            assert!(refusal(message.as_bytes()).is_none(), "{message}");
        }
    }
}
