//! Translates predicates to SQL.
//!
//! Every expression here has the value 0 or 1 on every row, never NULL, and none can raise an error on any data: one
//! malformed span must never fail other users' queries. A presence check comes before the value. A comparison with a map's
//! value comes with a condition for its skip indexes: `mapContains` for those on keys, `hasAny` for those on values.
//!
//! The value under a key is `mapValues(m)[indexOf(mapKeys(m), k)]`, never `m[k]`. A map may hold a key twice, and the first
//! one counts. `m[k]` first tries the position that the key had in the previous row, so that its result for such a map
//! depends on other rows (observed with 26.7). Two statements could then disagree about who may see a trace. The key column
//! of a field, if it has one, is read in place of the map (`key_columns.rs`).

use std::collections::BTreeMap;

mod fields;
mod json;
mod numbers;

use tracewarden_model::{FieldSource, LogicalType, MarkedField};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Array, Atom, Int, Quantifier, Relation, Text, TextFunction};

use crate::sql::statement::{Statement, quote};
pub(crate) use fields::text as string;
use fields::{boolean, compare_number, is_defined, is_present};
use numbers::operator;

/// Returns the predicate as readable SQL with its values in place. For display only, never to be sent to ClickHouse.
pub fn display_sql(predicate: &Predicate) -> String {
    let mut statement = Statement::default();
    let text = render(predicate, &mut statement);
    let mut parts = text.split("{p");
    let mut output = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let placeholder = part.split_once('}').and_then(|(inside, rest)| {
            let (number, kind) = inside.split_once(':')?;
            Some((statement.parameters.get(number.parse::<usize>().ok()?)?.as_str(), kind, rest))
        });
        match placeholder {
            Some((value, "String", rest)) => {
                output.push_str(&format!("'{}'{rest}", value.replace('\'', "\\'")));
            }
            Some((value, _, rest)) => output.extend([value, rest]),
            // Names of columns may look like a placeholder; those are kept.
            None => output.extend(["{p", part]),
        }
    }
    output
}

/// Writes the predicate as SQL, with its values as parameters of `statement`.
pub(crate) fn render(predicate: &Predicate, statement: &mut Statement) -> String {
    match predicate {
        Predicate::True => "1".to_owned(),
        Predicate::False => "0".to_owned(),
        Predicate::And(junction) => conjunction(junction.parts(), statement),
        Predicate::Or(junction) => joined(junction.parts(), " OR ", statement),
        Predicate::Not(junction) => format!("NOT {}", joined(junction.parts(), " AND ", statement)),
        Predicate::Atom(atom) => render_atom(atom, statement),
    }
}

/// Writes how close a span comes to satisfying the predicate, from 0 to 1, which means that it does. A conjunction scores the
/// mean of its parts, a disjunction the maximum, and a test 0 or 1.
pub(crate) fn score(predicate: &Predicate, statement: &mut Statement) -> String {
    let mut each =
        |parts: &[Predicate]| parts.iter().map(|part| score(part, statement)).collect::<Vec<_>>().join(", ");
    match predicate {
        Predicate::And(junction) => format!("arrayAvg([{}])", each(junction.parts())),
        Predicate::Or(junction) => format!("arrayMax([{}])", each(junction.parts())),
        // Converted to a float, so that all elements of an array have one type.
        whole => format!("toFloat64({})", render(whole, statement)),
    }
}

/// Writes a conjunction. A presence check is redundant when another part holds only where the field is present. Then the
/// check is kept only for skip indexes, or omitted if the other part can use them itself or the statement uses none.
/// Evaluated for every row, it costs a tenth of a pass.
fn conjunction(parts: &[Predicate], statement: &mut Statement) -> String {
    let mut rendered = Vec::with_capacity(parts.len());
    for part in parts {
        match implied(part, parts) {
            None => rendered.push(render(part, statement)),
            Some(field)
                if !statement.per_row && field.source.is_map_key() && fields::key_column(field).is_none() =>
            {
                rendered.push(format!("indexHint({})", is_present(field, statement)));
            }
            Some(_) => {}
        }
    }
    format!("({})", rendered.join(" AND "))
}

