//! Paths of JSON columns that have no declared type: each value there has a type of its own.
//!
//! Which one depends on more than the value, seen with 26.7. The store infers it, by settings of whoever inserts, and
//! before that it tries the types that rows before it in the same block had. So a string that looks like a date or a
//! time may be stored as one; it would come back in another form than it was written in, and is no string here. An
//! empty array may be of any type. An array of strings may be one of values of any type, because an array before it was.

use tracewarden_model::{ColumnType, Decimal, LogicalType};
use tracewarden_policy::predicate::Relation;

use super::numbers;
use crate::sql::{Statement, quote};

/// The types that arrays of strings have, by the settings with which they came in and by what was there before.
const ARRAYS: [&str; 3] = ["Array(Nullable(String))", "Array(String)", "Array(Dynamic)"];
/// The types that numbers have.
const NUMBERS: [&str; 3] = ["Int64", "UInt64", "Float64"];

/// What a path, given quoted, holds if it is of this type, else NULL, or an empty array.
pub(super) fn of_type(path: &str, type_text: &str) -> String {
    format!("{path}.:{}", quote(type_text))
}

pub(super) fn defined(path: &str, logical: LogicalType, statement: &Statement) -> String {
    match logical {
        LogicalType::String => format!("isNotNull({})", of_type(path, "String")),
        LogicalType::Boolean => format!("isNotNull({})", of_type(path, "Bool")),
        LogicalType::Number => {
            let numbers = NUMBERS.map(|type_text| format!("isNotNull({})", of_type(path, type_text)));
            format!("({})", numbers.join(" OR "))
        }
        LogicalType::StringArray => {
            let element = statement.own("element");
            let types = ARRAYS.map(|type_text| format!("'{type_text}'")).join(", ");
            format!(
                "(((dynamicType({path}) IN ({types})) AND NOT arrayExists({element} -> isNull({element}), {})) OR \
                 (startsWith(dynamicType({path}), 'Array(') AND (toString({path}) = '[]')))",
                elements(path, statement)
            )
        }
    }
}

/// The array where it is defined; some array elsewhere.
pub(super) fn array(path: &str, statement: &Statement) -> String {
    let element = statement.own("element");
    format!("arrayMap({element} -> assumeNotNull({element}), {})", elements(path, statement))
}

/// The elements, NULL for those that are no strings.
fn elements(path: &str, statement: &Statement) -> String {
    let element = statement.own("element");
    let [nullable, plain, any] = ARRAYS.map(|type_text| of_type(path, type_text));
    // All but the one that it is are empty.
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
    let each = NUMBERS.map(|type_text| {
        let number = of_type(path, type_text);
        numbers::compare_nullable(&number, &ColumnType::parse(type_text), relation, wanted, statement)
    });
    format!("({})", each.join(" OR "))
}
