//! A column of a table.

use crate::MapKey;
use tracewarden_model::{Binding, ColumnType};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name; nested columns have a dot in it.
    pub name: String,
    /// Its type, as far as fields support it.
    pub column_type: ColumnType,
    /// Its type as ClickHouse writes it.
    pub type_text: String,
    /// Whether `SELECT *` leaves it out (materialized and alias columns).
    pub derived: bool,
    /// Whether answers omit it unless it is named: an alias, which is computed from other columns on each read, or a column
    /// that a distributed table declares as materialized and the table behind it lacks.
    pub omitted: bool,
    /// The map key whose values it holds, when it is materialized in exactly the standard form.
    pub key: Option<MapKey>,
    /// Whether the table stores its rows itself, in parts. The declaration of a column in a distributed table proves nothing
    /// about the tables behind it.
    pub in_parts: bool,
}

/// Returns the names of the columns that are read only on request, in the table's order: aliases, which repeat the values of
/// other columns, except structural ones.
pub(crate) fn omitted_columns<'a>(
    binding: &Binding,
    columns: impl IntoIterator<Item = &'a Column>,
) -> Vec<String> {
    let structural_columns = binding.structural_columns();
    let omitted = |column: &&Column| column.omitted && !structural_columns.contains(&column.name.as_str());
    columns.into_iter().filter(omitted).map(|column| column.name.clone()).collect()
}