/// Returns the field whose presence a part checks, when another part holds only where it is present.
fn implied<'a>(part: &'a Predicate, parts: &[Predicate]) -> Option<&'a MarkedField> {
    let Predicate::Atom(leaf) = part else { return None };
    let field = match &***leaf {
        // A value that is compared with strings is a string, so `Defined` adds nothing to `Present`.
        Atom::Present(field) | Atom::Defined(field) => field,
        _ => return None,
    };
    parts.iter().any(|other| implies_presence(other, field)).then_some(field)
}

/// Whether a part is false on every row without the field: it compares the field with strings that differ from the value that
/// is read where the field is absent.
fn implies_presence(part: &Predicate, field: &MarkedField) -> bool {
    let Predicate::Atom(leaf) = part else { return false };
    let (compared, values) = match &***leaf {
        Atom::CompareText(Relation::Eq, Text::Field(compared), Text::Literal(wanted)) => {
            (compared, std::slice::from_ref(wanted))
        }
        Atom::TextIn(Text::Field(compared), values, false) => (compared, values.as_slice()),
        _ => return false,
    };
    // That value is NULL, with which every comparison is false, or an empty string.
    let replaced = match field.source {
        FieldSource::Column => field.column_type.is_nullable(),
        FieldSource::MapKey | FieldSource::ArrayPair(_) => {
            field.column_type.is_string() && !values.iter().any(String::is_empty)
        }
        FieldSource::JsonPath => false,
    };
    **compared == *field && replaced
}

fn joined(parts: &[Predicate], separator: &str, statement: &mut Statement) -> String {
    let parts: Vec<String> = parts.iter().map(|part| render(part, statement)).collect();
    format!("({})", parts.join(separator))
}

fn render_atom(atom: &Atom, statement: &mut Statement) -> String {
    match atom {
        Atom::Present(field) => is_present(field, statement),
        Atom::Defined(field) => is_defined(field, statement),
        Atom::Utf8(value) => format!("isValidUTF8({})", text(value, statement)),
        Atom::CompareText(
            relation @ (Relation::Eq | Relation::Ne),
            Text::Field(field),
            Text::Literal(wanted),
        ) => one_of(field, std::slice::from_ref(wanted), *relation == Relation::Ne, statement),
        Atom::CompareText(relation, left, right) => {
            format!("({} {} {})", text(left, statement), operator(*relation), text(right, statement))
        }
        Atom::TextIn(Text::Field(field), values, negated) => one_of(field, values, *negated, statement),
        Atom::TextIn(needle, values, negated) => {
            let needle = text(needle, statement);
            let values = set(values, statement);
            format!("({needle} {} {values})", if *negated { "NOT IN" } else { "IN" })
        }
        Atom::TextCall(function, subject, argument) => {
            let (subject, argument) = (text(subject, statement), text(argument, statement));
            text_call(*function, &subject, &argument)
        }
        Atom::TextCallAny(function, subject, arguments) => {
            text_call_any(*function, subject, arguments, statement)
        }
        Atom::ExactlyOne(parts) => {
            // `NOT` binds less tightly than `+`.
            let parts: Vec<String> =
                parts.iter().map(|part| format!("({})", render(part, statement))).collect();
            format!("({} = 1)", parts.join(" + "))
        }
        Atom::Matches(subject, pattern) => {
            let subject = text(subject, statement);
            format!("match({subject}, {})", statement.string(&pattern.re2))
        }
        // Observed with 26.7: `has` does not find a constant empty string in an array of LowCardinality(String). `hasAny`
        // does, and can use the same skip indexes.
        Atom::ArrayHas(haystack, Text::Literal(needle)) => {
            format!("hasAny({}, [{}])", searched_array(haystack, statement), statement.string(needle))
        }
        Atom::ArrayHas(haystack, needle) => {
            format!("has({}, {})", array(haystack, statement), text(needle, statement))
        }
        Atom::ArrayHasAny(haystack, values) => {
            format!("hasAny({}, {})", searched_array(haystack, statement), list(values, statement))
        }
        Atom::ArrayHasAll(haystack, values) => {
            format!("hasAll({}, {})", searched_array(haystack, statement), list(values, statement))
        }
        Atom::ArrayEq(left, Array::List(values)) if values.is_empty() => {
            format!("empty({})", array(left, statement))
        }
        Atom::ArrayEq(left, right) => format!("({} = {})", array(left, statement), array(right, statement)),
        Atom::CompareInt(relation, left, right) => {
            format!("({} {} {})", int(left, statement), operator(*relation), int(right, statement))
        }
        Atom::Flag(field) => boolean(field, statement),
        Atom::CompareNumber(relation, field, value) => compare_number(*relation, field, value, statement),
        Atom::Quantified { quantifier, array: range, variable, body } => {
            let range = array(range, statement);
            let body = render(body, statement);
            let element = element(*variable, statement);
            match quantifier {
                Quantifier::Exists => format!("arrayExists({element} -> {body}, {range})"),
                Quantifier::All => format!("arrayAll({element} -> {body}, {range})"),
                Quantifier::ExistsOne => format!("(arrayCount({element} -> {body}, {range}) = 1)"),
            }
        }
    }
}

