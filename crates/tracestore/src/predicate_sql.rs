//! Predicates as SQL.
//!
//! Every expression here has the value 0 or 1 on every row, never NULL, and none can raise on any data: one malformed
//! span must never fail other people's queries. Presence stands before the value, and beside a comparison with a map's
//! value stands what its skip indexes can serve: `mapContains` for those on keys, `hasAny` for those on values.
//!
//! The value under a key is `mapValues(m)[indexOf(mapKeys(m), k)]`, never `m[k]`. A map may hold a key twice, and the
//! first one counts; `m[k]` tries the position at which the row before had the key, so that its result for such a map
//! depends on other rows (seen with 26.7). Two statements could then disagree about who may see a trace.

use std::collections::BTreeMap;

use tracewarden_model::{ColumnType, LogicalType, MarkedField, Number};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Array, Atom, Int, Quantifier, Relation, Text, TextFunction};

use crate::sql::{Statement, quote};

/// The predicate as people can read it: SQL with its values in place. For showing, never for sending.
pub fn readable(predicate: &Predicate) -> String {
    let mut statement = Statement::default();
    let text = render(predicate, &mut statement);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{p") {
        shown.push_str(before);
        // Names of columns may look like a placeholder; they are none of ours then.
        let placeholder = after.split_once('}').and_then(|(inside, rest)| {
            let (number, kind) = inside.split_once(':')?;
            Some((statement.parameters.get(number.parse::<usize>().ok()?)?, kind, rest))
        });
        rest = match placeholder {
            Some((value, "String", rest)) => {
                shown.push_str(&format!("'{}'", value.replace('\'', "\\'")));
                rest
            }
            Some((value, _, rest)) => {
                shown.push_str(value);
                rest
            }
            None => {
                shown.push_str("{p");
                after
            }
        };
    }
    shown.push_str(rest);
    shown
}

/// The predicate as SQL, its values as parameters of `statement`.
pub(crate) fn render(predicate: &Predicate, statement: &mut Statement) -> String {
    match predicate {
        Predicate::True => "1".to_owned(),
        Predicate::False => "0".to_owned(),
        Predicate::And(junction) => joined(junction.parts(), " AND ", statement),
        Predicate::Or(junction) => joined(junction.parts(), " OR ", statement),
        Predicate::Not(junction) => format!("NOT {}", joined(junction.parts(), " AND ", statement)),
        Predicate::Atom(atom) => render_atom(atom, statement),
    }
}

fn joined(parts: &[Predicate], separator: &str, statement: &mut Statement) -> String {
    let parts: Vec<String> = parts.iter().map(|part| render(part, statement)).collect();
    format!("({})", parts.join(separator))
}

