//! Paths of JSON columns without a declared type: each value has its own type.
//!
//! The type depends on more than the value (observed with 26.7). ClickHouse infers it, according to the settings of the
//! inserting client, and before that it tries the types of earlier rows of the same block. So a string that looks like a date
//! or a time may be stored as one; it would be returned in another form than it was written in, and does not count as a
//! string here. An empty array may be of any type. An array of strings may be one of values of any type, because an earlier
//! array was.

use tracewarden_model::{Decimal, LogicalType, NumberType};
use tracewarden_policy::predicate::Relation;

use super::numbers;
use crate::sql::statement::{Statement, quote};

/// Types of arrays of strings, depending on the settings of the insert and on earlier rows.
const ARRAY_TYPES: [&str; 3] = ["Array(Nullable(String))", "Array(String)", "Array(Dynamic)"];
/// Types of numbers.
const NUMBER_TYPES: [NumberType; 3] = [
    NumberType::Integer { bits: 64, signed: true },
    NumberType::Integer { bits: 64, signed: false },
    NumberType::Float { bits: 64 },
];

/// Writes the value of a path, given quoted, if it is of this type; NULL or an empty array otherwise.
pub(super) fn typed_subcolumn(path: &str, type_text: &str) -> String {
    format!("{path}.:{}", quote(type_text))
}

pub(super) fn is_defined(path: &str, logical: LogicalType, statement: &Statement) -> String {
    let is_of_type = |type_text: &str| format!("isNotNull({})", typed_subcolumn(path, type_text));
    match logical {
        LogicalType::String => is_of_type("String"),
        LogicalType::Boolean => is_of_type("Bool"),
        LogicalType::Number => {
            format!("({})", NUMBER_TYPES.map(|number| is_of_type(&number.to_string())).join(" OR "))
        }
        LogicalType::StringArray => {
            let element = statement.alias("element");
            let types = ARRAY_TYPES.map(|type_text| format!("'{type_text}'")).join(", ");
            format!(
                "(((dynamicType({path}) IN ({types})) AND NOT arrayExists({element} -> isNull({element}), {})) OR \
                 (startsWith(dynamicType({path}), 'Array(') AND (toString({path}) = '[]')))",
                elements(path, statement)
            )
        }
    }
}

/// Writes the array where it is defined; any array elsewhere.
pub(super) fn array(path: &str, statement: &Statement) -> String {
    let element = statement.alias("element");
    format!("arrayMap({element} -> assumeNotNull({element}), {})", elements(path, statement))
}

/// Writes the elements, with NULL for those that are not strings.
fn elements(path: &str, statement: &Statement) -> String {
    let element = statement.alias("element");
    let [nullable, plain, any] = ARRAY_TYPES.map(|type_text| typed_subcolumn(path, type_text));
    // All but the one with the array's type are empty.
    format!(
        "arrayConcat({nullable}, {plain}, arrayMap({element} -> dynamicElement({element}, 'String'), {any}))"
    )
}

pub(super) fn compare_number(
    path: &str,
    relation: Relation,
    wanted: &Decimal,
    statement: &mut Statement,
) -> String {
    let each = NUMBER_TYPES.map(|number_type| {
        let number = typed_subcolumn(path, &number_type.to_string());
        numbers::compare(&number, number_type, true, relation, wanted, statement)
    });
    format!("({})", each.join(" OR "))
}
