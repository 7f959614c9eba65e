//! Reads columns strictly: a missing, NULL or mistyped value is an error.

use sqlx::Row as _;
use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::error::DbError;

pub(crate) fn text(row: &AnyRow, column: &str) -> Result<String, DbError> {
    Ok(row.try_get::<String, _>(column)?)
}

pub(crate) fn optional_text(row: &AnyRow, column: &str) -> Result<Option<String>, DbError> {
    Ok(row.try_get::<Option<String>, _>(column)?)
}

pub(crate) fn integer(row: &AnyRow, column: &str) -> Result<i64, DbError> {
    Ok(row.try_get::<i64, _>(column)?)
}

pub(crate) fn optional_integer(row: &AnyRow, column: &str) -> Result<Option<i64>, DbError> {
    Ok(row.try_get::<Option<i64>, _>(column)?)
}

pub(crate) fn unsigned(row: &AnyRow, column: &str) -> Result<u64, DbError> {
    u64::try_from(integer(row, column)?).map_err(|_| DbError::Corrupt(format!("`{column}` is negative")))
}

/// Accepts only 0 and 1: another number in `disabled` must not be read as "not disabled".
pub(crate) fn boolean(row: &AnyRow, column: &str) -> Result<bool, DbError> {
    match integer(row, column)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DbError::Corrupt(format!("`{column}` is {other}, neither 0 nor 1"))),
    }
}

pub(crate) fn time(row: &AnyRow, column: &str) -> Result<Timestamp, DbError> {
    Ok(Timestamp::from_micros(integer(row, column)?))
}

pub(crate) fn optional_time(row: &AnyRow, column: &str) -> Result<Option<Timestamp>, DbError> {
    Ok(optional_integer(row, column)?.map(Timestamp::from_micros))
}

/// Converts a number to the databases' type.
pub(crate) fn signed(value: u64) -> Result<i64, DbError> {
    i64::try_from(value).map_err(|_| DbError::Corrupt(format!("{value} does not fit a BIGINT")))
}
