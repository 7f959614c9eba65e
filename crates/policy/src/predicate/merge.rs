//! Merges tests of the same value into one test.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::junction_kind::JunctionKind;
use super::work::charge_each;
use super::{Array, Atom, Predicate, Quantifier, Relation, Text, TextFunction};

/// A test that can be merged with others of its form.
pub(super) enum Form<'a> {
    /// The string is one of these, or none of these.
    Values { text: &'a Text, values: &'a [String], negated: bool },
    /// The function holds for the string and any of these, or for none of them.
    Calls { function: TextFunction, text: &'a Text, values: &'a [String], negated: bool },
    /// The array contains one of these or all of these, or the negation.
    Elements { array: &'a Array, values: &'a [String], all: bool, negated: bool },
    /// The required number of elements of the array satisfies the body.
    Bodies { array: &'a Array, variable: u32, body: &'a Predicate, quantifier: Quantifier },
}

impl<'a> Form<'a> {
    pub(super) fn from_predicate(predicate: &'a Predicate) -> Option<Self> {
        match predicate {
            Predicate::Atom(atom) => Self::from_atom(atom, false),
            Predicate::Not(inner) => match inner.parts.first() {
                Some(Predicate::Atom(atom)) => Self::from_atom(atom, true),
                _ => None,
            },
            _ => None,
        }
    }

    fn from_atom(atom: &'a Atom, negated: bool) -> Option<Self> {
        use std::slice::from_ref;
        Some(match atom {
            Atom::CompareText(Relation::Eq, text, Text::Literal(value)) => {
                Self::Values { text, values: from_ref(value), negated }
            }
            Atom::CompareText(Relation::Ne, text, Text::Literal(value)) => {
                Self::Values { text, values: from_ref(value), negated: !negated }
            }
            Atom::TextIn(text, values, none) => Self::Values { text, values, negated: negated != *none },
            Atom::TextCall(function, text, Text::Literal(value)) => {
                Self::Calls { function: *function, text, values: from_ref(value), negated }
            }
            Atom::TextCallAny(function, text, values) => {
                Self::Calls { function: *function, text, values, negated }
            }
            Atom::ArrayHas(array, Text::Literal(value)) => {
                Self::Elements { array, values: from_ref(value), all: false, negated }
            }
            Atom::ArrayHasAny(array, values) => Self::Elements { array, values, all: false, negated },
            Atom::ArrayHasAll(array, values) => Self::Elements { array, values, all: true, negated },
            Atom::Quantified { quantifier, array, variable, body } if !negated => {
                Self::Bodies { array, variable: *variable, body, quantifier: *quantifier }
            }
            _ => return None,
        })
    }

    /// Whether several tests of this form can be merged when all, or any, of them must hold.
    fn can_be_merged(&self, kind: JunctionKind) -> bool {
        match self {
            Self::Values { .. } => true,
            Self::Calls { negated, .. } => *negated == (kind == JunctionKind::All),
            Self::Elements { values, all, negated, .. } => {
                let wants_all = *negated != (kind == JunctionKind::All);
                values.len() == 1 || *all == wants_all
            }
            Self::Bodies { quantifier, .. } => match kind {
                JunctionKind::All => *quantifier == Quantifier::All,
                JunctionKind::Any => *quantifier == Quantifier::Exists,
            },
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Values { text, .. } => (0_u8, text).hash(&mut hasher),
            Self::Calls { function, text, negated, .. } => (1_u8, function, text, negated).hash(&mut hasher),
            Self::Elements { array, negated, .. } => (2_u8, array, negated).hash(&mut hasher),
            Self::Bodies { array, variable, quantifier, .. } => {
                (3_u8, array, variable, quantifier).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn merges_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Values { text: a, .. }, Self::Values { text: b, .. }) => a == b,
            (
                Self::Calls { function: f, text: a, negated: n, .. },
                Self::Calls { function: g, text: b, negated: m, .. },
            ) => f == g && a == b && n == m,
            (Self::Elements { array: a, negated: n, .. }, Self::Elements { array: b, negated: m, .. }) => {
                a == b && n == m
            }
            (
                Self::Bodies { array: a, variable: v, quantifier: p, .. },
                Self::Bodies { array: b, variable: w, quantifier: q, .. },
            ) => a == b && v == w && p == q,
            _ => false,
        }
    }
}