/// Up to this number of alternatives are written individually, which is readable and can use the primary key.
const MAX_INLINE_VALUES: usize = 16;
/// Maximum number of needles of `multiSearchAny`.
const MAX_NEEDLES: usize = 255;

/// Prefixes and suffixes are looked up in one set for each length: a row costs as many lookups as there are lengths, not as
/// there are alternatives.
fn text_call_any(
    function: TextFunction,
    subject: &Text,
    arguments: &[String],
    statement: &mut Statement,
) -> String {
    let subject = text(subject, statement);
    let alternatives: Vec<String> = if arguments.len() <= MAX_INLINE_VALUES {
        let each = arguments.iter();
        each.map(|argument| text_call(function, &subject, &statement.string(argument))).collect()
    } else if function == TextFunction::Contains {
        let chunks = arguments.chunks(MAX_NEEDLES);
        chunks.map(|chunk| format!("multiSearchAny({subject}, {})", list(chunk, statement))).collect()
    } else {
        let part = if function == TextFunction::EndsWith { "right" } else { "left" };
        let mut by_length: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for argument in arguments {
            by_length.entry(argument.len()).or_default().push(argument.clone());
        }
        let sets = by_length.iter();
        sets.map(|(length, arguments)| {
            format!("({part}({subject}, {length}) IN {})", set(arguments, statement))
        })
        .collect()
    };
    format!("({})", alternatives.join(" OR "))
}

fn text_call(function: TextFunction, subject: &str, argument: &str) -> String {
    match function {
        TextFunction::StartsWith => format!("startsWith({subject}, {argument})"),
        TextFunction::EndsWith => format!("endsWith({subject}, {argument})"),
        TextFunction::Contains => format!("(position({subject}, {argument}) > 0)"),
    }
}

/// Writes an array of these strings.
fn list(values: &[String], statement: &mut Statement) -> String {
    many(values, statement).unwrap_or_else(|| format!("[{}]", statement.string_parameters(values)))
}

/// Like [`list`], for the right side of `IN`.
fn set(values: &[String], statement: &mut Statement) -> String {
    many(values, statement).unwrap_or_else(|| format!("({})", statement.string_parameters(values)))
}

/// Writes many strings as one parameter: ClickHouse takes longer to parse thousands of parameters than to use them.
fn many(values: &[String], statement: &mut Statement) -> Option<String> {
    (values.len() > MAX_INLINE_VALUES).then(|| statement.string_array(values))
}

