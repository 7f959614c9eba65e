//! Everything that a use case can refuse or fail with: a stable code and a text for the client, a cause for the log.

use tracewarden_appdb::DbError;
use tracewarden_model::ambient::EntropyError;
use tracewarden_policy::Diagnostic;
use tracewarden_tracestore::{ChangedField, StoreError};

use crate::query_limit::QueryLimit;

/// What is wrong with one member of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON Pointer to the member.
    pub pointer: String,
    /// Stable kind.
    pub code: &'static str,
    /// For people.
    pub detail: String,
    /// For a policy, the place in its text.
    pub diagnostic: Option<Diagnostic>,
}

impl FieldError {
    /// A fault of a policy's text.
    pub(crate) fn policy(pointer: impl Into<String>, diagnostic: Diagnostic) -> Self {
        let detail = diagnostic.message.clone();
        Self { pointer: pointer.into(), code: "policy_invalid", detail, diagnostic: Some(diagnostic) }
    }

    pub(crate) fn new(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code, detail: detail.into(), diagnostic: None }
    }
}

/// A refusal or failure. What is called `inside` is for the log only: it may hold SQL, addresses, other users' names.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A member has a value that makes no sense.
    #[error("the request is not valid")]
    InvalidRequest(Vec<FieldError>),
    /// The cursor was made for another filter.
    #[error("the cursor belongs to another filter")]
    CursorFilterMismatch,
    /// The cursor is unreadable, or of another window, caller, preview or binding.
    #[error("the cursor is not valid here")]
    InvalidCursor {
        /// Cause for the log.
        inside: &'static str,
    },
    /// No valid session and no valid key.
    #[error("a valid session or API key is required")]
    Unauthenticated {
        /// Cause for the log.
        inside: &'static str,
    },
    /// Unknown user, wrong password or disabled user: one answer for all.
    #[error("user name or password is wrong")]
    InvalidCredentials,
    /// Not an administrator.
    #[error("only administrators may do this")]
    Forbidden,
    /// An administrator's key, but a narrowed one.
    #[error("a narrowed API key never administers, whoever owns it")]
    NarrowedKey,
    /// A narrowed key, of which this is none of the tools.
    #[error("this API key is narrowed to reading traces with certain tools, and this is none of them")]
    OutsideTools,
    /// The password must be changed first.
    #[error("the password must be changed before anything else")]
    PasswordChangeRequired,
    /// Not with an API key.
    #[error("this needs a session; an API key cannot do it")]
    SessionRequired,
    /// Absent or not authorised: nobody can tell which.
    #[error("no such trace")]
    TraceNotFound,
    /// Any other resource that is absent.
    #[error("no such {what}")]
    NotFound {
        /// What it would have been.
        what: &'static str,
    },
    /// A name is taken, or the state does not permit the change.
    #[error("{detail}")]
    Conflict {
        /// For people.
        detail: String,
        /// What stands in the way.
        errors: Vec<FieldError>,
    },
    /// The change would leave no enabled administrator.
    #[error("the last enabled administrator must remain one")]
    LastAdmin,
    /// No trace source.
    #[error("no trace source is bound")]
    NotBound,
    /// `If-Match` does not hold.
    #[error("it has been changed since you read it")]
    PreconditionFailed,
    /// `If-Match` is missing.
    #[error("say with `If-Match` which version you mean to change")]
    PreconditionRequired,
    /// Too many log-ins.
    #[error("too many attempts")]
    TooManyAttempts {
        /// Seconds to wait, at least 1.
        retry_after_seconds: u64,
    },
    /// As many log-ins are under way as this replica works on at a time.
    #[error("too many log-ins are under way; try again in a moment")]
    TooManyLogIns,
    /// The user's queries that run already are as many as one user may run at a time.
    #[error("too many queries of yours are running; wait for one to end")]
    TooManyQueries,
    /// Well-formed, but not allowed. Never empty; the first one's code is the code of the whole.
    #[error("the request is well-formed, but not allowed")]
    Refused(Vec<FieldError>),
    /// A stored policy of the caller's roles or key cannot be applied: no spans at all.
    #[error("{detail}")]
    PolicyBroken {
        /// Why, and what helps, for the caller.
        detail: String,
        /// Role, policy and what is wrong.
        inside: String,
    },
    /// A fault of ours.
    #[error("internal error")]
    Internal {
        /// Cause for the log.
        inside: String,
    },
    /// The trace store failed.
    #[error("the trace store failed")]
    TraceStore {
        /// Cause for the log.
        inside: String,
    },
    /// What a policy of the caller or the filter looks at is no longer what it was when it was marked: no spans at all.
    #[error(
        "the bound table has changed since its fields were marked; an administrator has to mark them again, with \
         `PUT /schema/fields`"
    )]
    SchemaChanged {
        /// Fields that the caller may know of, with what they are made of now.
        errors: Vec<FieldError>,
        /// All of them, for the log.
        inside: String,
    },
    /// The trace store or the own database cannot be reached.
    #[error("temporarily unavailable")]
    Unavailable {
        /// Cause for the log.
        inside: String,
    },
    /// No endpoint of the trace store can be asked.
    #[error("the trace store is temporarily unavailable")]
    TraceStoreAway {
        /// Cause for the log.
        inside: String,
        /// Seconds until one is tried again, at least 1.
        retry_after_seconds: u64,
    },
    /// The own database was lost while it was told to keep a change: it holds in full, with its record, or not at all.
    #[error(
        "temporarily unavailable, and it is not known whether the change was made; read it before trying again"
    )]
    OutcomeUnknown {
        /// Cause for the log.
        inside: String,
    },
    /// The query ran into a limit of the trace store.
    #[error("{detail}")]
    OverLimit {
        /// Which.
        limit: QueryLimit,
        /// What happened and what to do, for people.
        detail: String,
        /// Cause for the log.
        inside: String,
    },
}

