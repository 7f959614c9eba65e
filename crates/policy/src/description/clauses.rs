//! Describes a single test: its subject, and the condition on the subject.

use std::collections::HashSet;
use std::sync::Arc;

use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, FieldSource, LogicalType, MarkedField};

use super::limits::{MAX_LIST_ELEMENTS, MAX_TEXT_CHARS};
use super::presence::is_text_when_present;
use crate::lower::fields::defined;
use crate::predicate::{Array, Atom, Int, Predicate, Quantifier, Relation, Text, TextFunction};
use crate::syntax_errors::{escape_invisible, invisible_replacement};

/// Names of the elements that tests iterate over: `x`, `y`, `z`, `x4`, …
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Vec<u32>);

impl Names {
    /// Adds a name. Returns all names and the new one.
    pub(super) fn with(&self, variable: u32) -> (Self, String) {
        let mut names = self.clone();
        names.0.push(variable);
        let name = names.name(variable);
        (names, name)
    }

    fn name(&self, variable: u32) -> String {
        match self.0.iter().rposition(|known| *known == variable) {
            Some(0) => "x".to_owned(),
            Some(1) => "y".to_owned(),
            Some(2) => "z".to_owned(),
            Some(at) => format!("x{}", at + 1),
            None => "the element".to_owned(),
        }
    }
}

/// A test as subject and phrase: `ServiceName`, `is "checkout"`.
pub(super) struct Clause {
    pub(super) subject: String,
    pub(super) phrase: String,
}

/// Whether the test is about this field's value only, so that it can continue a description of the field.
pub(super) fn is_about(atom: &Atom, field: &FieldRef) -> bool {
    match subject(atom) {
        Some(Subject::Text(Text::Field(of))) | Some(Subject::Field(of)) => &of.field == field,
        _ => false,
    }
}

/// Whether the test is about this element only, so that the element needs no name.
pub(super) fn is_about_element(atom: &Atom, variable: u32) -> bool {
    let element = Text::Element(variable);
    let other = match atom {
        Atom::CompareText(_, _, other) | Atom::TextCall(_, _, other) => Some(other),
        _ => None,
    };
    matches!(subject(atom), Some(Subject::Text(text)) if *text == element) && other != Some(&element)
}

/// Subject of a test.
enum Subject<'a> {
    Text(&'a Text),
    Field(&'a Arc<MarkedField>),
}

fn subject(atom: &Atom) -> Option<Subject<'_>> {
    match atom {
        Atom::CompareText(_, text, _)
        | Atom::TextIn(text, ..)
        | Atom::TextCall(_, text, _)
        | Atom::TextCallAny(_, text, _)
        | Atom::Matches(text, _)
        | Atom::CompareInt(_, Int::TextSize(text), Int::Literal(_)) => Some(Subject::Text(text)),
        Atom::Flag(field)
        | Atom::CompareNumber(_, field, _)
        | Atom::ArrayEq(Array::Field(field), _)
        | Atom::CompareInt(_, Int::ArraySize(Array::Field(field)), Int::Literal(_)) => {
            Some(Subject::Field(field))
        }
        Atom::ArrayHasAll(Array::Field(field), values) if values.len() > 1 => Some(Subject::Field(field)),
        _ => None,
    }
}

