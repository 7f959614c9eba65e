//! Statements: text with parameters. The one place that quotes identifiers and encodes values.

use std::collections::HashMap;

use tracewarden_model::Timestamp;

/// Maximum bytes of one field of a request: ClickHouse refuses form fields that are longer than 128 KiB by default
/// (`http_max_field_value_size`), whatever value the request sets.
pub(crate) const MAX_FIELD_BYTES: usize = 96 * 1024;

/// A statement with its server-side parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// Values of `p0`, `p1`, …, encoded.
    pub(crate) parameters: Vec<String>,
    /// Whether it looks for traces by their ids.
    pub(crate) filters_by_trace_id: bool,
    /// Whether its answer omits shards that cannot be reached. Never for a statement about spans.
    pub(crate) skips_unavailable_shards: bool,
    /// Whether its conditions are evaluated for every row. Others choose rows, and are written in a form that lets skip indexes
    /// exclude rows; for every row, that form only costs time.
    pub(crate) per_row: bool,
    /// Whether it reads rows with `FINAL`.
    pub(crate) reads_final: bool,
    /// Columns that list the entries of a map as `key=value` for a text index, by map.
    pub(crate) items: HashMap<String, String>,
    /// Index of a value in the parameters.
    parameter_indexes: HashMap<String, usize>,
    /// What follows `tw_` in all names that this crate introduces.
    underscores: String,
}

impl Statement {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Creates a statement over a table with these columns. An alias or a lambda variable with the name of a column hides the
    /// column, which could grant access to a trace: so the names of this crate have a prefix that no column has.
    pub(crate) fn for_columns<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut statement = Self::default();
        while columns.clone().any(|column| column.starts_with(&statement.alias(""))) {
            statement.underscores.push('_');
        }
        statement
    }

    /// Returns the same statement for conditions that are evaluated for every row.
    pub(crate) fn evaluated_per_row(self) -> Self {
        Self { per_row: true, ..self }
    }

    /// Writes a condition that chooses rows into a statement whose other conditions do not.
    pub(crate) fn filtering_rows<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.per_row, false);
        let written = write(self);
        self.per_row = before;
        written
    }

    /// Returns a name of this crate's own, for an alias or a lambda variable.
    pub(crate) fn alias(&self, name: &str) -> String {
        format!("tw_{}{name}", self.underscores)
    }

    /// Returns several such names.
    pub(crate) fn aliases<const N: usize>(&self, names: [&str; N]) -> [String; N] {
        names.map(|name| self.alias(name))
    }

    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a string value. Equal values share a parameter; a value that may be too long for one parameter, however its
    /// characters are encoded, is concatenated.
    pub(crate) fn string(&mut self, value: &str) -> String {
        let pieces = pieces(value, MAX_FIELD_BYTES / 2).into_iter();
        concatenated("concat", pieces.map(|piece| self.parameter("String", encode(piece))).collect())
    }

    /// Adds string values as a list, each a parameter.
    pub(crate) fn string_parameters<'a>(&mut self, values: impl IntoIterator<Item = &'a String>) -> String {
        values.into_iter().map(|value| self.string(value)).collect::<Vec<_>>().join(", ")
    }

    /// Adds a list of strings as one value, or as several concatenated ones where one would be too long.
    pub(crate) fn string_array(&mut self, values: &[String]) -> String {
        let (quoted, long): (Vec<_>, Vec<_>) = (values.iter().map(|value| (value, quote_literal(value))))
            .partition(|(_, quoted)| quoted.len() <= MAX_FIELD_BYTES);
        let mut lists = self.lists("Array(String)", quoted.into_iter().map(|(_, quoted)| quoted));
        lists.extend(long.into_iter().map(|(value, _)| format!("[{}]", self.string(value))));
        concatenated("arrayConcat", lists)
    }

    /// Adds encoded values of this type as one array, or as several concatenated ones.
    pub(crate) fn array(&mut self, kind: &str, values: impl Iterator<Item = String>) -> String {
        concatenated("arrayConcat", self.lists(&format!("Array({kind})"), values))
    }

    /// Adds encoded values as array parameters of this type: at least one parameter, each short enough.
    fn lists(&mut self, kind: &str, values: impl Iterator<Item = String>) -> Vec<String> {
        let (mut lists, mut list) = (Vec::new(), String::new());
        for value in values {
            if !list.is_empty() && list.len() + value.len() > MAX_FIELD_BYTES {
                lists.push(std::mem::take(&mut list));
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&value);
        }
        lists.push(list);
        lists.into_iter().map(|list| self.parameter(kind, format!("[{list}]"))).collect()
    }

    pub(crate) fn int(&mut self, value: i64) -> String {
        self.parameter("Int64", value.to_string())
    }

    /// Adds a point in time, clamped to the range of `DateTime64(9)`.
    pub(crate) fn time(&mut self, value: Timestamp) -> String {
        // The range is 1900 to 2262.
        let nanos = value.as_nanos().max(-2_208_988_800_000_000_000);
        let parameter = self.int(nanos);
        format!("fromUnixTimestamp64Nano({parameter})")
    }

    /// Adds a value of this type, given as text that is encoded or needs no escaping.
    pub(crate) fn parameter(&mut self, kind: &str, encoded: String) -> String {
        let at = *self.parameter_indexes.entry(encoded).or_insert_with_key(|encoded| {
            self.parameters.push(encoded.clone());
            self.parameters.len() - 1
        });
        format!("{{p{at}:{kind}}}")
    }
}