impl ServiceError {
    /// One refused member.
    pub(crate) fn refused(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Refused(vec![FieldError::new(pointer, code, detail)])
    }

    pub(crate) fn internal(inside: impl Into<String>) -> Self {
        Self::Internal { inside: inside.into() }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::CursorFilterMismatch => "cursor_filter_mismatch",
            Self::InvalidCursor { .. } => "invalid_cursor",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::InvalidCredentials => "invalid_credentials",
            Self::Forbidden | Self::NarrowedKey | Self::OutsideTools => "forbidden",
            Self::PasswordChangeRequired => "password_change_required",
            Self::SessionRequired => "session_required",
            Self::TraceNotFound => "trace_not_found",
            Self::NotFound { .. } => "not_found",
            Self::Conflict { .. } => "conflict",
            Self::LastAdmin => "last_admin",
            Self::NotBound => "not_bound",
            Self::PreconditionFailed => "precondition_failed",
            Self::PreconditionRequired => "precondition_required",
            Self::TooManyAttempts { .. } | Self::TooManyLogIns => "too_many_attempts",
            Self::TooManyQueries => "too_many_queries",
            Self::Refused(errors) => errors.first().map_or("invalid_value", |error| error.code),
            Self::PolicyBroken { .. } => "policy_broken",
            Self::Internal { .. } => "internal",
            Self::TraceStore { .. } => "trace_store_error",
            Self::SchemaChanged { .. } => "schema_changed",
            Self::Unavailable { .. } | Self::TraceStoreAway { .. } | Self::OutcomeUnknown { .. } => {
                "unavailable"
            }
            Self::OverLimit { limit: QueryLimit::Time, .. } => "query_timeout",
            Self::OverLimit { limit: QueryLimit::Memory, .. } => "query_memory",
            Self::OverLimit { limit: QueryLimit::Size, .. } => "query_too_large",
        }
    }

    /// A text that may leave the service.
    pub fn detail(&self) -> String {
        match self {
            Self::InvalidRequest(errors) | Self::Refused(errors) => match errors.as_slice() {
                [one] => one.detail.clone(),
                _ => self.to_string(),
            },
            other => other.to_string(),
        }
    }

    /// The cause, for the log alone.
    pub fn inside(&self) -> Option<&str> {
        match self {
            Self::InvalidCursor { inside } | Self::Unauthenticated { inside } => Some(inside),
            Self::PolicyBroken { inside, .. }
            | Self::Internal { inside }
            | Self::TraceStore { inside }
            | Self::SchemaChanged { inside, .. }
            | Self::Unavailable { inside }
            | Self::TraceStoreAway { inside, .. }
            | Self::OutcomeUnknown { inside }
            | Self::OverLimit { inside, .. } => Some(inside),
            _ => None,
        }
    }

    /// What is wrong with the input, member by member.
    pub fn errors(&self) -> &[FieldError] {
        match self {
            Self::InvalidRequest(errors)
            | Self::Refused(errors)
            | Self::Conflict { errors, .. }
            | Self::SchemaChanged { errors, .. } => errors,
            _ => &[],
        }
    }

    /// Seconds after which to try again.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::TooManyAttempts { retry_after_seconds }
            | Self::TraceStoreAway { retry_after_seconds, .. } => Some(*retry_after_seconds),
            Self::TooManyQueries | Self::TooManyLogIns => Some(1),
            _ => None,
        }
    }
}

