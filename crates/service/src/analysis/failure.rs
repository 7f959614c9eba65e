//! Failure of a comparison or a count.

use tracewarden_clickhouse::ClickHouseError;

use crate::core::{QueryContext, QueryLimit, ServiceError};

/// Failure of a comparison; the calling use case converts ClickHouse errors for its caller.
pub(crate) enum Failure {
    Store(ClickHouseError),
    Service(ServiceError),
}

impl Failure {
    /// Converts the failure into an error for the caller.
    pub(crate) fn into_error(self, context: &QueryContext) -> ServiceError {
        match self {
            Self::Store(error) => context.error(error),
            Self::Service(error) => error,
        }
    }

    /// Does the same if the caller has chosen the time-out.
    pub(crate) fn into_error_for_chosen_timeout(self, context: &QueryContext) -> ServiceError {
        match self {
            Self::Store(ClickHouseError::Timeout(log_cause)) => ServiceError::OverLimit {
                limit: QueryLimit::Time,
                detail:
                    "timed out before even a sample was counted: allow more `seconds`, at most 60, or narrow \
                     the window"
                        .to_owned(),
                log_cause: log_cause.into(),
            },
            other => other.into_error(context),
        }
    }
}

impl From<ClickHouseError> for Failure {
    fn from(error: ClickHouseError) -> Self {
        Self::Store(error)
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<tracewarden_appdb::DbError> for Failure {
    fn from(error: tracewarden_appdb::DbError) -> Self {
        Self::Service(error.into())
    }
}
