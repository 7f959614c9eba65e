//! Key columns: materialized columns that hold the values of a map key, and that may be read in place of the map.
//!
//! ClickHouse administrators add them ([`crate::schema::layout::key_column_expression`] is their standard form), and may drop or
//! alter them at any time. So each request checks them anew. Where a column does not qualify, the map is read, with the same
//! meaning. Filters use any column of the standard form. Policies use one only when an administrator of this service has
//! adopted it: a column that was altered keeps its old values in old parts, and those could grant access to a trace.

use tracewarden_model::{FieldSource, MarkedField};

#[cfg(test)]
mod index_use;
#[cfg(test)]
mod tests;
use crate::schema::column::{Column, column_named, unknown_column};
use crate::schema::layout::{KEY_COLUMN_TYPE, can_be_key_column, key_column_expression};

/// The purpose of a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It grants access to traces.
    Access,
    /// It searches the traces that the user may see.
    Filter,
}

/// Returns the field with the column that is read for it, if any. The field has its current type in the table.
pub(crate) fn with_column(field: MarkedField, columns: &[Column], purpose: Purpose) -> MarkedField {
    let column = key_column_for(&field, columns, purpose).map(|column| column.name.clone());
    MarkedField { column, ..field }
}

fn key_column_for<'a>(field: &MarkedField, columns: &'a [Column], purpose: Purpose) -> Option<&'a Column> {
    let map = field.field.map.as_ref().filter(|_| field.source == FieldSource::MapKey)?;
    let standard_key = |column: &&Column| column.holds_key(map, &field.field.name);
    let adopted =
        columns.iter().filter(standard_key).find(|column| Some(&column.name) == field.column.as_ref());
    match purpose {
        Purpose::Access => adopted.filter(|column| column.in_parts),
        Purpose::Filter => adopted.or_else(|| columns.iter().find(standard_key)),
    }
}

/// Returns why a field's column cannot be adopted, judging by the table's definition; `None` when only the comparison with
/// the map is left. The text is for administrators.
pub fn adoption_error(field: &MarkedField, columns: &[Column]) -> Option<String> {
    let column = field.column.as_deref()?;
    let (name, key) = (&field.field, &field.field.name);
    let Some(map) = field.field.map.as_ref().filter(|_| field.source == FieldSource::MapKey) else {
        return Some(format!(
            "`{name}` is not a key of a map; only such a key can have a column in its place"
        ));
    };
    if !column_named(columns, map).is_some_and(|map| can_be_key_column(&map.column_type, key)) {
        return Some(format!(
            "no column can replace `{name}`: only a key of a map from strings to strings can have one"
        ));
    }
    let Some(found) = column_named(columns, column) else { return Some(unknown_column(column, columns)) };
    if !found.holds_key(map, key) {
        let expression = key_column_expression(map, key);
        return Some(format!(
            "the definition of `{column}` is not the one that a column of `{name}` must have: \
             {KEY_COLUMN_TYPE} MATERIALIZED {expression}"
        ));
    }
    if !found.in_parts {
        return Some(format!(
            "policies read key columns only in MergeTree tables: the definition of `{column}` here does not \
             guarantee its definition in the tables behind it. Filters use the column automatically"
        ));
    }
    None
}
