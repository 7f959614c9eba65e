//! Parameters of statements.

use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, SqlSafeStr};
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::{PasswordHash, TokenDigest};

/// A value of a parameter. The types matter for NULL, too.
#[derive(Clone)]
pub(crate) enum Value {
    Number(Option<i64>),
    Text(Option<String>),
}

/// The values of a statement's parameters, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::values::Value::from($value)),*] };
}
pub(crate) use values;

/// Implements the conversion of each type, and of its absence.
macro_rules! from {
    ($($kind:ident($from:ty): $convert:expr),+ $(,)?) => {
        $(
            impl From<$from> for Value {
                fn from(value: $from) -> Self {
                    Self::from(Some(value))
                }
            }

            impl From<Option<$from>> for Value {
                fn from(value: Option<$from>) -> Self {
                    Self::$kind(value.map($convert))
                }
            }
        )+
    };
}

from! {
    Number(i64): |number| number,
    Number(u32): i64::from,
    Number(bool): i64::from,
    Number(Timestamp): Timestamp::as_micros,
    Text(String): |text| text,
    Text(&str): str::to_owned,
    Text(&String): String::clone,
    Text(&PasswordHash): |hash| hash.0.clone(),
    Text(TokenDigest): |digest| hex::encode(digest.0),
}

/// Returns the statement with its parameters.
pub(crate) fn query<'q>(
    statement: impl SqlSafeStr,
    values: impl Into<Vec<Value>>,
) -> Query<'q, Any, AnyArguments> {
    values.into().into_iter().fold(sqlx::query(statement), |query, value| match value {
        Value::Number(number) => query.bind(number),
        Value::Text(text) => query.bind(text),
    })
}

/// Converts a number to the databases' type.
pub(crate) fn signed(value: u64) -> Result<i64, DbError> {
    i64::try_from(value).map_err(|_| DbError::Corrupt(format!("{value} does not fit a BIGINT")))
}

/// Converts the end of a range to the databases' type, in which no stored number is larger than the largest.
pub(crate) fn bound(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
