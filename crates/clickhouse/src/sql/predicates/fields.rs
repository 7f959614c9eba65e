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

/// A map, as SQL over its row.
struct StoredMap {
    keys: String,
    values: String,
    /// The map column, for functions that take one.
    column: Option<String>,
}

/// Returns the map that has the field's key. `None` for a field that is not a key of a map.
fn stored_map(field: &MarkedField) -> Option<StoredMap> {
    let map = field.field.map.as_ref()?;
    match field.source {
        FieldSource::MapKey => {
            let map = quote(map);
            let [keys, values] = ["mapKeys", "mapValues"].map(|function| format!("{function}({map})"));
            Some(StoredMap { keys, values, column: Some(map) })
        }
        FieldSource::ArrayPair(pair) => {
            let [keys, values] = pair.columns(map).map(|column| quote(&column));
            Some(StoredMap { keys, values, column: None })
        }
        FieldSource::Column | FieldSource::JsonPath => None,
    }
}

/// Writes the array of all values of the map that has the field's key, for skip indexes on values.
pub(super) fn map_values(field: &MarkedField) -> Option<String> {
    stored_map(field).map(|map| map.values)
}

/// Writes the column, or the value under the key or at the path. NULL stays NULL.
fn raw(field: &MarkedField, statement: &mut Statement) -> String {
    if let Some(column) = key_column(field) {
        return quote(column);
    }
    let Some(map) = stored_map(field) else { return name(field) };
    let position = position(&map, &field.field.name, statement);
    let values = map.values;
    if field.column_type.is_text() && !field.column_type.is_string() {
        let value = statement.alias("value");
        return format!("arrayMap({value} -> toString({value}), {values})[{position}]");
    }
    format!("{values}[{position}]")
}

/// Writes the position of the key in the map, from 1; 0 where it is absent. Of equal keys, the first counts.
fn position(map: &StoredMap, key: &str, statement: &mut Statement) -> String {
    let keys = if key.is_empty() {
        // Observed with 26.7: `has` and `indexOf` do not find a constant empty string among LowCardinality(String).
        let key = statement.alias("key");
        format!("arrayMap({key} -> toString({key}), {})", map.keys)
    } else {
        map.keys.clone()
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
        _ if column_type.is_string() || field.source.is_map_key() => raw(field, statement),
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
    let reads_map = key_column(field).is_none() || field.column_type.is_nullable();
    match stored_map(field).filter(|_| reads_map) {
        Some(map) => has_key(&map, &field.field.name, statement),
        None if may_be_null(field) => format!("isNotNull({})", raw(field, statement)),
        None => "1".to_owned(),
    }
}

/// Writes whether a map has a key. In a pair of arrays, a key without a value does not count.
fn has_key(map: &StoredMap, key: &str, statement: &mut Statement) -> String {
    let literal = statement.string(key);
    let has_key = match &map.column {
        // See `position` for the empty key.
        _ if key.is_empty() => format!("hasAny({}, [{literal}])", map.keys),
        Some(column) => format!("mapContains({column}, {literal})"),
        None => format!("has({}, {literal})", map.keys),
    };
    if map.column.is_some() {
        return has_key;
    }
    format!("({has_key} AND {} <= length({}))", position(map, key, statement), map.values)
}

/// Writes where the field is present and not NULL.
fn is_not_null(field: &MarkedField, statement: &mut Statement) -> String {
    let is_present = is_present(field, statement);
    if !may_be_null(field) {
        return is_present;
    }
    let is_not_null = format!("isNotNull({})", raw(field, statement));
    if field.source.is_map_key() && key_column(field).is_none() {
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
            Some(format!("NOT arrayExists({element} -> isNull({element}), {raw})"))
        }
        _ if field.source.is_map_key() && field.column_type.is_text() => parses_as_type(field, statement),
        _ => None,
    };
    match typed {
        Some(typed) => format!("({is_present} AND {typed})"),
        None => is_present,
    }
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
        ColumnType::Text(text_type) if !field.source.is_map_key() => text_type,
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