/// Describes the test or its negation. `known` are fields that are known to have a value.
pub(super) fn clause(atom: &Atom, negated: bool, known: &HashSet<&FieldRef>, names: &Names) -> Clause {
    let is = if negated { "is not" } else { "is" };
    let text = |text: &Text| describe_text(text, names);
    let new_clause = |subject: String, phrase: String| Clause { subject, phrase };
    match atom {
        Atom::Present(field) => {
            new_clause(name(field), if negated { "is absent" } else { "is present" }.to_owned())
        }
        Atom::Defined(field) => new_clause(name(field), value_of_type(field, negated)),
        Atom::Utf8(of) => new_clause(text(of), format!("{is} valid UTF-8")),
        Atom::CompareText(relation, left @ Text::Literal(_), right @ (Text::Field(_) | Text::Element(_))) => {
            new_clause(text(right), compare_text(apply_negation(relation.swapped(), negated), left, names))
        }
        Atom::CompareText(relation, left, right) => {
            new_clause(text(left), compare_text(apply_negation(*relation, negated), right, names))
        }
        Atom::TextIn(needle, values, none) => new_clause(text(needle), one_of(values, *none != negated)),
        Atom::TextCall(function, subject, argument) => new_clause(
            text(subject),
            format!("{} {}", call(*function, negated), describe_argument(argument, names)),
        ),
        Atom::TextCallAny(function, subject, values) => {
            let phrase = match (values.as_slice(), negated) {
                ([value], _) => format!("{} {}", call(*function, negated), quoted(value)),
                (_, false) => format!("{} one of {}", call(*function, false), format_texts(values)),
                (_, true) => format!("{} none of {}", call(*function, false), format_texts(values)),
            };
            new_clause(text(subject), phrase)
        }
        Atom::Matches(subject, pattern) => {
            let matches = if negated { "does not match" } else { "matches" };
            new_clause(text(subject), format!("{matches} the pattern `{}`", describe_pattern(&pattern.text)))
        }
        Atom::ArrayHas(array, needle) => new_clause(
            elements(Quantifier::Exists, array, negated, names),
            compare_text(Relation::Eq, needle, names),
        ),
        Atom::ArrayHasAll(array, values) if values.len() > 1 => {
            let has = if negated { "does not have all of" } else { "has all of" };
            new_clause(describe_array(array, names), format!("{has} {}", format_texts(values)))
        }
        Atom::ArrayHasAny(array, values) | Atom::ArrayHasAll(array, values) => {
            new_clause(elements(Quantifier::Exists, array, negated, names), one_of(values, false))
        }
        Atom::ArrayEq(left, right @ Array::Field(_)) => new_clause(
            describe_array(left, names),
            format!("{is} the same list as {}", describe_array(right, names)),
        ),
        Atom::ArrayEq(left, right) => {
            new_clause(describe_array(left, names), format!("{is} the list {}", describe_array(right, names)))
        }
        Atom::CompareInt(relation, left, right) => {
            compare_int(apply_negation(*relation, negated), left, right, names)
        }
        Atom::Flag(field) => {
            let value = match negated {
                false => "is true",
                true if matches!(defined(field), Predicate::True) || known.contains(&field.field) => {
                    "is false"
                }
                true => "is not true",
            };
            new_clause(name(field), value.to_owned())
        }
        Atom::CompareNumber(relation, field, number) => {
            // NaN is not equal to itself and not less than any number, so the negation is not another relation.
            let (not, relation) = match (negated, relation) {
                (true, Relation::Eq | Relation::Ne) => ("", relation.negated()),
                (true, _) => ("is not: ", *relation),
                (false, _) => ("", *relation),
            };
            new_clause(name(field), format!("{not}{} {number}", number_relation(relation)))
        }
        // These consist of other predicates and are described by the caller.
        Atom::Quantified { .. } | Atom::ExactlyOne(_) => {
            new_clause("something".to_owned(), "holds".to_owned())
        }
    }
}

fn apply_negation(relation: Relation, negated: bool) -> Relation {
    if negated { relation.negated() } else { relation }
}

/// Returns `is present`, or, for a field that can be present without a value of its type, the type that it must have.
fn value_of_type(field: &MarkedField, negated: bool) -> String {
    if is_text_when_present(field) {
        return if negated { "is absent" } else { "is present" }.to_owned();
    }
    let kind = match field.logical {
        LogicalType::String => "a text",
        LogicalType::StringArray => "a list",
        LogicalType::Boolean => "a boolean",
        LogicalType::Number => "a number",
    };
    let absent = if field.source == FieldSource::Column { "" } else { "present as " };
    if negated { format!("is not {absent}{kind}") } else { format!("is {absent}{kind}") }
}

fn compare_text(relation: Relation, other: &Text, names: &Names) -> String {
    let is_literal = matches!(other, Text::Literal(_));
    let other = describe_text(other, names);
    match (relation, is_literal) {
        (Relation::Eq, true) => format!("is {other}"),
        (Relation::Ne, true) => format!("is not {other}"),
        (Relation::Eq, false) => format!("is the same as {other}"),
        (Relation::Ne, false) => format!("is not the same as {other}"),
        (Relation::Lt, _) => format!("sorts before {other}"),
        (Relation::Le, _) => format!("sorts no later than {other}"),
        (Relation::Gt, _) => format!("sorts after {other}"),
        (Relation::Ge, _) => format!("sorts no earlier than {other}"),
    }
}

/// Describes list membership: `is one of "a", "b"`.
fn one_of(values: &[String], negated: bool) -> String {
    match (values, negated) {
        ([value], false) => format!("is {}", quoted(value)),
        ([value], true) => format!("is not {}", quoted(value)),
        (_, false) => format!("is one of {}", format_texts(values)),
        (_, true) => format!("is none of {}", format_texts(values)),
    }
}

fn call(function: TextFunction, negated: bool) -> &'static str {
    match (function, negated) {
        (TextFunction::StartsWith, false) => "starts with",
        (TextFunction::EndsWith, false) => "ends with",
        (TextFunction::Contains, false) => "contains",
        (TextFunction::StartsWith, true) => "does not start with",
        (TextFunction::EndsWith, true) => "does not end with",
        (TextFunction::Contains, true) => "does not contain",
    }
}

