//! Errors of the use cases: a stable code and a text for the client, a cause for the log.

use std::error::Error;

use tracewarden_appdb::DbError;
use tracewarden_clickhouse::{ChangedField, ClickHouseError};
use tracewarden_model::ambient::EntropyError;
use tracewarden_policy::Diagnostic;

use crate::core::query_limit::QueryLimit;
use crate::core::retry::Retry;

/// Cause of an error, with its sources; for the log only.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Maximum length in bytes of client input that an error repeats. Names in requests can be as long as the request.
const MAX_TEXT_BYTES: usize = 2_048;
/// Number of bytes kept from the end of a truncated text: suggestions follow the name that the client sent.
const TAIL_BYTES: usize = 512;

/// Truncates a text to at most 2,048 bytes and an ellipsis; keeps the beginning and the end.
pub fn bounded(text: impl Into<String>) -> String {
    let text = text.into();
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    let head_end = text.floor_char_boundary(MAX_TEXT_BYTES - TAIL_BYTES);
    let tail_start = text.ceil_char_boundary(text.len() - TAIL_BYTES);
    let (head, _) = text.split_at(head_end);
    let (_, tail) = text.split_at(tail_start);
    format!("{head}…{tail}")
}

/// Error in one member of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON Pointer to the member.
    pub pointer: String,
    /// Stable code.
    pub code: &'static str,
    /// Message for the user.
    pub detail: String,
    /// Position in the text, for a policy.
    pub diagnostic: Option<Diagnostic>,
}

impl FieldError {
    /// Creates the error for an invalid policy text.
    pub(crate) fn policy(pointer: impl Into<String>, diagnostic: Diagnostic) -> Self {
        let detail = bounded(diagnostic.message.as_str());
        let pointer = bounded(pointer);
        Self { pointer, code: "policy_invalid", detail, diagnostic: Some(diagnostic) }
    }

    pub(crate) fn new(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self { pointer: bounded(pointer), code, detail: bounded(detail), diagnostic: None }
    }
}

