//! What the documentation says of a type.

/// A row of the table of types in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeDescription {
    /// The names of the type in ClickHouse, as Markdown.
    pub names: &'static str,
    /// The value of a field.
    pub value: &'static str,
    /// Where the value is an error; empty for nowhere.
    pub error: &'static str,
}
