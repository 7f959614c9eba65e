//! Writes fields as SQL: where each is present, where it has a value of its logical type, and that value.
//!
//! Values of other types become strings: an enumeration's value is its name, a `FixedString` ends before its padding of zero
//! bytes, a UUID is its canonical text. `toString` does all three. Pitfalls, each observed with 26.7:
//!
//! - An enumeration in a map has no value where the key is absent, and `toString` of that raises an error. So values become
//!   strings before one of them is selected.
//! - `getSubcolumn` reads whole documents, a quoted name only the path.

use tracewarden_model::{ColumnType, Decimal, FieldSource, LogicalType, MarkedField, TextType};
use tracewarden_policy::predicate::Relation;

use super::{json, numbers};
use crate::sql::statement::{Statement, quote, quote_path};

/// Returns the key column that is read in place of the map, if any: NULL where the key is absent.
pub(super) fn key_column(field: &MarkedField) -> Option<&str> {
    field.column.as_deref().filter(|_| field.source == FieldSource::MapKey)
}

/// Whether the value that is read may be NULL.
pub(super) fn may_be_null(field: &MarkedField) -> bool {
    field.column_type.is_nullable() || key_column(field).is_some()
}

/// Writes the column, or the value under the key or at the path. NULL stays NULL.
fn raw(field: &MarkedField, statement: &mut Statement) -> String {
    if let Some(column) = key_column(field) {
        return quote(column);
    }
    match (field.source, &field.field.map) {
        (FieldSource::MapKey, Some(map)) => {
            let values = format!("mapValues({})", quote(map));
            let values = if field.column_type.is_text() && !field.column_type.is_string() {
                let value = statement.alias("value");
                format!("arrayMap({value} -> toString({value}), {values})")
            } else {
                values
            };
            format!("{values}[{}]", position(map, &field.field.name, statement))
        }
        _ => name(field),
    }
}

/// Writes the position of the key in the map, from 1; 0 where it is absent.
fn position(map: &str, key: &str, statement: &mut Statement) -> String {
    let map = quote(map);
    let keys = if key.is_empty() {
        // Observed with 26.7: `has` and `indexOf` do not find a constant empty string among LowCardinality(String).
        let key = statement.alias("key");
        format!("arrayMap({key} -> toString({key}), mapKeys({map}))")
    } else {
        format!("mapKeys({map})")
    };
    format!("indexOf({keys}, {})", statement.string(key))
}

/// Writes the column or the path, quoted.
fn name(field: &MarkedField) -> String {
    match &field.field.map {
        Some(json) => quote_path(json, &field.field.name),
        None => quote(&field.field.name),
    }
}

/// Writes the string where the field is defined; any value elsewhere.
pub(crate) fn text(field: &MarkedField, statement: &mut Statement) -> String {
    let text = text_or_null(field, statement);
    if may_be_null(field) { format!("assumeNotNull({text})") } else { text }
}

/// Writes the string where the field is defined; NULL or any string elsewhere.
pub(super) fn text_or_null(field: &MarkedField, statement: &mut Statement) -> String {
    let column_type = &field.column_type;
    match column_type {
        ColumnType::Dynamic => json::typed_subcolumn(&name(field), "String"),
        // Values of a map are strings already.
        _ if column_type.is_string() || field.source == FieldSource::MapKey => raw(field, statement),
        _ => format!("toString({})", raw(field, statement)),
    }
}

/// Writes the array of strings where the field is defined; any array elsewhere.
pub(super) fn array(field: &MarkedField, statement: &mut Statement) -> String {
    let element = statement.alias("element");
    match field.column_type.bare() {
        ColumnType::Dynamic => json::array(&name(field), statement),
        ColumnType::Array(inner) => {
            let raw = raw(field, statement);
            match (inner.is_string(), inner.is_nullable()) {
                (true, false) => raw,
                (true, true) => format!("arrayMap({element} -> assumeNotNull({element}), {raw})"),
                (false, false) => format!("arrayMap({element} -> toString({element}), {raw})"),
                (false, true) => format!("arrayMap({element} -> assumeNotNull(toString({element})), {raw})"),
            }
        }
        _ => format!("JSONExtract({}, 'Array(String)')", text(field, statement)),
    }
}

/// Writes the array as it is stored, if a skip index can serve membership of strings in it.
pub(super) fn stored_array(field: &MarkedField, statement: &mut Statement) -> Option<String> {
    match field.column_type.bare() {
        ColumnType::Array(inner) if inner.is_string() => Some(raw(field, statement)),
        _ => None,
    }
}