/// Concatenates strings or arrays, if there are several.
fn concatenated(function: &str, parts: Vec<String>) -> String {
    match parts.as_slice() {
        [only] => only.clone(),
        several => format!("{function}({})", several.join(", ")),
    }
}

/// Splits a text into pieces of at most this number of bytes, at least one.
pub(crate) fn pieces(text: &str, max_bytes: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > max_bytes {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(max_bytes));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// Escapes a value, in the form that the server unescapes.
fn encode(value: &str) -> String {
    // The backslash comes first, since the others add more.
    [('\\', r"\\"), ('\t', r"\t"), ('\n', r"\n"), ('\r', r"\r"), ('\0', r"\0")]
        .iter()
        .fold(value.to_owned(), |encoded, (character, escape)| encoded.replace(*character, escape))
}

/// Quotes an identifier.
pub(crate) fn quote(identifier: &str) -> String {
    format!("`{}`", identifier.replace('\\', r"\\").replace('`', r"\`").replace('\0', r"\0"))
}

/// Quotes a path of a JSON column: `col`.`a.b`. ClickHouse resolves the column before it looks for a table of that name, so
/// that the path cannot be taken for a column of such a table. Quoted together with its column, a path without a declared
/// type is an unknown identifier before 26.3.
pub(crate) fn quote_path(column: &str, path: &str) -> String {
    format!("{}.{}", quote(column), quote(path))
}

/// Quotes a string literal, for texts that administrators run: this crate's own statements send values as parameters.
pub(crate) fn quote_literal(value: &str) -> String {
    format!("'{}'", encode(value).replace('\'', "\\'"))
}

/// Quotes a table's full name.
pub(crate) fn quote_table(database: &str, table: &str) -> String {
    format!("{}.{}", quote(database), quote(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_identifiers_stay_identifiers() {
        assert_eq!(quote("a`; DROP TABLE x; --\\"), "`a\\`; DROP TABLE x; --\\\\`");
        assert_eq!(quote_path("a.b", "c`.d"), "`a.b`.`c\\`.d`");
    }

    #[test]
    fn internal_names_are_not_columns() {
        let columns = ["x1", "tw_x1", "tw__", "TraceId"];
        assert_eq!(Statement::for_columns(columns.into_iter()).alias("x1"), "tw___x1");
        assert_eq!(Statement::for_columns(std::iter::empty()).alias("x1"), "tw_x1");
    }

    #[test]
    fn equal_values_share_a_parameter() {
        let mut statement = Statement::default();
        assert_eq!(statement.string("a\tb"), "{p0:String}");
        assert_eq!(statement.string("a\tb"), "{p0:String}");
        assert_eq!(statement.int(5), "{p1:Int64}");
        assert_eq!(statement.parameters, ["a\\tb", "5"]);
    }
}
