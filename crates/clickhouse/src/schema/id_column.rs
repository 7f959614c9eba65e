//! Columns of ids: of traces, spans and parents.
//!
//! Everything outside this file sees an id as one canonical text. Comparisons with given ids are made in the column's own
//! type, with each id converted once, so that sorting keys, skip indexes and projections serve them.

use tracewarden_model::{ColumnType, NumberType, TextType};

use crate::schema::column::{Column, plain_text};
use crate::sql::{Statement, quote};

/// What the ids of a column identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdOf {
    /// Traces; in binary form an id has 16 bytes.
    Trace,
    /// Spans; in binary form an id has 8 bytes.
    Span,
}

/// A column of ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdColumn {
    /// The column, quoted.
    pub(crate) column: String,
    /// The id as text, empty for NULL and for a zero UUID.
    pub(crate) text: String,
    form: IdForm,
}

/// How a column stores ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdForm {
    /// As text.
    Text,
    /// As text of at most this many bytes, padded with zero bytes.
    FixedText(u32),
    /// As this many bytes, of which the text is the hexadecimal form.
    Bytes(u32),
    Uuid,
    Integer {
        bits: u16,
        signed: bool,
    },
}

impl IdForm {
    fn new(column_type: &ColumnType, id_of: IdOf) -> Option<Self> {
        let binary = match id_of {
            IdOf::Trace => 16,
            IdOf::Span => 8,
        };
        Some(match *column_type.bare() {
            ColumnType::Text(TextType::String) => Self::Text,
            ColumnType::Text(TextType::FixedString { bytes }) if bytes == binary => Self::Bytes(bytes),
            ColumnType::Text(TextType::FixedString { bytes }) => Self::FixedText(bytes),
            ColumnType::Text(TextType::Uuid) => Self::Uuid,
            ColumnType::Number(NumberType::Integer { bits: bits @ (32 | 64 | 128), signed }) => {
                Self::Integer { bits, signed }
            }
            _ => return None,
        })
    }
}

/// Whether a column of this type can hold ids.
pub(crate) fn is_id(column_type: &ColumnType) -> bool {
    IdForm::new(column_type, IdOf::Trace).is_some()
}

impl IdColumn {
    /// Returns the column as one of ids; `None` for a type that cannot hold them.
    pub(crate) fn new(column: &Column, id_of: IdOf) -> Option<Self> {
        let form = IdForm::new(&column.column_type, id_of)?;
        let quoted = quote(&column.name);
        let text = match form {
            IdForm::Text | IdForm::FixedText(_) | IdForm::Integer { .. } => {
                plain_text(&quoted, &column.column_type)
            }
            IdForm::Bytes(_) => or_empty(format!("lower(hex({quoted}))"), column),
            IdForm::Uuid => or_empty(format!("if(empty({quoted}), '', toString({quoted}))"), column),
        };
        Some(Self { column: quoted, text, form })
    }

    /// Returns a column of parents' span ids. Exporters that write span ids as bytes write those of parents into a `String`,
    /// where there may be none.
    pub(crate) fn of_parents(column: &Column, spans: &Self) -> Option<Self> {
        let mut parents = Self::new(column, IdOf::Span)?;
        if let (IdForm::Text, IdForm::Bytes(bytes)) = (parents.form, spans.form) {
            parents.text =
                format!("if(length({text}) = {bytes}, lower(hex({text})), {text})", text = parents.text);
        }
        Some(parents)
    }

    /// Writes the id as it is returned; `None` where that is the column itself.
    pub(crate) fn returned(&self) -> Option<String> {
        match self.form {
            // NULL stays NULL.
            IdForm::Text => self.text.starts_with("if(").then(|| self.text.clone()),
            IdForm::Bytes(_) => Some(format!("lower(hex({}))", self.column)),
            // A zero UUID is returned as it is stored.
            IdForm::FixedText(_) | IdForm::Uuid | IdForm::Integer { .. } => {
                Some(format!("toString({})", self.column))
            }
        }
    }