/// Denial or failure of a use case. The field `log_cause` is for the log only: it may contain SQL, addresses or other users'
/// names.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A member has an invalid value.
    #[error("the request is not valid")]
    InvalidRequest(Vec<FieldError>),
    /// The cursor was made for another filter.
    #[error("the cursor belongs to another filter")]
    CursorFilterMismatch,
    /// The cursor is unreadable, or belongs to another window, caller, preview or binding.
    #[error("the cursor is not valid here")]
    InvalidCursor {
        /// Cause for the log.
        log_cause: &'static str,
    },
    /// No valid session and no valid API key.
    #[error("a valid session or API key is required")]
    Unauthenticated {
        /// Cause for the log.
        log_cause: &'static str,
    },
    /// Unknown user, wrong password or disabled user; the answer does not tell which.
    #[error("user name or password is wrong")]
    InvalidCredentials,
    /// The caller is not an administrator.
    #[error("only administrators may do this")]
    Forbidden,
    /// The key belongs to an administrator, but is scoped.
    #[error("a scoped API key cannot administer, even if its owner is an administrator")]
    ScopedKey,
    /// The API key is scoped to tools that do not include this call.
    #[error("a scoped API key can only call the tools that it permits, and this request is not one of them")]
    ToolNotPermitted,
    /// The user must change the password first.
    #[error("the password must be changed before anything else")]
    PasswordChangeRequired,
    /// The call needs a session and was made with an API key.
    #[error("this needs a session; an API key cannot do it")]
    SessionRequired,
    /// The trace is absent, or the caller may not read it; the answer does not tell which.
    #[error("no such trace")]
    TraceNotFound,
    /// Another resource is absent.
    #[error("no such {what}")]
    NotFound {
        /// Kind of the resource.
        what: &'static str,
    },
    /// A name is taken, or the state does not permit the change.
    #[error("{detail}")]
    Conflict {
        /// Message for the user.
        detail: String,
        /// Obstacles to the change.
        errors: Vec<FieldError>,
    },
    /// The change would leave no enabled administrator.
    #[error("the last enabled administrator must remain one")]
    LastAdmin,
    /// No table is bound as trace source.
    #[error("no trace source is bound")]
    NotBound,
    /// The precondition in `If-Match` does not hold.
    #[error("the resource has been changed since you read it")]
    PreconditionFailed,
    /// `If-Match` is missing.
    #[error("send `If-Match` with the version that you want to change")]
    PreconditionRequired,
    /// Too many sign-in attempts.
    #[error("too many attempts")]
    TooManyAttempts {
        /// Seconds to wait, at least 1.
        retry_after_seconds: u64,
    },
    /// This replica has reached a limit on concurrent work of one kind. Nothing was started.
    #[error("the service is busy: {what}; try again in a moment")]
    Overloaded {
        /// The work that exceeds its limit.
        what: &'static str,
    },
    /// The user has reached the limit on concurrent queries.
    #[error("you have too many queries running; wait for one to end")]
    TooManyQueries,
    /// Well-formed, but not allowed. Never empty; the code of the first member is the code of the whole error.
    #[error("the request is well-formed, but not allowed")]
    Refused(Vec<FieldError>),
    /// A stored policy of the caller's roles or key cannot be applied; the caller gets no spans.
    #[error("{detail}")]
    PolicyBroken {
        /// Reason and remedy, for the caller.
        detail: String,
        /// Role, policy and fault.
        #[source]
        log_cause: Cause,
    },
    /// Internal error of the service.
    #[error("internal error")]
    Internal {
        /// Cause for the log.
        #[source]
        log_cause: Cause,
    },
    /// ClickHouse failed.
    #[error("ClickHouse failed")]
    ClickHouse {
        /// Cause for the log.
        #[source]
        log_cause: Cause,
        /// Additional detail for administrators; contains no text of statements or spans.
        cause: Option<String>,
        /// Whether retrying cannot succeed until the configuration or the table changes.
        is_permanent: bool,
    },
    /// A field that the filter or a policy of the caller refers to has changed in the table since it was marked; the caller
    /// gets no spans.
    #[error(
        "the bound table has changed since its fields were marked; an administrator has to mark them again, with \
         `PUT /schema/fields`"
    )]
    SchemaChanged {
        /// Fields that the caller may know of, with their current definition.
        errors: Vec<FieldError>,
        /// All changed fields, for the log.
        #[source]
        log_cause: Cause,
    },
    /// ClickHouse or the application database cannot be reached.
    #[error("temporarily unavailable")]
    Unavailable {
        /// Cause for the log.
        #[source]
        log_cause: Cause,
    },
    /// The service cannot serve requests at the moment.
    #[error("{reason}")]
    NotReady {
        /// Reason for all callers.
        reason: &'static str,
        /// Cause for the log.
        #[source]
        log_cause: Cause,
        /// Seconds until the client should retry, if known.
        retry_after_seconds: Option<u64>,
    },
    /// All ClickHouse endpoints are unhealthy.
    #[error("ClickHouse is temporarily unavailable")]
    ClickHouseUnavailable {
        /// Cause for the log.
        #[source]
        log_cause: Cause,
        /// Additional detail for administrators.
        cause: Option<String>,
        /// Seconds until an endpoint is tried again, at least 1.
        retry_after_seconds: u64,
    },
    /// The connection to the application database was lost during a commit: the change was made completely, with its audit
    /// record, or not at all.
    #[error(
        "temporarily unavailable; the change may have been made or not: read the resource before you try \
         again"
    )]
    OutcomeUnknown {
        /// Cause for the log.
        #[source]
        log_cause: Cause,
    },
    /// The query exceeded a ClickHouse limit.
    #[error("{detail}")]
    OverLimit {
        /// The limit.
        limit: QueryLimit,
        /// What happened and what to do, for the user.
        detail: String,
        /// Cause for the log.
        #[source]
        log_cause: Cause,
    },
}

impl ServiceError {
    /// Creates the error for one rejected member.
    pub(crate) fn refused(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Refused(vec![FieldError::new(pointer, code, detail)])
    }

    /// Creates an internal error with its cause.
    pub fn internal(log_cause: impl Into<Cause>) -> Self {
        Self::Internal { log_cause: log_cause.into() }
    }

    pub(crate) fn unavailable(log_cause: impl Into<Cause>) -> Self {
        Self::Unavailable { log_cause: log_cause.into() }
    }

