//! Marked fields: where each is present, and where it has a value of its logical type.

use std::sync::Arc;

use tracewarden_model::{ColumnType, FieldSource, MarkedField};

use crate::predicate::{Atom, Predicate};

/// Returns where a field has a value of its logical type: everywhere for a column that is not Nullable.
pub(crate) fn defined(field: &Arc<MarkedField>) -> Predicate {
    if always_present(field) && !may_hold_null(field) {
        Predicate::True
    } else {
        Predicate::atom(Atom::Defined(Arc::clone(field)))
    }
}

/// Returns where a field is present, with any value. A key of a map is present if the map contains it, even with NULL.
/// A column or a path is absent if it is NULL.
pub(crate) fn present(field: &Arc<MarkedField>) -> Predicate {
    if always_present(field) { Predicate::True } else { Predicate::atom(Atom::Present(Arc::clone(field))) }
}

/// Whether every row has a value. A path of a JSON column always has one only if its declared type is not Nullable.
fn always_present(field: &MarkedField) -> bool {
    !field.source.is_map_key() && !field.column_type.is_nullable()
}

/// Whether a predicate compiled for the field `compiled_for` means the same for `current`, the same field after a change of the
/// table's columns. If the predicate omits the presence test, `current` must always have a value.
pub fn is_compatible_field(current: &MarkedField, compiled_for: &MarkedField) -> bool {
    let assumptions =
        |field: &MarkedField| (always_present(field), always_present(field) && !may_hold_null(field));
    let (present, defined) = assumptions(compiled_for);
    let (current_present, current_defined) = assumptions(current);
    let (untyped, current_untyped) =
        (compiled_for.column_type == ColumnType::Dynamic, current.column_type == ColumnType::Dynamic);
    current.source == compiled_for.source
        && current.logical == compiled_for.logical
        && (current_present || !present)
        && (current_defined || !defined)
        // A path that gets a declared type has a value of that type in every document. A former error, which grants no
        // access, would become a string for which a negation can be true.
        && (current.source != FieldSource::JsonPath || (current_present == present && current_untyped == untyped))
}

/// Whether the value may be an array that contains NULL, which is not an array of strings.
fn may_hold_null(field: &MarkedField) -> bool {
    matches!(field.column_type.bare(), ColumnType::Array(element) if element.is_nullable())
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{FieldRef, LogicalType};

    use super::*;

    fn field(source: FieldSource, logical: LogicalType, column_type: &str) -> MarkedField {
        let column_type = ColumnType::parse(column_type);
        let field = FieldRef::column("Field");
        MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
    }

    #[test]
    fn assumptions_of_a_predicate_are_checked_again() {
        use FieldSource::{Column, JsonPath, MapKey};
        use LogicalType::{Boolean, String, StringArray};
        for (compatible, current, compiled_for) in [
            (true, (Column, String, "String"), (Column, String, "String")),
            (true, (Column, String, "String"), (Column, String, "Nullable(String)")),
            (false, (Column, String, "Nullable(String)"), (Column, String, "String")),
            // An array that contains NULL has no value of the type, but it is present.
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
            // Paths that get or lose a declared type, or are present in documents that lack them.
            (true, (JsonPath, String, "Dynamic"), (JsonPath, String, "Dynamic")),
            (true, (JsonPath, String, "LowCardinality(String)"), (JsonPath, String, "String")),
            (false, (JsonPath, String, "String"), (JsonPath, String, "Dynamic")),
            (false, (JsonPath, String, "Dynamic"), (JsonPath, String, "String")),
            (false, (JsonPath, String, "Nullable(String)"), (JsonPath, String, "Dynamic")),
            (false, (JsonPath, String, "Dynamic"), (JsonPath, String, "Nullable(String)")),
            (false, (JsonPath, String, "String"), (JsonPath, String, "Nullable(String)")),
            (false, (JsonPath, String, "Nullable(String)"), (JsonPath, String, "String")),
        ] {
            let (current, compiled_for) = (
                field(current.0, current.1, current.2),
                field(compiled_for.0, compiled_for.1, compiled_for.2),
            );
            assert_eq!(
                is_compatible_field(&current, &compiled_for),
                compatible,
                "{current:?} for {compiled_for:?}"
            );
        }
    }
}