    /// Converts the text of an id of this column to the column's type, as SQL.
    pub(crate) fn stored(&self, text: &str) -> String {
        match self.form {
            IdForm::Text => text.to_owned(),
            IdForm::FixedText(bytes) => format!("toFixedString({text}, {bytes})"),
            IdForm::Bytes(bytes) => format!("toFixedString(unhex({text}), {bytes})"),
            IdForm::Uuid => format!("toUUID({text})"),
            IdForm::Integer { bits, signed } => format!("to{}({text})", integer_type(bits, signed)),
        }
    }

    /// Writes that the column has this id.
    pub(crate) fn is(&self, id: &str, statement: &mut Statement) -> String {
        match self.literal(id, statement) {
            Some(literal) => format!("{} = {literal}", self.column),
            None => "0".to_owned(),
        }
    }

    /// Writes that the column has one of these ids, each a parameter. Texts that are no id of the column's type are left out.
    pub(crate) fn is_one_of<'i>(
        &self,
        ids: impl IntoIterator<Item = &'i String>,
        statement: &mut Statement,
    ) -> String {
        let literals: Vec<String> = ids.into_iter().filter_map(|id| self.literal(id, statement)).collect();
        match literals.as_slice() {
            [] => "0".to_owned(),
            literals => format!("{} IN ({})", self.column, literals.join(", ")),
        }
    }

    /// Like [`Self::is_one_of`], for many ids: all in one parameter.
    pub(crate) fn is_in_array(&self, ids: &[String], statement: &mut Statement) -> String {
        let ids: Vec<String> = ids.iter().filter_map(|id| self.parse(id)).collect();
        let array = match self.form {
            IdForm::Text | IdForm::FixedText(_) => statement.string_array(&ids),
            IdForm::Bytes(_) => {
                let hex = statement.alias("hex");
                format!("arrayMap({hex} -> unhex({hex}), {})", statement.string_array(&ids))
            }
            IdForm::Uuid => statement.array("UUID", ids.iter().map(|id| format!("'{id}'"))),
            IdForm::Integer { bits, signed } => statement.array(&integer_type(bits, signed), ids.into_iter()),
        };
        format!("{} IN {array}", self.column)
    }

    /// Writes an id as a value of the column's type; `None` for a text that is not one.
    fn literal(&self, id: &str, statement: &mut Statement) -> Option<String> {
        let id = self.parse(id)?;
        Some(match self.form {
            IdForm::Text | IdForm::FixedText(_) => statement.string(&id),
            IdForm::Bytes(_) => format!("unhex({})", statement.string(&id)),
            IdForm::Uuid => statement.parameter("UUID", id),
            IdForm::Integer { bits, signed } => statement.parameter(&integer_type(bits, signed), id),
        })
    }

    /// Returns the canonical text of an id of this column; `None` for a text that is not one. A text that ClickHouse could
    /// not convert would fail the statement, and a request for such a trace would differ from one for an absent trace.
    fn parse(&self, id: &str) -> Option<String> {
        match self.form {
            IdForm::Text => Some(id.to_owned()),
            IdForm::FixedText(bytes) => {
                (id.len() <= bytes as usize && !id.ends_with('\0')).then(|| id.to_owned())
            }
            IdForm::Bytes(bytes) => is_hex(id, 2 * bytes as usize).then(|| id.to_ascii_lowercase()),
            IdForm::Uuid => uuid(id),
            IdForm::Integer { bits, signed } => integer(id, bits, signed),
        }
    }
}