fn render_atom(atom: &Atom, statement: &mut Statement) -> String {
    match atom {
        Atom::Present(field) => present(field, statement),
        Atom::Defined(field) => defined(field, statement),
        Atom::Utf8(value) => format!("isValidUTF8({})", text(value, statement)),
        Atom::CompareText(Relation::Eq, Text::Field(field), Text::Literal(wanted)) => {
            let equal = format!("({} = {})", value(field, statement), statement.string(wanted));
            with_values(field, std::slice::from_ref(wanted), equal, statement)
        }
        Atom::CompareText(relation, left, right) => {
            format!("({} {} {})", text(left, statement), operator(*relation), text(right, statement))
        }
        Atom::TextIn(Text::Field(field), values, false) => {
            let found = format!("({} IN ({}))", value(field, statement), strings(values, statement));
            with_values(field, values, found, statement)
        }
        Atom::TextIn(needle, values, negated) => {
            let needle = text(needle, statement);
            let values = strings(values, statement);
            format!("({needle} {} ({values}))", if *negated { "NOT IN" } else { "IN" })
        }
        Atom::TextCall(function, subject, argument) => {
            let (subject, argument) = (text(subject, statement), text(argument, statement));
            text_call(*function, &subject, &argument)
        }
        Atom::TextCallAny(function, subject, arguments) => {
            text_call_any(*function, subject, arguments, statement)
        }
        Atom::ExactlyOne(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| render(part, statement)).collect();
            format!("({} = 1)", parts.join(" + "))
        }
        Atom::Matches(subject, pattern) => {
            let subject = text(subject, statement);
            format!("match({subject}, {})", statement.string(pattern))
        }
        // Seen with 26.7: `has` does not find a constant empty string in an array of LowCardinality(String); `hasAny`
        // does, and is served by the same skip indexes.
        Atom::ArrayHas(haystack, Text::Literal(needle)) => {
            format!("hasAny({}, [{}])", array(haystack, statement), statement.string(needle))
        }
        Atom::ArrayHas(haystack, needle) => {
            format!("has({}, {})", array(haystack, statement), text(needle, statement))
        }
        Atom::ArrayHasAny(haystack, values) => {
            format!("hasAny({}, [{}])", array(haystack, statement), strings(values, statement))
        }
        Atom::ArrayHasAll(haystack, values) => {
            format!("hasAll({}, [{}])", array(haystack, statement), strings(values, statement))
        }
        Atom::ArrayEq(left, Array::List(values)) if values.is_empty() => {
            format!("empty({})", array(left, statement))
        }
        Atom::ArrayEq(left, right) => format!("({} = {})", array(left, statement), array(right, statement)),
        Atom::CompareInt(relation, left, right) => {
            format!("({} {} {})", int(left, statement), operator(*relation), int(right, statement))
        }
        Atom::Flag(field) => flag(field, statement),
        Atom::CompareNumber(relation, field, value) => compare_number(*relation, field, *value, statement),
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

/// Up to so many alternatives are written one by one, which is what the primary key can serve.
const WRITTEN_OUT: usize = 16;
/// What `multiSearchAny` takes.
const MAX_NEEDLES: usize = 255;

/// Beginnings and ends are looked up in one set for each length, so that a row costs as many look-ups as there are
/// lengths, not as there are alternatives.
fn text_call_any(
    function: TextFunction,
    subject: &Text,
    arguments: &[String],
    statement: &mut Statement,
) -> String {
    let subject = text(subject, statement);
    let mut alternatives = Vec::new();
    if arguments.len() <= WRITTEN_OUT {
        for argument in arguments {
            alternatives.push(text_call(function, &subject, &statement.string(argument)));
        }
    } else if function == TextFunction::Contains {
        for chunk in arguments.chunks(MAX_NEEDLES) {
            alternatives.push(format!("multiSearchAny({subject}, [{}])", strings(chunk, statement)));
        }
    } else {
        let mut by_length: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for argument in arguments {
            by_length.entry(argument.len()).or_default().push(argument.clone());
        }
        for (length, arguments) in by_length {
            let part = match function {
                TextFunction::EndsWith => format!("right({subject}, {length})"),
                _ => format!("left({subject}, {length})"),
            };
            alternatives.push(format!("({part} IN ({}))", strings(&arguments, statement)));
        }
    }
    format!("({})", alternatives.join(" OR "))
}

fn text_call(function: TextFunction, subject: &str, argument: &str) -> String {
    match function {
        TextFunction::StartsWith => format!("startsWith({subject}, {argument})"),
        TextFunction::EndsWith => format!("endsWith({subject}, {argument})"),
        TextFunction::Contains => format!("(position({subject}, {argument}) > 0)"),
    }
}

fn operator(relation: Relation) -> &'static str {
    match relation {
        Relation::Eq => "=",
        Relation::Ne => "!=",
        Relation::Lt => "<",
        Relation::Le => "<=",
        Relation::Gt => ">",
        Relation::Ge => ">=",
    }
}

fn strings(values: &[String], statement: &mut Statement) -> String {
    values.iter().map(|value| statement.string(value)).collect::<Vec<_>>().join(", ")
}

/// A comparison with a map's value, behind the condition that an index on the map's values can serve.
fn with_values(
    field: &MarkedField,
    values: &[String],
    comparison: String,
    statement: &mut Statement,
) -> String {
    match &field.field.map {
        Some(map) => {
            format!("(hasAny(mapValues({}), [{}]) AND {comparison})", quote(map), strings(values, statement))
        }
        None => comparison,
    }
}

/// The column, or the value under the key: NULL stays NULL.
fn raw(field: &MarkedField, statement: &mut Statement) -> String {
    let name = &field.field.name;
    match &field.field.map {
        None => quote(name),
        Some(map) => {
            let map = quote(map);
            let keys = if name.is_empty() {
                // Seen with 26.7: `has` and `indexOf` do not find a constant empty string among LowCardinality(String).
                let key = statement.own("key");
                format!("arrayMap({key} -> toString({key}), mapKeys({map}))")
            } else {
                format!("mapKeys({map})")
            };
            format!("mapValues({map})[indexOf({keys}, {})]", statement.string(name))
        }
    }
}

/// The value where the field is present; anything elsewhere.
fn value(field: &MarkedField, statement: &mut Statement) -> String {
    let raw = raw(field, statement);
    if field.column_type.is_nullable() { format!("assumeNotNull({raw})") } else { raw }
}