    /// Returns whether a retry can succeed, and whether it is safe.
    pub fn retry(&self) -> Retry {
        match self {
            Self::OutcomeUnknown { .. } => Retry::Unknown,
            Self::ClickHouse { is_permanent: true, .. } => Retry::Never,
            _ => Retry::from_code(self.code()),
        }
    }

    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::CursorFilterMismatch => "cursor_filter_mismatch",
            Self::InvalidCursor { .. } => "invalid_cursor",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::InvalidCredentials => "invalid_credentials",
            Self::Forbidden | Self::ScopedKey | Self::ToolNotPermitted => "forbidden",
            Self::PasswordChangeRequired => "password_change_required",
            Self::SessionRequired => "session_required",
            Self::TraceNotFound => "trace_not_found",
            Self::NotFound { .. } => "not_found",
            Self::Conflict { .. } => "conflict",
            Self::LastAdmin => "last_admin",
            Self::NotBound => "not_bound",
            Self::PreconditionFailed => "precondition_failed",
            Self::PreconditionRequired => "precondition_required",
            Self::TooManyAttempts { .. } => "too_many_attempts",
            Self::Overloaded { .. } => "overloaded",
            Self::TooManyQueries => "too_many_queries",
            Self::Refused(errors) => errors.first().map_or("invalid_value", |error| error.code),
            Self::PolicyBroken { .. } => "policy_broken",
            Self::Internal { .. } => "internal",
            Self::ClickHouse { .. } => "trace_store_error",
            Self::SchemaChanged { .. } => "schema_changed",
            Self::Unavailable { .. }
            | Self::ClickHouseUnavailable { .. }
            | Self::NotReady { .. }
            | Self::OutcomeUnknown { .. } => "unavailable",
            Self::OverLimit { limit: QueryLimit::Time, .. } => "query_timeout",
            Self::OverLimit { limit: QueryLimit::Memory, .. } => "query_memory",
            Self::OverLimit { limit: QueryLimit::Size, .. } => "query_too_large",
        }
    }

    /// Text for the client, of bounded length.
    pub fn detail(&self) -> String {
        match self {
            Self::InvalidRequest(errors) | Self::Refused(errors) => match errors.as_slice() {
                [one] => one.detail.clone(),
                _ => self.to_string(),
            },
            other => bounded(other.to_string()),
        }
    }

    /// Cause and its sources, for the log only.
    pub fn log_cause(&self) -> Option<String> {
        match self {
            Self::InvalidCursor { log_cause } | Self::Unauthenticated { log_cause } => {
                Some((*log_cause).to_owned())
            }
            other => other.source().map(error_chain),
        }
    }

    /// Cause in ClickHouse, for administrators: its error code and version, or what to change there.
    pub fn for_administrators(&self) -> Option<&str> {
        match self {
            Self::ClickHouse { cause, .. } | Self::ClickHouseUnavailable { cause, .. } => cause.as_deref(),
            _ => None,
        }
    }

    /// Errors in the input, by member.
    pub fn errors(&self) -> &[FieldError] {
        match self {
            Self::InvalidRequest(errors)
            | Self::Refused(errors)
            | Self::Conflict { errors, .. }
            | Self::SchemaChanged { errors, .. } => errors,
            _ => &[],
        }
    }

    /// Seconds until the client should retry.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::TooManyAttempts { retry_after_seconds }
            | Self::ClickHouseUnavailable { retry_after_seconds, .. } => Some(*retry_after_seconds),
            Self::NotReady { retry_after_seconds, .. } => *retry_after_seconds,
            Self::TooManyQueries | Self::Overloaded { .. } => Some(1),
            _ => None,
        }
    }
}

impl From<DbError> for ServiceError {
    fn from(error: DbError) -> Self {
        let unavailable = matches!(error, DbError::Unavailable(_));
        let unknown = matches!(error, DbError::OutcomeUnknown(_));
        let log_cause = Cause::from(error);
        match (unavailable, unknown) {
            (true, _) => Self::Unavailable { log_cause },
            (_, true) => Self::OutcomeUnknown { log_cause },
            _ => Self::Internal { log_cause },
        }
    }
}

impl From<EntropyError> for ServiceError {
    fn from(error: EntropyError) -> Self {
        Self::internal(error)
    }
}

impl From<ClickHouseError> for ServiceError {
    fn from(error: ClickHouseError) -> Self {
        Self::from_store(error, false)
    }
}