/// Writes where the field is present. A map key is present where the map has it, whatever its value, including NULL. A key
/// column distinguishes the two only where the map holds no NULLs.
pub(super) fn is_present(field: &MarkedField, statement: &mut Statement) -> String {
    let read_from_map = field.source == FieldSource::MapKey
        && (key_column(field).is_none() || field.column_type.is_nullable());
    match &field.field.map {
        Some(map) if read_from_map => {
            let (map, key) = (quote(map), statement.string(&field.field.name));
            // See `position` for the empty key.
            if field.field.name.is_empty() {
                format!("hasAny(mapKeys({map}), [{key}])")
            } else {
                format!("mapContains({map}, {key})")
            }
        }
        _ if may_be_null(field) => format!("isNotNull({})", raw(field, statement)),
        _ => "1".to_owned(),
    }
}

/// Writes where the field is present and not NULL.
fn is_not_null(field: &MarkedField, statement: &mut Statement) -> String {
    let is_present = is_present(field, statement);
    if !may_be_null(field) {
        return is_present;
    }
    let is_not_null = format!("isNotNull({})", raw(field, statement));
    if field.source == FieldSource::MapKey && key_column(field).is_none() {
        format!("({is_present} AND {is_not_null})")
    } else {
        is_not_null
    }
}

pub(super) fn is_defined(field: &MarkedField, statement: &mut Statement) -> String {
    if field.column_type == ColumnType::Dynamic {
        return json::is_defined(&name(field), field.logical, statement);
    }
    let is_present = is_not_null(field, statement);
    let typed = match field.column_type.bare() {
        ColumnType::Array(inner) if inner.is_nullable() => {
            let (element, raw) = (statement.alias("element"), raw(field, statement));
            format!("NOT arrayExists({element} -> isNull({element}), {raw})")
        }
        _ if field.source == FieldSource::MapKey && field.column_type.is_text() => {
            match parses_as_type(field, statement) {
                Some(typed) => typed,
                None => return is_present,
            }
        }
        _ => return is_present,
    };
    format!("({is_present} AND {typed})")
}

/// Writes whether a map's string represents a value of the field's type.
fn parses_as_type(field: &MarkedField, statement: &mut Statement) -> Option<String> {
    let value = text(field, statement);
    Some(match field.logical {
        LogicalType::String => return None,
        LogicalType::Boolean => format!("({value} IN ('true', 'false'))"),
        LogicalType::Number => numbers::is_number(&value),
        // The parser skips a byte order mark, which is not valid JSON: hence the check of the first character.
        LogicalType::StringArray => format!(
            "isValidUTF8({value}) AND isValidJSON({value}) AND match({value}, '^[ \\\\t\\\\n\\\\r]*\\\\[') \
             AND arrayAll({element} -> JSONType({element}) = 'String', JSONExtractArrayRaw({value}))",
            element = statement.alias("element"),
        ),
    })
}

/// Writes the boolean where the field is defined; any value elsewhere.
pub(super) fn boolean(field: &MarkedField, statement: &mut Statement) -> String {
    match &field.column_type {
        ColumnType::Dynamic => format!("assumeNotNull({})", json::typed_subcolumn(&name(field), "Bool")),
        other if other.is_text() => format!("({} = 'true')", text(field, statement)),
        other if other.is_nullable() => format!("assumeNotNull({})", raw(field, statement)),
        _ => raw(field, statement),
    }
}

/// Writes an exact comparison of numbers: times are seconds since the epoch, strings are parsed.
pub(super) fn compare_number(
    relation: Relation,
    field: &MarkedField,
    wanted: &Decimal,
    statement: &mut Statement,
) -> String {
    if field.column_type == ColumnType::Dynamic {
        return json::compare_number(&name(field), relation, wanted, statement);
    }
    if field.column_type.is_text() {
        return numbers::compare_text(&text(field, statement), relation, wanted, statement);
    }
    let value = raw(field, statement);
    match field.column_type.bare() {
        ColumnType::Number(number_type) => {
            numbers::compare(&value, *number_type, may_be_null(field), relation, wanted, statement)
        }
        // A column of another type holds no numbers.
        _ => "0".to_owned(),
    }
}

/// For a column of a text type other than `String`: writes the column as it is stored, perhaps NULL, and the strings as
/// literals of its type, so that its key and its skip indexes serve a comparison. `None` where one of the strings is not a
/// valid value of the type. Then the general comparison decides, since the type may have changed after the field was marked.
pub(super) fn stored_text(
    field: &MarkedField,
    values: &[String],
    statement: &mut Statement,
) -> Option<(String, Vec<String>)> {
    let text_type = match field.column_type.bare() {
        ColumnType::Text(text_type) if field.source != FieldSource::MapKey => text_type,
        _ => return None,
    };
    // A comparison with a name that an enumeration does not have may raise an error. A shorter string is padded with zero bytes
    // before it is compared with a `FixedString`.
    if *text_type == TextType::String || !values.iter().all(|wanted| text_type.is_normal(wanted)) {
        return None;
    }
    let literal = |wanted: &String| {
        let literal = statement.string(wanted);
        match text_type {
            TextType::String | TextType::FixedString { .. } | TextType::Enum { .. } => literal,
            TextType::Uuid => format!("toUUID({literal})"),
        }
    };
    Some((name(field), values.iter().map(literal).collect()))
}
