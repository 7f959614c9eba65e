//! Statements: text with parameters. The one place that quotes identifiers and encodes values.

use std::collections::HashMap;
use std::fmt::Write as _;

use tracewarden_model::Timestamp;

/// Most bytes of one piece of a request: ClickHouse refuses fields of a form that are longer than 128 KiB by default
/// (`http_max_field_value_size`), whatever a request says of it.
pub(crate) const MAX_FIELD_BYTES: usize = 96 * 1024;

/// A statement with its server-side parameters.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// Values of `p0`, `p1`, …, encoded.
    pub(crate) parameters: Vec<String>,
    /// Whether it looks for traces by their ids.
    pub(crate) by_id: bool,
    /// Whether shards that cannot be reached are left out of its answer. Never of one about spans.
    pub(crate) of_reachable: bool,
    /// Whether its conditions choose rows. Then they are written so that skip indexes can leave rows out; of conditions that
    /// are computed of every row that is only work.
    chooses_rows: bool,
    /// Where a value is among the parameters.
    places: HashMap<String, usize>,
    /// What every name of ours begins with.
    prefix: String,
}

impl Default for Statement {
    fn default() -> Self {
        Self {
            text: String::new(),
            parameters: Vec::new(),
            by_id: false,
            of_reachable: false,
            chooses_rows: true,
            places: HashMap::new(),
            prefix: "tw_".to_owned(),
        }
    }
}

impl Statement {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A statement over a table with these columns. An alias or the variable of a lambda that has the name of a column
    /// hides it, which could open a trace: so names of ours begin as no column does.
    pub(crate) fn over<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut statement = Self::default();
        while columns.clone().any(|column| column.starts_with(&statement.prefix)) {
            statement.prefix.push('_');
        }
        statement
    }

    /// The same for conditions that are computed of every row.
    pub(crate) fn of_every_row(self) -> Self {
        Self { chooses_rows: false, ..self }
    }

    /// Writes a condition that chooses rows, into a statement whose others do not.
    pub(crate) fn choosing_rows<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.chooses_rows, true);
        let written = write(self);
        self.chooses_rows = before;
        written
    }

    pub(crate) fn chooses_rows(&self) -> bool {
        self.chooses_rows
    }

    /// A name of ours, for an alias or the variable of a lambda.
    pub(crate) fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// A string value. Equal values share a parameter; one that is too long for a parameter is concatenated.
    pub(crate) fn string(&mut self, value: &str) -> String {
        let mut pieces = pieces(value);
        match (pieces.pop(), pieces.is_empty()) {
            (Some(only), true) => self.parameter("String", encode(only)),
            (last, _) => {
                let pieces: Vec<String> = pieces
                    .into_iter()
                    .chain(last)
                    .map(|piece| self.parameter("String", encode(piece)))
                    .collect();
                format!("concat({})", pieces.join(", "))
            }
        }
    }

    /// String values, each a parameter, as a list.
    pub(crate) fn list<'a>(&mut self, values: impl IntoIterator<Item = &'a String>) -> String {
        values.into_iter().map(|value| self.string(value)).collect::<Vec<_>>().join(", ")
    }

    /// A list of strings as one value, or as several put together where one would be too long.
    pub(crate) fn strings(&mut self, values: &[String]) -> String {
        let (quoted, long): (Vec<_>, Vec<_>) = (values.iter().map(|value| (value, quote_literal(value))))
            .partition(|(_, quoted)| quoted.len() <= MAX_FIELD_BYTES);
        let mut lists = self.lists("Array(String)", quoted.into_iter().map(|(_, quoted)| quoted));
        lists.extend(long.into_iter().map(|(value, _)| format!("[{}]", self.string(value))));
        concatenated(lists)
    }

    /// A list of integers, likewise.
    pub(crate) fn ints(&mut self, values: &[i64]) -> String {
        concatenated(self.lists("Array(Int64)", values.iter().map(i64::to_string)))
    }

    /// Encoded values in parameters of this type, at least one, each short enough.
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

    /// A value of this type, as text that needs no escaping.
    pub(crate) fn typed(&mut self, type_text: &str, value: String) -> String {
        self.parameter(type_text, value)
    }

    /// A point in time, clamped to what `DateTime64(9)` can hold.
    pub(crate) fn time(&mut self, value: Timestamp) -> String {
        // The years 1900 to 2262.
        let nanos = value.as_nanos().max(-2_208_988_800_000_000_000);
        let parameter = self.int(nanos);
        format!("fromUnixTimestamp64Nano({parameter})")
    }

    fn parameter(&mut self, kind: &str, encoded: String) -> String {
        let at = *self.places.entry(encoded).or_insert_with_key(|encoded| {
            self.parameters.push(encoded.clone());
            self.parameters.len() - 1
        });
        format!("{{p{at}:{kind}}}")
    }
}

/// Arrays as one.
fn concatenated(lists: Vec<String>) -> String {
    match lists.as_slice() {
        [only] => only.clone(),
        several => format!("arrayConcat({})", several.join(", ")),
    }
}

/// A value in pieces of which each fits into a parameter, in whatever way its characters are encoded.
fn pieces(value: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), value);
    while rest.len() > MAX_FIELD_BYTES / 2 {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(MAX_FIELD_BYTES / 2));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// A value as the server unescapes it again.
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => encoded.push_str("\\\\"),
            '\t' => encoded.push_str("\\t"),
            '\n' => encoded.push_str("\\n"),
            '\r' => encoded.push_str("\\r"),
            '\0' => encoded.push_str("\\0"),
            other => encoded.push(other),
        }
    }
    encoded
}

/// Quotes an identifier.
pub(crate) fn quote(identifier: &str) -> String {
    let mut quoted = String::with_capacity(identifier.len() + 2);
    quoted.push('`');
    for character in identifier.chars() {
        match character {
            '`' => quoted.push_str("\\`"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            other => quoted.push(other),
        }
    }
    quoted.push('`');
    quoted
}

/// Quotes a path of a JSON column: `col`.`a.b`. ClickHouse finds the column before it looks for a table of that name, so that
/// the path cannot be taken for a column of such a table. In one pair of quotes with its column, a path without a
/// declared type is an unknown identifier before 26.3.
pub(crate) fn quote_path(column: &str, path: &str) -> String {
    format!("{}.{}", quote(column), quote(path))
}

/// A literal string, for texts that others run: our own statements send values as parameters.
pub(crate) fn quote_literal(value: &str) -> String {
    format!("'{}'", encode(value).replace('\'', "\\'"))
}

/// A table's full name, quoted.
pub(crate) fn quote_table(database: &str, table: &str) -> String {
    let mut quoted = quote(database);
    let _ = write!(quoted, ".{}", quote(table));
    quoted
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
    fn own_names_are_no_columns() {
        let columns = ["x1", "tw_x1", "tw__", "TraceId"];
        assert_eq!(Statement::over(columns.into_iter()).own("x1"), "tw___x1");
        assert_eq!(Statement::over(std::iter::empty()).own("x1"), "tw_x1");
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
