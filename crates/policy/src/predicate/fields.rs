//! The fields that a predicate refers to.

use std::sync::Arc;

use tracewarden_model::MarkedField;

use super::{Array, Atom, Int, Junction, Predicate, Text};

/// Returns the replacement of a field.
type FieldReplacement<'a> = &'a dyn Fn(&Arc<MarkedField>) -> Arc<MarkedField>;

impl Predicate {
    /// Returns the field of every occurrence.
    pub fn fields(&self) -> Vec<&Arc<MarkedField>> {
        match self {
            Self::True | Self::False => Vec::new(),
            Self::And(junction) | Self::Or(junction) | Self::Not(junction) => {
                junction.parts.iter().flat_map(Self::fields).collect()
            }
            Self::Atom(atom) => atom.fields(),
        }
    }

    /// Returns the same predicate with its fields replaced. The caller must ensure that both fields have the same
    /// values where both have one, and that the new fields are defined where the predicate assumes it.
    #[must_use]
    pub fn with_fields(&self, replace: FieldReplacement<'_>) -> Self {
        let changed = |junction: &Junction| {
            Junction::new(junction.parts.iter().map(|part| part.with_fields(replace)).collect())
        };
        match self {
            Self::True => Self::True,
            Self::False => Self::False,
            Self::And(junction) => Self::And(changed(junction)),
            Self::Or(junction) => Self::Or(changed(junction)),
            Self::Not(junction) => Self::Not(changed(junction)),
            Self::Atom(atom) => Self::atom(atom.with_fields(replace)),
        }
    }
}

impl Atom {
    pub(crate) fn fields(&self) -> Vec<&Arc<MarkedField>> {
        match self {
            Self::Present(field)
            | Self::Defined(field)
            | Self::Flag(field)
            | Self::CompareNumber(_, field, _) => vec![field],
            Self::Utf8(text)
            | Self::TextIn(text, ..)
            | Self::TextCallAny(_, text, _)
            | Self::Matches(text, _) => text.field().into_iter().collect(),
            Self::CompareText(_, left, right) | Self::TextCall(_, left, right) => {
                left.field().into_iter().chain(right.field()).collect()
            }
            Self::ArrayHas(array, text) => array.fields().into_iter().chain(text.field()).collect(),
            Self::ArrayHasAny(array, _) | Self::ArrayHasAll(array, _) => array.fields(),
            Self::ArrayEq(left, right) => [left.fields(), right.fields()].concat(),
            Self::CompareInt(_, left, right) => [left.fields(), right.fields()].concat(),
            Self::Quantified { array, body, .. } => [array.fields(), body.fields()].concat(),
            Self::ExactlyOne(parts) => parts.iter().flat_map(Predicate::fields).collect(),
        }
    }

    fn with_fields(&self, replace: FieldReplacement<'_>) -> Self {
        let text = |text: &Text| text.with_fields(replace);
        let array = |array: &Array| array.with_fields(replace);
        let int = |int: &Int| match int {
            Int::Literal(value) => Int::Literal(*value),
            Int::TextSize(of) => Int::TextSize(text(of)),
            Int::ArraySize(of) => Int::ArraySize(array(of)),
        };
        match self {
            Self::Present(field) => Self::Present(replace(field)),
            Self::Defined(field) => Self::Defined(replace(field)),
            Self::Flag(field) => Self::Flag(replace(field)),
            Self::CompareNumber(relation, field, number) => {
                Self::CompareNumber(*relation, replace(field), number.clone())
            }
            Self::Utf8(of) => Self::Utf8(text(of)),
            Self::TextIn(needle, values, negated) => Self::TextIn(text(needle), values.clone(), *negated),
            Self::TextCallAny(function, subject, arguments) => {
                Self::TextCallAny(*function, text(subject), arguments.clone())
            }
            Self::ExactlyOne(parts) => {
                Self::ExactlyOne(parts.iter().map(|part| part.with_fields(replace)).collect())
            }
            Self::Matches(subject, pattern) => Self::Matches(text(subject), pattern.clone()),
            Self::CompareText(relation, left, right) => Self::CompareText(*relation, text(left), text(right)),
            Self::TextCall(function, subject, argument) => {
                Self::TextCall(*function, text(subject), text(argument))
            }
            Self::ArrayHas(haystack, needle) => Self::ArrayHas(array(haystack), text(needle)),
            Self::ArrayHasAny(haystack, values) => Self::ArrayHasAny(array(haystack), values.clone()),
            Self::ArrayHasAll(haystack, values) => Self::ArrayHasAll(array(haystack), values.clone()),
            Self::ArrayEq(left, right) => Self::ArrayEq(array(left), array(right)),
            Self::CompareInt(relation, left, right) => Self::CompareInt(*relation, int(left), int(right)),
            Self::Quantified { quantifier, array: range, variable, body } => Self::Quantified {
                quantifier: *quantifier,
                array: array(range),
                variable: *variable,
                body: body.with_fields(replace),
            },
        }
    }
}

impl Text {
    fn field(&self) -> Option<&Arc<MarkedField>> {
        match self {
            Self::Field(field) => Some(field),
            Self::Literal(_) | Self::Element(_) => None,
        }
    }

    fn with_fields(&self, replace: FieldReplacement<'_>) -> Self {
        match self {
            Self::Field(field) => Self::Field(replace(field)),
            Self::Literal(_) | Self::Element(_) => self.clone(),
        }
    }
}

impl Array {
    pub(crate) fn fields(&self) -> Vec<&Arc<MarkedField>> {
        match self {
            Self::Field(field) => vec![field],
            Self::List(values) => values.iter().filter_map(Text::field).collect(),
        }
    }

    fn with_fields(&self, replace: FieldReplacement<'_>) -> Self {
        match self {
            Self::Field(field) => Self::Field(replace(field)),
            Self::List(values) => Self::List(values.iter().map(|value| value.with_fields(replace)).collect()),
        }
    }
}

impl Int {
    fn fields(&self) -> Vec<&Arc<MarkedField>> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::TextSize(text) => text.field().into_iter().collect(),
            Self::ArraySize(array) => array.fields(),
        }
    }
}