/// Writes that the field is one of these strings, or none of them.
fn one_of(field: &MarkedField, values: &[String], negated: bool, statement: &mut Statement) -> String {
    let (value, wanted) = match (fields::stored_text(field, values, statement), values) {
        (Some((value, literals)), [_]) => (value, literals.join(", ")),
        (Some((value, literals)), _) => (value, format!("({})", literals.join(", "))),
        (None, [single]) => (fields::text_or_null(field, statement), statement.string(single)),
        (None, several) => (fields::text_or_null(field, statement), set(several, statement)),
    };
    let operator = match (values.len(), negated) {
        (1, false) => "=",
        (1, true) => "!=",
        (_, false) => "IN",
        (_, true) => "NOT IN",
    };
    if fields::key_column(field).is_some() {
        let without_null = format!("(assumeNotNull({value}) {operator} {wanted})");
        // Observed with 26.7: a `bloom_filter` index serves the comparison of the nullable value, a `set` index the
        // comparison without NULL, and neither serves the other. The elements of the former cannot be NULL. The latter
        // comparison is for indexes only: evaluating both would take a fifth of the time of a step.
        return if negated {
            without_null
        } else {
            format!("(ifNull({value} {operator} {wanted}, 0) AND indexHint({without_null}))")
        };
    }
    let comparison = if field.column_type.is_nullable() {
        // The value without its NULL is a function of the column, which no skip index serves.
        format!("ifNull({value} {operator} {wanted}, 0)")
    } else {
        format!("({value} {operator} {wanted})")
    };
    // A comparison with a map's value comes after a condition that an index on the map's values can serve.
    match fields::map_values(field) {
        Some(map_values) if !statement.per_row && !negated && field.column_type.is_string() => {
            let indexed = match item_list(field, values, statement) {
                Some(indexed) => indexed,
                None => format!("hasAny({map_values}, {})", list(values, statement)),
            };
            format!("({indexed} AND {comparison})")
        }
        _ => comparison,
    }
}

/// Writes a condition that a text index on the map's entries serves. It also holds for other entries whose key contains `=`,
/// so the comparison stays. Not as `indexHint`, which uses no text index (observed with 26.7).
fn item_list(field: &MarkedField, values: &[String], statement: &mut Statement) -> Option<String> {
    // The column's expression fails on NULL.
    let can_be_listed = field.source == FieldSource::MapKey && !field.column_type.is_nullable();
    let map = field.field.map.as_ref().filter(|_| can_be_listed)?;
    let column = quote(statement.items.get(map)?);
    let items: Vec<String> = values.iter().map(|value| format!("{}={value}", field.field.name)).collect();
    Some(format!("hasAny({column}, {})", list(&items, statement)))
}

fn text(term: &Text, statement: &mut Statement) -> String {
    match term {
        Text::Literal(literal) => statement.string(literal),
        Text::Field(field) => fields::text(field, statement),
        Text::Element(variable) => element(*variable, statement),
    }
}

fn element(variable: u32, statement: &Statement) -> String {
    statement.alias(&format!("x{variable}"))
}

fn array(term: &Array, statement: &mut Statement) -> String {
    match term {
        Array::Field(field) => fields::array(field, statement),
        Array::List(values) => {
            let values: Vec<String> = values.iter().map(|value| text(value, statement)).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

/// Writes an array that is searched for given strings: as it is stored where that makes no difference, for its skip indexes.
fn searched_array(term: &Array, statement: &mut Statement) -> String {
    let stored = match term {
        Array::Field(field) => fields::stored_array(field, statement),
        Array::List(_) => None,
    };
    stored.unwrap_or_else(|| array(term, statement))
}

/// Writes the distinct strings of a field where it is defined: its value, or its elements. Of the elements, only those that
/// begin with `prefix`, which is written as SQL.
pub(crate) fn strings(field: &MarkedField, prefix: Option<&str>, statement: &mut Statement) -> String {
    if field.logical != LogicalType::StringArray {
        return format!("[{}]", fields::text(field, statement));
    }
    let elements = format!("arrayDistinct({})", fields::array(field, statement));
    let element = statement.alias("element");
    match prefix {
        None => elements,
        Some(prefix) => format!("arrayFilter({element} -> startsWith({element}, {prefix}), {elements})"),
    }
}

fn int(term: &Int, statement: &mut Statement) -> String {
    match term {
        Int::Literal(value) => statement.int(*value),
        Int::TextSize(value) => format!("lengthUTF8({})", text(value, statement)),
        Int::ArraySize(value) => format!("length({})", array(value, statement)),
    }
}

#[cfg(test)]
mod tests;
