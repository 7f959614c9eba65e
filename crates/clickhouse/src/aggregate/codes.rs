//! Writes the values of a field as SQL. A value that no list can show is replaced by its hash.

use tracewarden_model::{LogicalType, MarkedField};

use super::values::{is_unlistable, resolve_field_values};
use crate::sql::{Statement, render, string, strings};
use crate::{Column, Result};

/// First byte of a [`code`] instead of a value that no list can show: no UTF-8 begins with it.
pub(super) const UNLISTABLE: &str = r"'\xFF'";

/// The values of a field of a span as SQL, each as its [`code`].
pub(super) enum Values {
    /// The value of a string field.
    One { value: String, defined: String },
    /// The elements of an array field.
    Many(String),
}

impl Values {
    /// The value, or at most `most` elements of an array.
    pub(super) fn of(
        field: &MarkedField,
        most: u32,
        columns: &[Column],
        statement: &mut Statement,
    ) -> Result<Self> {
        let (field, defined) = resolve_field_values(field, None, columns)?;
        let defined = render(&defined, statement);
        if field.logical != LogicalType::StringArray {
            let value = code(&format!("toString({})", string(&field, statement)));
            return Ok(Self::One { value, defined });
        }
        let text = statement.alias("text");
        let values = format!("arraySlice({}, 1, {most})", strings(&field, None, statement));
        let values = if_true(&defined, &values, "[]");
        Ok(Self::Many(format!("arrayMap({text} -> {}, {values})", code(&format!("toString({text})")))))
    }

    /// SQL: all of them as an array.
    pub(super) fn array(&self) -> String {
        match self {
            Self::One { value, defined } => if_true(defined, &format!("[{value}]"), "[]"),
            Self::Many(values) => values.clone(),
        }
    }
}

/// Writes `then` where the condition is true, and `otherwise` elsewhere.
pub(super) fn if_true(condition: &str, then: &str, otherwise: &str) -> String {
    if condition == "1" { then.to_owned() } else { format!("if({condition}, {then}, {otherwise})") }
}

/// SQL: the value, or [`UNLISTABLE`] and its hash if no list can show it. Such values are counted, but not kept: one can be as large as a
/// span, and pairs hold many copies.
pub(super) fn code(value: &str) -> String {
    format!("if({}, concat({UNLISTABLE}, hex(sipHash128({value}))), {value})", is_unlistable(value))
}