impl ServiceError {
    /// Converts a ClickHouse error. `knows_policy_fields` says whether the caller may learn of fields that are policy inputs
    /// only.
    pub(crate) fn from_store(error: ClickHouseError, knows_policy_fields: bool) -> Self {
        let over = |limit: QueryLimit, log_cause| Self::OverLimit {
            limit,
            detail: limit.message().to_owned(),
            log_cause,
        };
        match &error {
            ClickHouseError::FieldsChanged(changed) => {
                let known = changed.iter().filter(|changed| changed.field.filterable || knows_policy_fields);
                let description = |changed: &ChangedField| {
                    let detail = format!("mark `{}` again: it is now {}", changed.field.field, changed.now);
                    FieldError::new("", "schema_changed", detail)
                };
                Self::SchemaChanged { errors: known.map(description).collect(), log_cause: error.into() }
            }
            ClickHouseError::Unavailable { message, retry_after_seconds } => {
                // Any other message describes the connection and contains no part of a statement.
                let cause = clickhouse_cause(message, None).unwrap_or_else(|| bounded(message.clone()));
                let (cause, retry_after_seconds) = (Some(cause), *retry_after_seconds);
                Self::ClickHouseUnavailable { log_cause: error.into(), cause, retry_after_seconds }
            }
            ClickHouseError::Timeout(_) => over(QueryLimit::Time, error.into()),
            ClickHouseError::Memory(_) => over(QueryLimit::Memory, error.into()),
            ClickHouseError::TooLarge(_) => over(QueryLimit::Size, error.into()),
            ClickHouseError::Exception { code, message } => {
                let (cause, is_permanent) = (clickhouse_cause(message, *code), error.is_permanent());
                Self::ClickHouse { log_cause: error.into(), cause, is_permanent }
            }
            ClickHouseError::Unusable(reason) | ClickHouseError::TableChanged(reason) => {
                let cause = Some(reason.clone());
                Self::ClickHouse { log_cause: error.into(), cause, is_permanent: true }
            }
            ClickHouseError::IncompleteResponse(_) => {
                Self::ClickHouse { log_cause: error.into(), cause: None, is_permanent: false }
            }
            ClickHouseError::Internal(_) => Self::Internal { log_cause: error.into() },
            ClickHouseError::UnknownColumn { name, nearest } => {
                Self::refused("/columns", "unknown_field", unknown("column", name, nearest))
            }
        }
    }
}

/// Formats an error with all its sources. Skips a source that the text already ends with.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        next = error.source();
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
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

/// Formats "no column `x`; did you mean `y`?".
pub(crate) fn unknown(what: &str, name: &str, nearest: &[String]) -> String {
    if nearest.is_empty() {
        return format!("no {what} `{name}`");
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("no {what} `{name}`; did you mean {}?", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the statement failed")]
    struct Outer(#[source] io::Error);

    #[test]
    fn the_log_contains_each_cause() {
        let cause = Outer(io::Error::other("connection reset by peer"));
        let error = ServiceError::unavailable(cause);
        assert_eq!(error.log_cause().unwrap(), "the statement failed: connection reset by peer");
        assert!(!error.detail().contains("reset"), "{}", error.detail());
        assert!(error.source().and_then(Error::source).is_some_and(|cause| cause.is::<io::Error>()));
        let lost = ServiceError::from(DbError::Unavailable("no such file".to_owned()));
        assert_eq!(lost.log_cause().unwrap(), "application database unavailable: no such file");
        assert!(lost.source().is_some_and(|cause| cause.is::<DbError>()));
    }

    #[test]
    fn only_a_lost_commit_has_an_unknown_outcome() {
        let unknown = ServiceError::from(DbError::OutcomeUnknown(String::new()));
        assert_eq!((unknown.code(), unknown.retry()), ("unavailable", Retry::Unknown));
        let unavailable_error = ServiceError::from(DbError::Unavailable(String::new()));
        assert_eq!((unavailable_error.code(), unavailable_error.retry()), ("unavailable", Retry::Safe));
        let busy = ServiceError::Overloaded { what: "log-ins" };
        assert_eq!(
            (busy.code(), busy.retry(), busy.retry_after_seconds()),
            ("overloaded", Retry::Safe, Some(1))
        );
        assert_eq!(ServiceError::InvalidCredentials.retry(), Retry::Never);
        assert_eq!(ServiceError::TooManyAttempts { retry_after_seconds: 9 }.retry(), Retry::Safe);
    }

    #[test]
    fn long_texts_are_truncated_at_a_character_and_keep_their_end() {
        let short = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(bounded(short.as_str()), short);
        for length in 0..4 {
            let name = "🦀".repeat(300_000) + &"y".repeat(length);
            let error = FieldError::new(
                format!("/{name}"),
                "unknown_field",
                unknown("field", &name, &["Name".to_owned()]),
            );
            for text in [&error.pointer, &error.detail] {
                assert!(
                    text.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && text.contains('…'),
                    "{}",
                    text.len()
                );
            }
            assert!(error.detail.ends_with("`; did you mean `Name`?"), "{}", error.detail);
        }
        let conflict = ServiceError::Conflict { detail: "x".repeat(1 << 20), errors: Vec::new() };
        assert!(conflict.detail().len() < 3_000);
    }

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
