//! Errors of the use cases: a stable code and a text for the client, a cause for the log.

use std::error::Error;
use std::sync::Arc;

use tracewarden_appdb::DbError;
use tracewarden_clickhouse::ClickHouseError;
use tracewarden_identity::ProviderError;
use tracewarden_model::ambient::EntropyError;

use crate::core::field_error::{FieldError, bounded};
use crate::core::retry::Retry;
use crate::core::tools::Tool;

pub(crate) type Result<T, E = ServiceError> = std::result::Result<T, E>;

/// Cause of an error, with its sources; for the log only.
pub type Cause = Box<dyn Error + Send + Sync>;

/// ClickHouse limits that a query can exceed. `Display` says which, without advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
pub enum QueryLimit {
    /// Run time.
    #[error("the query took too long and was stopped")]
    #[strum(serialize = "query_timeout")]
    Time,
    /// Memory in ClickHouse, of the query alone or together with others.
    #[error("the query needed more memory in ClickHouse than it may use")]
    #[strum(serialize = "query_memory")]
    Memory,
    /// Amount of data read, by ClickHouse's own settings.
    #[error("the query would read more than ClickHouse allows")]
    #[strum(serialize = "query_too_large")]
    Size,
}

/// Why a text cannot be decrypted.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    #[error("not base64url")]
    Encoding(#[from] base64::DecodeError),
    #[error("too short")]
    TooShort,
    #[error("not encrypted with the key of this service")]
    OtherKey,
}

/// Reason why a cursor is rejected.
#[derive(Debug, thiserror::Error)]
pub enum CursorFault {
    #[error("too long")]
    TooLong,
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    #[error("of another version")]
    OtherVersion,
    #[error("made for another order, caller, preview, key policy or binding")]
    OtherQuery,
    #[error("made for another window")]
    OtherWindow,
    #[error("not a cursor of {0}")]
    OtherList(&'static str),
}

/// Reason why a credential is rejected.
#[derive(Debug, thiserror::Error)]
pub enum CredentialFault {
    #[error("not in the format of an API key")]
    KeyFormat,
    #[error("no such key")]
    NoKey,
    #[error("the key has expired")]
    KeyExpired,
    #[error("no such session")]
    NoSession,
    #[error("the session has expired")]
    SessionExpired,
    #[error("the user is disabled")]
    UserDisabled,
    #[error("the user has been deleted")]
    UserDeleted,
    #[error("the identity provider has not confirmed the user's claims for too long")]
    IdentityLapsed,
    #[error("the owner of the service account does not have the role that the account requires")]
    OwnerRole,
    #[error("the access token is not valid for this resource")]
    Token,
    #[error("the access token has expired, or is older than `identity_max_age`")]
    TokenExpired,
    #[error("the identity provider has ended the person's access since it issued the access token")]
    TokenRevoked,
}

/// Why a person whom an identity provider has authenticated is not signed in, or a user with a password. `Display` is for the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SignInRefusal {
    /// The provider answered with an error, or without a code.
    #[error("the identity provider did not sign you in; try again, or ask its administrators")]
    Provider,
    /// No mapping gives a role.
    #[error(
        "you have no role here; ask an administrator of this service to map one of your groups to a role"
    )]
    NoRole,
    /// The user is disabled.
    #[error("your account here is disabled; ask an administrator of this service")]
    Disabled,
    /// Another account has the name.
    #[error(
        "an account with your user name exists here and is not yours; ask an administrator of this service"
    )]
    NameTaken,
    /// The provider gives no user name, or one that cannot be used.
    #[error(
        "the identity provider gives no user name that can be used here; ask an administrator of this service"
    )]
    NameInvalid,
    /// Passwords are not accepted from this user.
    #[error("sign-in with a password is turned off here; sign in with an identity provider")]
    Password,
}

/// Why the service cannot serve requests. `Display` gives the reason for all callers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct NotReady {
    pub(crate) reason: &'static str,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
    /// Seconds until a ClickHouse endpoint is tried again, if known.
    pub(crate) retry_after_seconds: Option<u64>,
}

impl NotReady {
    pub(crate) fn new(reason: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        Self { reason, source: Arc::new(source), retry_after_seconds: None }
    }
}

/// What failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Failed {
    what: String,
    source: Cause,
}

