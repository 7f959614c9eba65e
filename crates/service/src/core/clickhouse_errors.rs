//! Errors of ClickHouse as errors of the use cases.

use tracewarden_clickhouse::{ChangedField, ClickHouseError};

use crate::core::error::{QueryLimit, ServiceError};
use crate::core::field_error::{FieldError, bounded, unknown};

impl From<ClickHouseError> for ServiceError {
    fn from(source: ClickHouseError) -> Self {
        let limit = match &source {
            ClickHouseError::Timeout(_) => QueryLimit::Time,
            ClickHouseError::Memory(_) => QueryLimit::Memory,
            ClickHouseError::TooLarge(_) => QueryLimit::Size,
            ClickHouseError::FieldsChanged(changed) => {
                return Self::SchemaChanged { errors: changed_fields(changed, false), source };
            }
            ClickHouseError::UnknownColumn { name, nearest } => {
                return Self::refused("/columns", "unknown_field", unknown("column", name, nearest));
            }
            ClickHouseError::InvalidBinding(members) => {
                let error =
                    |(member, reason): &(&str, String)| FieldError::invalid(format!("/{member}"), reason);
                return Self::Refused(members.iter().map(error).collect());
            }
            ClickHouseError::Unavailable { .. } => return Self::ClickHouseUnavailable(source),
            ClickHouseError::Internal(_) => return Self::internal(source),
            ClickHouseError::Exception { .. }
            | ClickHouseError::Unusable(_)
            | ClickHouseError::TableChanged(_)
            | ClickHouseError::IncompleteResponse(_) => return Self::ClickHouse(source),
        };
        Self::OverLimit { limit, detail: limit.to_string(), source }
    }
}

/// Describes changed fields; those that are policy inputs only, if the caller may know of them.
pub(crate) fn changed_fields(changed: &[ChangedField], knows_policy_fields: bool) -> Vec<FieldError> {
    let known = changed.iter().filter(|changed| changed.field.filterable || knows_policy_fields);
    let description = |changed: &ChangedField| {
        let detail = format!("mark `{}` again: it is now {}", changed.field.field, changed.now);
        FieldError::new("", "schema_changed", detail)
    };
    known.map(description).collect()
}

impl ServiceError {
    /// Cause in ClickHouse, for administrators: its error code and version, or what to change there. Contains no text of
    /// statements or spans.
    pub fn for_administrators(&self) -> Option<String> {
        let (Self::ClickHouse(source) | Self::ClickHouseUnavailable(source)) = self else {
            return None;
        };
        match source {
            ClickHouseError::Exception { code, message } => clickhouse_cause(message, *code),
            ClickHouseError::Unusable(reason) | ClickHouseError::TableChanged(reason) => Some(reason.clone()),
            // Any other message describes the connection and contains no part of a statement.
            ClickHouseError::Unavailable { message, .. } => {
                Some(clickhouse_cause(message, None).unwrap_or_else(|| bounded(message.clone())))
            }
            _ => None,
        }
    }
}

/// Extracts ClickHouse's code, its name and the version from a message such as `Code: 60. DB::Exception: … (UNKNOWN_TABLE)
/// (version 25.8.2.1)`. Drops the rest, which may quote a statement.
fn clickhouse_cause(message: &str, code: Option<i32>) -> Option<String> {
    let number =
        |text: &str| text.split_once("Code: ").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    let code: i32 = code.or_else(|| number(message))?;
    let (before, version) = message.rsplit_once("(version ").unwrap_or((message, ""));
    let is_version = |first: char| first.is_ascii_digit() || first == '.';
    let version = version.split(|first: char| !is_version(first)).next().unwrap_or_default();
    let name =
        before.trim_end().strip_suffix(')').and_then(|text| text.rsplit_once('(')).map(|(_, name)| name);
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
    };
    let name = name.filter(is_name).map(|name| format!(" ({name})")).unwrap_or_default();
    let server = if version.is_empty() { "ClickHouse".to_owned() } else { format!("ClickHouse {version}") };
    Some(format!("{server} answered with code {code}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_see_code_and_version_but_no_statement() {
        let message = "status 404: Code: 60. DB::Exception: Unknown table 'secret' (x). (UNKNOWN_TABLE) (version 25.8.2.1)";
        let description = |message: &str, code| clickhouse_cause(message, code).unwrap_or_default();
        let expected = "ClickHouse 25.8.2.1 answered with code 60 (UNKNOWN_TABLE)";
        assert_eq!([description(message, Some(60)), description(message, None)], [expected, expected]);
        let official = message.replace("25.8.2.1)", "25.8.2.1 (official build))");
        assert_eq!(description(&official, None), expected);
        assert_eq!(description("(secret", Some(47)), "ClickHouse answered with code 47");
        assert_eq!(description("no code (SECRET)", None), "");
    }
}
