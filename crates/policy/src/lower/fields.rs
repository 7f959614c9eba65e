//! Marked fields: where each has a value of its logical type, and what it is there.

use std::sync::Arc;

use tracewarden_model::{ColumnType, FieldSource, LogicalType, MarkedField};

use crate::lower::Lowered;
use crate::lower::rules::Rules;
use crate::predicate::{Array, Atom, Predicate, Text};

/// The value of a field, defined where it has one of its logical type.
pub(crate) fn field_value(rules: &Rules, field: &Arc<MarkedField>) -> Lowered {
    let defined = (rules.field_defined)(field);
    let field = Arc::clone(field);
    match field.logical {
        LogicalType::String => Lowered::Text { defined, text: Text::Field(field) },
        LogicalType::StringArray => Lowered::Array { defined, array: Array::Field(field) },
        LogicalType::Boolean => {
            Lowered::from((rules.boolean_field)(defined, Predicate::atom(Atom::Flag(field))))
        }
        // The checker refuses numbers; nothing may follow from one that slipped through.
        LogicalType::Number => Lowered::Error,
    }
}

/// Where a field has a value of its logical type: everywhere for a column that is not nullable.
pub(crate) fn defined(field: &Arc<MarkedField>) -> Predicate {
    if always_present(field) && !may_hold_null(field) {
        Predicate::True
    } else {
        Predicate::atom(Atom::Defined(Arc::clone(field)))
    }
}

/// Where a field is present, whatever its value: a key of a map is where the map has it, be it with NULL. Of a column and of
/// a path, NULL is absence.
pub(crate) fn present(field: &Arc<MarkedField>) -> Predicate {
    if always_present(field) { Predicate::True } else { Predicate::atom(Atom::Present(Arc::clone(field))) }
}

/// Whether every row has a value: a path of a JSON column has one only where it has a declared type that is not
/// nullable.
fn always_present(field: &MarkedField) -> bool {
    field.source != FieldSource::MapKey && !field.column_type.is_nullable()
}

/// Whether a predicate that was made of `made_of` means the same of `now`, the same field of a table whose columns have
/// changed since: where it takes the value to be there without asking, the value has to be there.
pub fn can_stand_in(now: &MarkedField, made_of: &MarkedField) -> bool {
    let taken_for_granted =
        |field: &MarkedField| (always_present(field), always_present(field) && !may_hold_null(field));
    let (present, defined) = taken_for_granted(made_of);
    let (present_now, defined_now) = taken_for_granted(now);
    let (untyped, untyped_now) =
        (made_of.column_type == ColumnType::Dynamic, now.column_type == ColumnType::Dynamic);
    now.source == made_of.source
        && now.logical == made_of.logical
        && (present_now || !present)
        && (defined_now || !defined)
        // A path that gets a declared type has a value of it in every document, whatever was there: what was an error,
        // and opened nothing, would be a string that a negation is true of.
        && (now.source != FieldSource::JsonPath || (present_now == present && untyped_now == untyped))
}

/// Whether the value may be an array with a NULL among its elements, which is no array of strings.
fn may_hold_null(field: &MarkedField) -> bool {
    matches!(field.column_type.bare(), ColumnType::Array(element) if element.is_nullable())
}

#[cfg(test)]
mod tests {
    use tracewarden_model::FieldRef;

    use super::*;

    fn field(source: FieldSource, logical: LogicalType, column_type: &str) -> MarkedField {
        let column_type = ColumnType::parse(column_type);
        let field = FieldRef::column("Field");
        MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
    }

    #[test]
    fn what_a_predicate_takes_for_granted_must_still_be_so() {
        use FieldSource::{Column, JsonPath, MapKey};
        use LogicalType::{Boolean, String, StringArray};
        for (stands_in, now, made_of) in [
            (true, (Column, String, "String"), (Column, String, "String")),
            (true, (Column, String, "String"), (Column, String, "Nullable(String)")),
            (false, (Column, String, "Nullable(String)"), (Column, String, "String")),
            // An array with a NULL among its elements has no value, and is there.
            (true, (Column, StringArray, "Array(String)"), (Column, StringArray, "Array(Nullable(String))")),
            (false, (Column, StringArray, "Array(Nullable(String))"), (Column, StringArray, "Array(String)")),
            (
                false,
                (Column, StringArray, "Nullable(Array(Nullable(String)))"),
                (Column, StringArray, "Array(Nullable(String))"),
            ),
            (false, (Column, Boolean, "Nullable(String)"), (Column, String, "Nullable(String)")),
            (true, (MapKey, String, "String"), (MapKey, String, "LowCardinality(String)")),
            (false, (MapKey, String, "String"), (Column, String, "Nullable(String)")),
            // A path that gets a declared type, or loses it, or is there in documents that do not have it.
            (true, (JsonPath, String, "Dynamic"), (JsonPath, String, "Dynamic")),
            (true, (JsonPath, String, "LowCardinality(String)"), (JsonPath, String, "String")),
            (false, (JsonPath, String, "String"), (JsonPath, String, "Dynamic")),
            (false, (JsonPath, String, "Dynamic"), (JsonPath, String, "String")),
            (false, (JsonPath, String, "Nullable(String)"), (JsonPath, String, "Dynamic")),
            (false, (JsonPath, String, "Dynamic"), (JsonPath, String, "Nullable(String)")),
            (false, (JsonPath, String, "String"), (JsonPath, String, "Nullable(String)")),
            (false, (JsonPath, String, "Nullable(String)"), (JsonPath, String, "String")),
        ] {
            let (now, made_of) = (field(now.0, now.1, now.2), field(made_of.0, made_of.1, made_of.2));
            assert_eq!(can_stand_in(&now, &made_of), stands_in, "{now:?} for {made_of:?}");
        }
    }
}