fn present(field: &MarkedField, statement: &mut Statement) -> String {
    let not_null = field.column_type.is_nullable().then(|| format!("isNotNull({})", raw(field, statement)));
    let in_map = field.field.map.as_ref().map(|map| {
        let (map, key) = (quote(map), statement.string(&field.field.name));
        // See `raw` about the empty key.
        if field.field.name.is_empty() {
            format!("hasAny(mapKeys({map}), [{key}])")
        } else {
            format!("mapContains({map}, {key})")
        }
    });
    match (in_map, not_null) {
        (Some(in_map), Some(not_null)) => format!("({in_map} AND {not_null})"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "1".to_owned(),
    }
}

fn defined(field: &MarkedField, statement: &mut Statement) -> String {
    let present = present(field, statement);
    if field.field.map.is_none() {
        return present;
    }
    let value = value(field, statement);
    let typed = match field.logical {
        LogicalType::String => return present,
        LogicalType::Boolean => format!("({value} IN ('true', 'false'))"),
        LogicalType::Number => format!("isNotNull(toFloat64OrNull({value}))"),
        // The parser passes over a byte order mark, which is no JSON: hence the first character.
        LogicalType::StringArray => format!(
            "isValidUTF8({value}) AND isValidJSON({value}) AND match({value}, '^[ \\\\t\\\\n\\\\r]*\\\\[') \
             AND arrayAll({element} -> JSONType({element}) = 'String', JSONExtractArrayRaw({value}))",
            element = statement.own("element"),
        ),
    };
    format!("({present} AND {typed})")
}

fn text(term: &Text, statement: &mut Statement) -> String {
    match term {
        Text::Literal(literal) => statement.string(literal),
        Text::Field(field) => value(field, statement),
        Text::Element(variable) => element(*variable, statement),
    }
}

fn element(variable: u32, statement: &Statement) -> String {
    statement.own(&format!("x{variable}"))
}

fn array(term: &Array, statement: &mut Statement) -> String {
    match term {
        Array::Field(field) if field.field.map.is_some() => {
            format!("JSONExtract({}, 'Array(String)')", value(field, statement))
        }
        Array::Field(field) => value(field, statement),
        Array::List(values) => {
            let values: Vec<String> = values.iter().map(|value| text(value, statement)).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

fn int(term: &Int, statement: &mut Statement) -> String {
    match term {
        Int::Literal(value) => statement.int(*value),
        Int::TextSize(value) => format!("lengthUTF8({})", text(value, statement)),
        Int::ArraySize(value) => format!("length({})", array(value, statement)),
    }
}

fn flag(field: &MarkedField, statement: &mut Statement) -> String {
    let value = value(field, statement);
    if field.field.map.is_some() { format!("({value} = 'true')") } else { value }
}

/// A comparison of numbers: times are seconds since the epoch, strings are parsed.
fn compare_number(
    relation: Relation,
    field: &MarkedField,
    wanted: Number,
    statement: &mut Statement,
) -> String {
    let value = value(field, statement);
    let relation = operator(relation);
    let wanted = as_integer(wanted);
    let parameter = statement.number(wanted);
    match field.column_type.bare() {
        ColumnType::String => {
            let as_float = format!("(assumeNotNull(toFloat64OrNull({value})) {relation} {parameter})");
            if matches!(wanted, Number::Float(_)) {
                return as_float;
            }
            // Integers of 64 bits do not survive a trip through a float.
            let exact = |function: &str, otherwise: String| {
                let parsed = format!("{function}({value})");
                format!(
                    "if(isNotNull({parsed}), assumeNotNull({parsed}) {relation} {parameter}, {otherwise})"
                )
            };
            exact("toInt64OrNull", exact("toUInt64OrNull", as_float))
        }
        ColumnType::DateTime => format!("(toUnixTimestamp({value}) {relation} {parameter})"),
        ColumnType::DateTime64 { .. } => format!("(toFloat64({value}) {relation} {parameter})"),
        // 0.1 as it is stored in 32 bits is what someone who writes 0.1 means.
        ColumnType::Float { bits: 32 } if matches!(wanted, Number::Float(_)) => {
            format!("({value} {relation} toFloat32({parameter}))")
        }
        _ => format!("({value} {relation} {parameter})"),
    }
}

/// A float that is a whole number as the integer that it is, so that `5.0` means what `5` means.
fn as_integer(number: Number) -> Number {
    // Every whole float below 2^63 is an i64; the conversion saturates beyond, which the bound excludes.
    match number {
        Number::Float(float) if float.fract() == 0.0 && float.abs() < 9.2e18 => Number::Int(float as i64),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_policy::predicate::{Atom, Relation, Text};

    use super::*;

    #[test]
    fn shown_values_are_not_taken_for_placeholders() {
        let literal = |text: &str| Text::Literal(text.to_owned());
        let equal = Atom::CompareText(Relation::Eq, literal("{p0:String}"), literal("it's"));
        assert_eq!(readable(&Predicate::atom(equal)), "('{p0:String}' = 'it\\'s')");
    }
}