/// Returns the key that is equal for tests that can be merged; `None` if the test cannot be merged.
pub(super) fn key(kind: JunctionKind, test: &Predicate) -> Option<u64> {
    Form::from_predicate(test).filter(|form| form.can_be_merged(kind)).map(|form| form.key())
}

/// Whether two tests with the same [`key`] can be merged.
pub(super) fn can_merge(kind: JunctionKind, left: &Predicate, right: &Predicate) -> bool {
    match (Form::from_predicate(left), Form::from_predicate(right)) {
        (Some(left), Some(right)) => {
            left.can_be_merged(kind) && right.can_be_merged(kind) && left.merges_with(&right)
        }
        _ => false,
    }
}

/// Returns the listed values of all tests.
pub(super) fn all_values<'a>(forms: &'a [Form<'a>]) -> impl Iterator<Item = &'a String> {
    forms.iter().flat_map(|form| match form {
        Form::Values { values, .. } | Form::Calls { values, .. } | Form::Elements { values, .. } => {
            values.iter()
        }
        Form::Bodies { .. } => [].iter(),
    })
}

/// Returns the values without duplicates, in order.
pub(super) fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let values = values.inspect(|value| charge_each(1 + value.len() / 64));
    values.filter(|value| seen.insert(value.as_str())).cloned().collect()
}

/// Merges the conjunction or disjunction of several "one of these" and "none of these" tests into one.
pub(super) fn values<'a>(
    kind: JunctionKind,
    tests: impl Iterator<Item = (&'a [String], bool)>,
) -> (Vec<String>, bool) {
    // "All of them" is "not any of their negations".
    let inverted = kind == JunctionKind::All;
    let mut one_of: Vec<&String> = Vec::new();
    let mut none_of: Option<Vec<&String>> = None;
    for (values, negated) in tests {
        charge_each(values.len());
        if negated == inverted {
            one_of.extend(values);
        } else {
            let listed_values: HashSet<&String> = values.iter().collect();
            none_of = Some(match none_of {
                None => values.iter().collect(),
                Some(known) => known.into_iter().filter(|value| listed_values.contains(value)).collect(),
            });
        }
    }
    match none_of {
        None => (distinct(one_of.into_iter()), inverted),
        Some(none_of) => {
            let allowed: HashSet<&String> = one_of.into_iter().collect();
            (distinct(none_of.into_iter().filter(|value| !allowed.contains(value))), !inverted)
        }
    }
}

/// Returns the test that the string is one of these values, or none of them.
pub(super) fn one_of(text: &Text, mut values: Vec<String>, negated: bool) -> Predicate {
    match values.len() {
        0 => Predicate::constant(negated),
        1 => {
            let relation = if negated { Relation::Ne } else { Relation::Eq };
            let value = values.pop().unwrap_or_default();
            Predicate::atom(Atom::CompareText(relation, text.clone(), Text::Literal(value)))
        }
        _ => Predicate::atom(Atom::TextIn(text.clone(), values, negated)),
    }
}

/// Returns the test that the function holds for the string and any of these values.
pub(super) fn simplify_call(function: TextFunction, text: &Text, mut values: Vec<String>) -> Predicate {
    if values.iter().any(String::is_empty) {
        // Every string begins with, ends with and contains the empty string.
        return Predicate::True;
    }
    match values.len() {
        0 => Predicate::False,
        1 => {
            let value = values.pop().unwrap_or_default();
            Predicate::atom(Atom::TextCall(function, text.clone(), Text::Literal(value)))
        }
        _ => Predicate::atom(Atom::TextCallAny(function, text.clone(), values)),
    }
}