fn compare_int(relation: Relation, left: &Int, right: &Int, names: &Names) -> Clause {
    let (relation, left, right) = match (left, right) {
        (Int::Literal(_), Int::TextSize(_) | Int::ArraySize(_)) => (relation.swapped(), right, left),
        _ => (relation, left, right),
    };
    let counted = match left {
        Int::TextSize(text) => Some((describe_text(text, names), "character")),
        Int::ArraySize(array) => Some((describe_array(array, names), "element")),
        Int::Literal(_) => None,
    };
    if let (Some((subject, unit)), Int::Literal(count)) = (counted, right) {
        let many = match (relation, count) {
            (Relation::Eq | Relation::Le, 0) | (Relation::Lt, 1) => {
                return Clause { subject, phrase: "is empty".to_owned() };
            }
            (Relation::Ne | Relation::Gt, 0) | (Relation::Ge, 1) => {
                return Clause { subject, phrase: "is not empty".to_owned() };
            }
            (Relation::Eq, _) => "has exactly",
            (Relation::Ne, _) => "does not have exactly",
            (Relation::Lt, _) => "has fewer than",
            (Relation::Le, _) => "has at most",
            (Relation::Gt, _) => "has more than",
            (Relation::Ge, _) => "has at least",
        };
        let plural = if *count == 1 { "" } else { "s" };
        return Clause { subject, phrase: format!("{many} {count} {unit}{plural}") };
    }
    let number = |int: &Int| match int {
        Int::Literal(value) => value.to_string(),
        Int::TextSize(text) => format!("the number of characters of {}", describe_text(text, names)),
        Int::ArraySize(array) => format!("the number of elements of {}", describe_array(array, names)),
    };
    let phrase = format!("{} {}", number_relation(relation), number(right));
    Clause { subject: number(left), phrase }
}

fn number_relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Eq => "is",
        Relation::Ne => "is not",
        Relation::Lt => "is less than",
        Relation::Le => "is at most",
        Relation::Gt => "is more than",
        Relation::Ge => "is at least",
    }
}

/// Describes elements: `some element of Events.Name`.
pub(super) fn elements(quantifier: Quantifier, array: &Array, negated: bool, names: &Names) -> String {
    let many = match (quantifier, negated) {
        (Quantifier::Exists, false) => "some",
        (Quantifier::All, false) => "every",
        (Quantifier::ExistsOne, false) => "exactly one",
        (Quantifier::Exists, true) => "no",
        (Quantifier::All, true) => "not every",
        (Quantifier::ExistsOne, true) => "not exactly one",
    };
    format!("{many} element of {}", describe_array(array, names))
}

fn describe_text(text: &Text, names: &Names) -> String {
    match text {
        Text::Literal(text) => quoted(text),
        Text::Field(field) => name(field),
        Text::Element(variable) => names.name(*variable),
    }
}

/// Describes an operand of a text function. Words, not only quotes, distinguish a field from a text.
fn describe_argument(text: &Text, names: &Names) -> String {
    match text {
        Text::Field(_) => format!("the value of {}", describe_text(text, names)),
        _ => describe_text(text, names),
    }
}

fn describe_array(array: &Array, names: &Names) -> String {
    match array {
        Array::Field(field) => name(field),
        Array::List(values) => {
            format!("[{}]", format_list(values.iter().map(|value| describe_text(value, names))))
        }
    }
}

fn name(field: &MarkedField) -> String {
    truncate(&escape_invisible(&field.field.to_string()), MAX_TEXT_CHARS)
}

/// Formats a text in CEL syntax, with invisible characters escaped.
fn quoted(text: &str) -> String {
    let mut short = String::new();
    for character in text.chars() {
        let written = escape_invisible(&escape(character.encode_utf8(&mut [0; 4])));
        if short.chars().count() + written.chars().count() > MAX_TEXT_CHARS {
            return format!("\"{short}\"… ({} characters)", text.chars().count());
        }
        short.push_str(&written);
    }
    format!("\"{short}\"")
}

/// Formats a pattern so that it stays on one line and ends where it seems to end.
fn describe_pattern(pattern: &str) -> String {
    let escaped = |character| match character {
        '`' => "\\x{60}".to_owned(),
        other if invisible_replacement(other).is_some() => format!("\\x{{{:X}}}", u32::from(other)),
        other => other.to_string(),
    };
    truncate(&pattern.chars().map(escaped).collect::<String>(), MAX_TEXT_CHARS)
}

fn truncate(text: &str, max_chars: usize) -> String {
    let count = text.chars().count();
    if count <= max_chars {
        return text.to_owned();
    }
    format!("{}… ({count} characters)", text.chars().take(max_chars).collect::<String>())
}

fn format_texts(values: &[String]) -> String {
    format_list(values.iter().map(|value| quoted(value)))
}

fn format_list(values: impl ExactSizeIterator<Item = String>) -> String {
    let more = values.len().saturating_sub(MAX_LIST_ELEMENTS);
    let mut text = values.take(MAX_LIST_ELEMENTS).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" … and {more} more"));
    }
    text
}
