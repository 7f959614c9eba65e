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

/// Implements [`FromRow`] for a record. Its members have the names of their columns, or the names after `=`; members
/// after `;` have no column, but a value.
macro_rules! from_row {
    (@column $member:ident) => { stringify!($member) };
    (@column $member:ident $column:literal) => { $column };
    ($record:ident: $($member:ident $(= $column:literal)?),+ $(; $other:ident: $value:expr)?) => {
        impl $crate::rows::FromRow for $record {
            fn from_row(row: &sqlx::any::AnyRow) -> Result<Self, $crate::error::DbError> {
                Ok(Self {
                    $($member: $crate::rows::get(row, $crate::rows::from_row!(@column $member $($column)?))?,)+
                    $($other: $value,)?
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

impl<A: Column, B: Column, C: Column> FromRow for (A, B, C) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))
    }
}

impl<T: Column> Column for Option<T> {
    type Stored = Option<T::Stored>;

    fn convert(stored: Self::Stored, column: &dyn Display) -> Result<Self, DbError> {
        stored.map(|stored| T::convert(stored, column)).transpose()
    }
}

/// Implements [`Column`]: the type, how it is stored, and the conversion of a value, to which the column's name is known.
macro_rules! columns {
    ($($(#[$doc:meta])* $type:ty = $stored:ty: |$value:pat_param, $column:pat_param| $convert:expr;)+) => {
        $(
            $(#[$doc])*
            impl $crate::rows::Column for $type {
                type Stored = $stored;

                fn convert($value: $stored, $column: &dyn std::fmt::Display) -> Result<Self, $crate::error::DbError> {
                    $convert
                }
            }
        )+
    };
}
pub(crate) use columns;

columns! {
    String = String: |text, _| Ok(text);
    i64 = i64: |number, _| Ok(number);
    u64 = i64: |number, column| {
        Self::try_from(number).map_err(|_| DbError::Corrupt(format!("`{column}` is negative")))
    };
    u32 = i64: |number, column| {
        Self::try_from(number).map_err(|_| DbError::Corrupt(format!("`{column}` is out of range")))
    };
    /// Accepts only 0 and 1: another number in `disabled` must not be read as "not disabled".
    bool = i64: |number, column| match number {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DbError::Corrupt(format!("`{column}` is {other}, neither 0 nor 1"))),
    };
    Timestamp = i64: |micros, _| Ok(Self::from_micros(micros));
    PasswordHash = String: |text, _| Ok(Self(text));
    /// Names of roles, one per line; NULL if there are none. Role names consist of `a-z`, `0-9`, `.`, `_` and `-`.
    BTreeSet<String> = Option<String>: |names, _| {
        Ok(names.iter().flat_map(|names| names.split('\n')).map(str::to_owned).collect())
    };
}