fn integer_type(bits: u16, signed: bool) -> String {
    ColumnType::Number(NumberType::Integer { bits, signed }).to_string()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the canonical text of a UUID; `None` for a text that is not one.
pub(crate) fn uuid(text: &str) -> Option<String> {
    let mut parts = text.split('-');
    let is_uuid =
        [8, 4, 4, 4, 12].into_iter().all(|digits| parts.next().is_some_and(|part| is_hex(part, digits)));
    (is_uuid && parts.next().is_none()).then(|| text.to_ascii_lowercase())
}

/// Returns an integer of at most 128 bits without leading zeros; `None` for a text that is not one.
pub(crate) fn integer(text: &str, bits: u16, signed: bool) -> Option<String> {
    let (digits, sign) = match text.strip_prefix('-').filter(|_| signed) {
        Some(digits) => (digits, "-"),
        None => (text, ""),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u128 = digits.parse().ok().filter(|_| is_number)?;
    let sign = if number > 0 { sign } else { "" };
    let most = u128::MAX >> 128_u16.saturating_sub(bits) >> u16::from(signed);
    let most = most.saturating_add(u128::from(sign == "-"));
    (number <= most).then(|| format!("{sign}{number}"))
}

fn or_empty(text: String, column: &Column) -> String {
    if column.column_type.is_nullable() { format!("ifNull({text}, '')") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(type_text: &str, id_of: IdOf) -> IdColumn {
        IdColumn::new(&Column::new("id".to_owned(), type_text.to_owned()), id_of).unwrap()
    }

    #[test]
    fn ids_are_compared_in_the_type_of_the_column() {
        let hex = "0af7651916cd43dd8448eb211c80319c";
        let uuid = "0af76519-16cd-43dd-8448-eb211c80319c";
        for (type_text, given, condition, parameter) in [
            ("String", "any", "`id` = {p0:String}", "any"),
            ("LowCardinality(Nullable(String))", "any", "`id` = {p0:String}", "any"),
            ("FixedString(32)", hex, "`id` = {p0:String}", hex),
            ("FixedString(16)", hex, "`id` = unhex({p0:String})", hex),
            ("Nullable(UUID)", uuid, "`id` = {p0:UUID}", uuid),
            ("UInt64", "18446744073709551615", "`id` = {p0:UInt64}", "18446744073709551615"),
            ("UInt64", "0007", "`id` = {p0:UInt64}", "7"),
            ("Int64", "-7", "`id` = {p0:Int64}", "-7"),
            ("Int64", "-9223372036854775808", "`id` = {p0:Int64}", "-9223372036854775808"),
        ] {
            let mut statement = Statement::default();
            assert_eq!(column(type_text, IdOf::Trace).is(given, &mut statement), condition, "{type_text}");
            assert_eq!(statement.parameters, [parameter], "{type_text}");
        }
    }

    #[test]
    fn texts_that_are_no_ids_match_nothing() {
        let hex = "0af7651916cd43dd8448eb211c80319c";
        for (type_text, given) in [
            ("FixedString(8)", "123456789"),
            ("FixedString(32)", "a\0"),
            ("FixedString(16)", "0af7"),
            ("FixedString(16)", "zz"),
            ("UUID", hex),
            ("UUID", "0af76519-16cd-43dd-8448-eb211c80319g"),
            ("UInt64", "18446744073709551616"),
            ("UInt64", "-1"),
            ("UInt64", "+1"),
            ("UInt64", ""),
            ("UInt32", "4294967296"),
            ("Int64", "9223372036854775808"),
            ("Int64", "-9223372036854775809"),
        ] {
            let (ids, mut statement) = (column(type_text, IdOf::Trace), Statement::default());
            assert_eq!(ids.is(given, &mut statement), "0", "{type_text} {given}");
            assert_eq!(ids.is_one_of(&[given.to_owned()], &mut statement), "0", "{type_text} {given}");
            assert!(statement.parameters.is_empty());
        }
        for type_text in ["Float64", "DateTime", "Array(String)", "UInt8", "Enum8('a' = 1)"] {
            assert!(!is_id(&ColumnType::parse(type_text)), "{type_text}");
        }
    }
}