/// Returns a shorter form of the test; `None` if there is none.
pub(super) fn simplify_atom(atom: &Atom) -> Option<Predicate> {
    Some(match atom {
        Atom::Utf8(Text::Literal(_)) => Predicate::True,
        Atom::CompareText(relation, Text::Literal(left), Text::Literal(right)) => {
            Predicate::constant(relation.holds(left.as_bytes().cmp(right.as_bytes())))
        }
        Atom::CompareText(relation, left @ Text::Literal(_), right) => {
            Predicate::atom(Atom::CompareText(relation.swapped(), right.clone(), left.clone()))
        }
        Atom::CompareText(relation, left, right) if left == right => {
            Predicate::constant(relation.holds(std::cmp::Ordering::Equal))
        }
        Atom::CompareInt(relation, super::Int::Literal(left), super::Int::Literal(right)) => {
            Predicate::constant(relation.holds(left.cmp(right)))
        }
        Atom::CompareInt(relation, left @ super::Int::Literal(_), right) => {
            Predicate::atom(Atom::CompareInt(relation.swapped(), right.clone(), left.clone()))
        }
        Atom::TextIn(Text::Literal(text), values, negated) => {
            Predicate::constant(values.contains(text) != *negated)
        }
        Atom::TextIn(text, values, negated) => {
            let fewer = distinct(values.iter());
            if fewer.len() == values.len() && fewer.len() > 1 {
                return None;
            }
            one_of(text, fewer, *negated)
        }
        Atom::TextCall(function, text, Text::Literal(value)) if value.is_empty() => {
            simplify_call(*function, text, vec![value.clone()])
        }
        Atom::TextCallAny(function, text, values) => simplify_call(*function, text, distinct(values.iter())),
        Atom::ArrayHasAny(_, values) if values.is_empty() => Predicate::False,
        Atom::ArrayHasAll(_, values) if values.is_empty() => Predicate::True,
        _ => return None,
    })
}

/// Returns the condition that the required number of elements of the array satisfies the body.
pub(super) fn quantified(quantifier: Quantifier, array: &Array, variable: u32, body: Predicate) -> Predicate {
    match (quantifier, &body) {
        (Quantifier::Exists | Quantifier::ExistsOne, Predicate::False) => return Predicate::False,
        (Quantifier::All, Predicate::True) => return Predicate::True,
        _ => {}
    }
    // Use the forms that array indexes support.
    let wanted = match Form::from_predicate(&body) {
        Some(Form::Values { text: Text::Element(element), values, negated }) if *element == variable => {
            Some((values.to_vec(), negated))
        }
        _ => None,
    };
    match (quantifier, wanted) {
        (Quantifier::Exists, Some((values, false))) => {
            Predicate::atom(Atom::ArrayHasAny(array.clone(), values))
        }
        (Quantifier::All, Some((values, true))) => {
            negation(Predicate::atom(Atom::ArrayHasAny(array.clone(), values)))
        }
        _ => Predicate::atom(Atom::Quantified { quantifier, array: array.clone(), variable, body }),
    }
}

/// Returns the negation, as a single test if possible, otherwise with `Not`.
pub(super) fn negation(predicate: Predicate) -> Predicate {
    let inverted = match &predicate {
        Predicate::Atom(atom) => match &***atom {
            Atom::CompareText(relation, left, right) => {
                Some(Atom::CompareText(relation.negated(), left.clone(), right.clone()))
            }
            Atom::TextIn(text, values, negated) => Some(Atom::TextIn(text.clone(), values.clone(), !negated)),
            Atom::CompareInt(relation, left, right) => {
                Some(Atom::CompareInt(relation.negated(), left.clone(), right.clone()))
            }
            _ => None,
        },
        _ => None,
    };
    inverted.map_or_else(|| predicate.negate(), Predicate::atom)
}

/// For a presence test of a field, returns the test that the field has a value.
pub(super) fn defined_of_present(predicate: &Predicate) -> Option<Predicate> {
    match predicate {
        Predicate::Atom(atom) => match &***atom {
            Atom::Present(field) => Some(Predicate::atom(Atom::Defined(field.clone()))),
            _ => None,
        },
        _ => None,
    }
}

/// For a test that a field has a value, returns the presence test of the field.
pub(super) fn present_of_defined(predicate: &Predicate) -> Option<Predicate> {
    match predicate {
        Predicate::Atom(atom) => match &***atom {
            Atom::Defined(field) => Some(Predicate::atom(Atom::Present(field.clone()))),
            _ => None,
        },
        _ => None,
    }
}