impl From<DbError> for ServiceError {
    fn from(error: DbError) -> Self {
        let inside = error.to_string();
        match error {
            DbError::Unavailable(_) => Self::Unavailable { inside },
            DbError::OutcomeUnknown(_) => Self::OutcomeUnknown { inside },
            _ => Self::Internal { inside },
        }
    }
}

impl From<EntropyError> for ServiceError {
    fn from(error: EntropyError) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        Self::of_store(error, false)
    }
}

impl ServiceError {
    /// From a failure of the trace store. `knows_policy_fields` says whether the caller may learn that a field that is
    /// only a policy input exists.
    pub(crate) fn of_store(error: StoreError, knows_policy_fields: bool) -> Self {
        let inside = error.to_string();
        let over = |limit: QueryLimit, inside| Self::OverLimit {
            limit,
            detail: limit.what_happened().to_owned(),
            inside,
        };
        match error {
            StoreError::FieldsChanged(changed) => {
                let known = changed.iter().filter(|changed| changed.field.filterable || knows_policy_fields);
                let told = |changed: &ChangedField| {
                    let detail = format!("mark `{}` again: it is {}", changed.field.field, changed.now);
                    FieldError::new("", "schema_changed", detail)
                };
                Self::SchemaChanged { errors: known.map(told).collect(), inside }
            }
            StoreError::Unavailable { retry_after_seconds, .. } => {
                Self::TraceStoreAway { inside, retry_after_seconds }
            }
            StoreError::Timeout(inside) => over(QueryLimit::Time, inside),
            StoreError::Memory(inside) => over(QueryLimit::Memory, inside),
            StoreError::TooLarge(inside) => over(QueryLimit::Size, inside),
            StoreError::Store { code, message } => {
                Self::TraceStore { inside: format!("code {code:?}: {message}") }
            }
            StoreError::Short(inside) => Self::TraceStore { inside },
            StoreError::Internal(inside) => Self::Internal { inside },
            StoreError::UnknownColumn { name, nearest } => {
                Self::refused("/columns", "unknown_field", unknown("column", &name, &nearest))
            }
        }
    }
}

/// "no column `x`; did you mean `y`?"
pub(crate) fn unknown(what: &str, name: &str, nearest: &[String]) -> String {
    if nearest.is_empty() {
        return format!("no {what} `{name}`");
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("no {what} `{name}`; did you mean {}?", names.join(" or "))
}
