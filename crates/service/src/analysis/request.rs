//! Parts that requests for previews and collateral access share: their time-out, and their audit record.

use serde_json::Value;
use tokio::time::Duration;

use crate::core::{Access, ServiceError};

/// Default and maximum duration of a preview in seconds.
const DEFAULT_SECONDS: i64 = 10;
const MAX_SECONDS: i64 = 60;

/// Returns the time-out of a preview.
pub(crate) fn timeout(seconds: Option<i64>) -> Result<Duration, ServiceError> {
    let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
    match u64::try_from(seconds) {
        Ok(whole) if (1..=MAX_SECONDS).contains(&seconds) => Ok(Duration::from_secs(whole)),
        _ => {
            let detail = format!("from 1 to {MAX_SECONDS} seconds");
            Err(ServiceError::refused("/seconds", "invalid_value", detail))
        }
    }
}

/// Detail of the audit record: inputs of the decision, and the request.
pub(crate) fn with_decision_inputs(access: &Access, context: &Value) -> Value {
    let mut detail = access.decision_inputs.clone();
    if let (Value::Object(members), Value::Object(context)) = (&mut detail, context) {
        members.extend(context.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    detail
}
