//! A column of a table.

use tracewarden_model::{Binding, ColumnType, NumberType, TextType, nearest::nearest};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name; nested columns have a dot in it.
    pub name: String,
    /// Its type, as far as fields support it.
    pub column_type: ColumnType,
    /// Its type as ClickHouse writes it.
    pub type_text: String,
    /// `DEFAULT`, `MATERIALIZED`, `ALIAS`, `EPHEMERAL`, or empty.
    pub default_kind: String,
    /// Its expression as ClickHouse writes it; empty without one, and where it is not needed.
    pub default_expression: String,
    /// Whether answers omit it unless it is named: an alias, which is computed from other columns on each read, or a column
    /// that a distributed table declares as materialized and the table behind it lacks.
    pub omitted: bool,
    /// The map key whose values it holds, when it is materialized in exactly the standard form.
    pub key: Option<MapKey>,
    /// The map whose entries it lists as `key=value`, when it is an alias in exactly the standard form and a text index covers
    /// it.
    pub items_of: Option<String>,
    /// Whether the table stores its rows itself, in parts. The declaration of a column in a distributed table proves nothing
    /// about the tables behind it.
    pub in_parts: bool,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapKey {
    /// The map.
    pub map: String,
    /// The key.
    pub key: String,
}

impl Column {
    /// Creates a column without a default.
    pub(crate) fn new(name: String, type_text: String) -> Self {
        Self {
            name,
            column_type: ColumnType::parse(&type_text),
            type_text,
            default_kind: String::new(),
            default_expression: String::new(),
            omitted: false,
            key: None,
            items_of: None,
            in_parts: false,
        }
    }

    /// Whether `SELECT *` leaves it out.
    pub(crate) fn is_derived(&self) -> bool {
        matches!(self.default_kind.as_str(), "MATERIALIZED" | "ALIAS")
    }

    /// Whether it holds the values of this key.
    pub(crate) fn holds_key(&self, map: &str, key: &str) -> bool {
        self.key.as_ref().is_some_and(|found| found.map == map && found.key == key)
    }
}

/// Returns the column with this name.
pub(crate) fn column_named<'a>(columns: &'a [Column], name: &str) -> Option<&'a Column> {
    columns.iter().find(|column| column.name == name)
}

/// Describes a missing column, with the name of one that resembles it.
pub(crate) fn unknown_column(name: &str, columns: &[Column]) -> String {
    let near = nearest(name, columns.iter().map(|column| column.name.as_str()));
    let hint = near.first().map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    format!("there is no column `{name}`{hint}")
}

/// Whether a column of this type holds integers, possibly `Nullable`.
pub(crate) fn is_integer(column_type: &ColumnType) -> bool {
    matches!(column_type.bare(), ColumnType::Number(NumberType::Integer { .. }))
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

/// Converts a string column to a plain `String`, empty for NULL.
pub(crate) fn plain_text(expression: &str, column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::Text(TextType::String) => expression.to_owned(),
        other if other.is_nullable() => format!("ifNull(toString({expression}), '')"),
        _ => format!("toString({expression})"),
    }
}
