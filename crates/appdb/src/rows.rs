//! Reads rows strictly: a missing, NULL or mistyped value is an error.

use std::collections::BTreeSet;
use std::fmt::Display;

use sqlx::any::AnyRow;
use sqlx::{Any, ColumnIndex, Decode, Row as _, Type};
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::PasswordHash;

/// A value of a column.
pub(crate) trait Column: Sized {
    /// The type that the driver reads.
    type Stored: for<'r> Decode<'r, Any> + Type<Any>;

    /// Converts the value of `column`.
    fn convert(stored: Self::Stored, column: &dyn Display) -> Result<Self, DbError>;
}

/// What one row holds.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &AnyRow) -> Result<Self, DbError>;
}

/// Returns the value of a column.
pub(crate) fn get<T: Column>(row: &AnyRow, column: impl ColumnIndex<AnyRow> + Display) -> Result<T, DbError> {
    T::convert(row.try_get(&column)?, &column)
}

/// Implements [`FromRow`] for a record. Its members have the names of their columns, or the names after `=`.
macro_rules! from_row {
    (@column $member:ident) => { stringify!($member) };
    (@column $member:ident $column:literal) => { $column };
    ($record:ident { $($member:ident $(= $column:literal)?),+ $(,)? }) => {
        impl $crate::rows::FromRow for $record {
            fn from_row(row: &sqlx::any::AnyRow) -> Result<Self, $crate::error::DbError> {
                Ok(Self {
                    $($member: $crate::rows::get(row, $crate::rows::from_row!(@column $member $($column)?))?),+
                })
            }
        }
    };
}
pub(crate) use from_row;

impl<T: Column> FromRow for T {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        get(row, 0)
    }
}

impl<A: Column, B: Column> FromRow for (A, B) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((get(row, 0)?, get(row, 1)?))
    }
}

impl<T: Column> Column for Option<T> {
    type Stored = Option<T::Stored>;

    fn convert(stored: Self::Stored, column: &dyn Display) -> Result<Self, DbError> {
        stored.map(|stored| T::convert(stored, column)).transpose()
    }
}

impl Column for String {
    type Stored = Self;

    fn convert(stored: Self, _: &dyn Display) -> Result<Self, DbError> {
        Ok(stored)
    }
}

impl Column for u64 {
    type Stored = i64;

    fn convert(stored: i64, column: &dyn Display) -> Result<Self, DbError> {
        Self::try_from(stored).map_err(|_| DbError::Corrupt(format!("`{column}` is negative")))
    }
}

impl Column for u32 {
    type Stored = i64;

    fn convert(stored: i64, column: &dyn Display) -> Result<Self, DbError> {
        Self::try_from(stored).map_err(|_| DbError::Corrupt(format!("`{column}` is out of range")))
    }
}

/// Accepts only 0 and 1: another number in `disabled` must not be read as "not disabled".
impl Column for bool {
    type Stored = i64;

    fn convert(stored: i64, column: &dyn Display) -> Result<Self, DbError> {
        match stored {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DbError::Corrupt(format!("`{column}` is {other}, neither 0 nor 1"))),
        }
    }
}

impl Column for Timestamp {
    type Stored = i64;

    fn convert(stored: i64, _: &dyn Display) -> Result<Self, DbError> {
        Ok(Self::from_micros(stored))
    }
}

impl Column for PasswordHash {
    type Stored = String;

    fn convert(stored: String, _: &dyn Display) -> Result<Self, DbError> {
        Ok(Self(stored))
    }
}

/// Names of roles, one per line; NULL if there are none. Role names consist of `a-z`, `0-9`, `.`, `_` and `-`.
impl Column for BTreeSet<String> {
    type Stored = Option<String>;

    fn convert(stored: Option<String>, _: &dyn Display) -> Result<Self, DbError> {
        Ok(stored.iter().flat_map(|names| names.split('\n')).map(str::to_owned).collect())
    }
}