/// Denial or failure of a use case. The sources are for the log only: they may contain SQL, addresses or other users' names.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ServiceError {
    /// A member has an invalid value.
    #[error("the request is not valid")]
    InvalidRequest(Vec<FieldError>),
    /// The cursor was made for another filter.
    #[error("the cursor belongs to another filter")]
    CursorFilterMismatch,
    /// The cursor is unreadable, or belongs to another window, caller, preview or binding.
    #[error("the cursor is not valid here")]
    InvalidCursor(#[from] CursorFault),
    /// No valid session and no valid API key.
    #[error("a valid session or API key is required")]
    Unauthenticated(#[from] CredentialFault),
    /// Unknown user, wrong password or disabled user; the answer does not tell which.
    #[error("user name or password is wrong")]
    InvalidCredentials,
    /// The sign-in did not begin in this browser, took too long, or was completed before; or a break-glass link is not valid.
    #[error(
        "this sign-in took longer than ten minutes, was completed before, or did not begin in this browser; begin again"
    )]
    SignInExpired,
    /// The person is known, but is not signed in.
    #[error("{0}")]
    SignInRefused(#[from] SignInRefusal),
    /// An identity provider failed, or sent what cannot be accepted.
    #[error("{0}")]
    IdentityProvider(#[from] ProviderError),
    /// The caller is not an administrator.
    #[error("only administrators may do this")]
    Forbidden,
    /// The key belongs to an administrator, but is scoped.
    #[error("a scoped API key or an access token cannot administer, even for an administrator")]
    #[strum(serialize = "forbidden")]
    ScopedKey,
    /// The API key is scoped to tools that do not include this call.
    #[error(
        "a scoped API key or an access token can only call the tools that it permits, and this request is none of them"
    )]
    #[strum(serialize = "forbidden")]
    ToolNotPermitted,
    /// The scopes of the access token do not permit the call.
    #[error("the scopes of the access token do not permit this; needed: {}", needed.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(" "))]
    InsufficientScope {
        /// The tools whose names are needed as scopes, with those that the token has.
        needed: Vec<Tool>,
    },
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
        /// The policy and its fault.
        source: Cause,
    },
    /// Internal error of the service.
    #[error("internal error")]
    Internal(#[source] Cause),
    /// ClickHouse failed.
    #[error("ClickHouse failed")]
    #[strum(serialize = "clickhouse_error")]
    ClickHouse(#[source] ClickHouseError),
    /// A field that the filter or a policy of the caller refers to has changed in the table since it was marked; the caller
    /// gets no spans.
    #[error(
        "the bound table has changed since its fields were marked; an administrator has to mark them again, with \
         `PUT /schema/fields`"
    )]
    SchemaChanged {
        /// Fields that the caller may know of, with their current definition.
        errors: Vec<FieldError>,
        /// All changed fields.
        source: ClickHouseError,
    },
    /// ClickHouse or the application database cannot be reached.
    #[error("temporarily unavailable")]
    Unavailable(#[source] Cause),
    /// The service cannot serve requests at the moment.
    #[error(transparent)]
    #[strum(serialize = "unavailable")]
    NotReady(#[from] NotReady),
    /// All ClickHouse endpoints are unhealthy.
    #[error("ClickHouse is temporarily unavailable")]
    #[strum(serialize = "unavailable")]
    ClickHouseUnavailable(#[source] ClickHouseError),
    /// The connection to the application database was lost during a commit: the change was made completely, with its audit
    /// record, or not at all.
    #[error(
        "temporarily unavailable; the change may have been made or not: read the resource before you try \
         again"
    )]
    #[strum(serialize = "unavailable")]
    OutcomeUnknown(#[source] DbError),
    /// The query exceeded a ClickHouse limit.
    #[error("{detail}")]
    OverLimit {
        /// The limit.
        limit: QueryLimit,
        /// What happened and what to do, for the user.
        detail: String,
        /// Cause.
        source: ClickHouseError,
    },
}

impl ServiceError {
    /// Creates the error for one rejected member.
    pub(crate) fn refused(pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Refused(vec![FieldError::new(pointer, code, detail)])
    }

    /// Creates the error for one invalid member.
    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::refused(pointer, "invalid_value", detail)
    }

    /// Creates the error for a state that does not permit the change.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::Conflict { detail: detail.into(), errors: Vec::new() }
    }

    /// Creates an internal error with its cause.
    pub fn internal(source: impl Into<Cause>) -> Self {
        Self::Internal(source.into())
    }

    /// Creates an internal error that also names what failed.
    pub(crate) fn failed(what: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self::internal(Failed { what: what.into(), source: source.into() })
    }

    /// Returns the error with changed pointers, for an error about a part of a larger document.
    pub(crate) fn map_pointers(mut self, change: impl Fn(&mut String)) -> Self {
        if let Self::Refused(errors) | Self::Conflict { errors, .. } = &mut self {
            errors.iter_mut().for_each(|error| change(&mut error.pointer));
        }
        self
    }

    pub(crate) fn unavailable(source: impl Into<Cause>) -> Self {
        Self::Unavailable(source.into())
    }

    /// Returns whether a retry can succeed, and whether it is safe.
    pub fn retry(&self) -> Retry {
        match self {
            Self::OutcomeUnknown { .. } => Retry::Unknown,
            Self::ClickHouse(source) if source.is_permanent() => Retry::Never,
            _ => Retry::from_code(self.code()),
        }
    }

    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(errors) => errors.first().map_or("invalid_value", |error| error.code),
            Self::OverLimit { limit, .. } => limit.into(),
            other => other.into(),
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
        self.source().map(error_chain)
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
            | Self::ClickHouseUnavailable(ClickHouseError::Unavailable { retry_after_seconds, .. }) => {
                Some(*retry_after_seconds)
            }
            Self::NotReady(NotReady { retry_after_seconds, .. }) => *retry_after_seconds,
            Self::TooManyQueries | Self::Overloaded { .. } => Some(1),
            _ => None,
        }
    }
}

impl From<DbError> for ServiceError {
    fn from(source: DbError) -> Self {
        match source {
            DbError::Unavailable(_) => Self::unavailable(source),
            DbError::OutcomeUnknown(_) => Self::OutcomeUnknown(source),
            _ => Self::internal(source),
        }
    }
}

impl From<EntropyError> for ServiceError {
    fn from(error: EntropyError) -> Self {
        Self::internal(error)
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
    fn the_detail_of_an_error_is_bounded() {
        let conflict = ServiceError::Conflict { detail: "x".repeat(1 << 20), errors: Vec::new() };
        assert!(conflict.detail().len() < 3_000);
    }
}
