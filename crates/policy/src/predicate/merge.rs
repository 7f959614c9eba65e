//! Merges tests of the same value into one test.

use std::collections::HashSet;

use super::work::charge_each;
use super::{Array, Atom, Int, JunctionKind, Predicate, Quantifier, Relation, Text, TextFunction, hash};

/// What tests have in common that can be merged into one.
#[derive(PartialEq)]
pub(super) enum Subject<'a> {
    /// The string is one of the values, or none of them.
    Values(&'a Text),
    /// The function holds for the string and any of the values; if the flag is set, for none of them.
    Calls(TextFunction, &'a Text, bool),
    /// The array contains one or all of the values; if the flag is set, it does not.
    Elements(&'a Array, bool),
    /// The required number of elements of the array satisfies the body.
    Bodies(Quantifier, &'a Array, u32),
}

impl Subject<'_> {
    fn key(&self) -> u64 {
        match self {
            Self::Values(text) => hash(&(0_u8, text)),
            Self::Calls(function, text, negated) => hash(&(1_u8, function, text, negated)),
            Self::Elements(array, negated) => hash(&(2_u8, array, negated)),
            Self::Bodies(quantifier, array, variable) => hash(&(3_u8, array, variable, quantifier)),
        }
    }
}

/// A test that can be merged with others of its subject.
pub(super) struct Form<'a> {
    pub(super) subject: Subject<'a>,
    /// Empty for [`Subject::Bodies`].
    pub(super) values: &'a [String],
    /// Whether the string must be none of the values, or the array must contain all of them.
    pub(super) none_or_all: bool,
    /// For [`Subject::Bodies`] only.
    pub(super) body: Option<&'a Predicate>,
}

impl<'a> Form<'a> {
    pub(super) fn from_predicate(predicate: &'a Predicate) -> Option<Self> {
        use std::slice::from_ref;
        let (atom, negated) = predicate.as_test()?;
        let (subject, values, none_or_all): (_, &[String], _) = match atom {
            Atom::CompareText(relation @ (Relation::Eq | Relation::Ne), text, Text::Literal(value)) => {
                (Subject::Values(text), from_ref(value), negated != (*relation == Relation::Ne))
            }
            Atom::TextIn(text, values, none) => (Subject::Values(text), values, negated != *none),
            Atom::TextCall(function, text, Text::Literal(value)) => {
                (Subject::Calls(*function, text, negated), from_ref(value), false)
            }
            Atom::TextCallAny(function, text, values) => {
                (Subject::Calls(*function, text, negated), values, false)
            }
            Atom::ArrayHas(array, Text::Literal(value)) => {
                (Subject::Elements(array, negated), from_ref(value), false)
            }
            Atom::ArrayHasAny(array, values) => (Subject::Elements(array, negated), values, false),
            Atom::ArrayHasAll(array, values) => (Subject::Elements(array, negated), values, true),
            Atom::Quantified { quantifier, array, variable, body } if !negated => {
                let subject = Subject::Bodies(*quantifier, array, *variable);
                return Some(Self { subject, values: &[], none_or_all: false, body: Some(body) });
            }
            _ => return None,
        };
        Some(Self { subject, values, none_or_all, body: None })
    }

    /// Whether several tests of this form can be merged when all, or any, of them must hold.
    fn can_be_merged(&self, kind: JunctionKind) -> bool {
        match self.subject {
            Subject::Values(_) => true,
            Subject::Calls(_, _, negated) => negated == (kind == JunctionKind::All),
            Subject::Elements(_, negated) => {
                let wants_all = negated != (kind == JunctionKind::All);
                self.values.len() == 1 || self.none_or_all == wants_all
            }
            Subject::Bodies(quantifier, ..) => match kind {
                JunctionKind::All => quantifier == Quantifier::All,
                JunctionKind::Any => quantifier == Quantifier::Exists,
            },
        }
    }
}

/// Returns the key that is equal for tests that can be merged; `None` if the test cannot be merged.
pub(super) fn key(kind: JunctionKind, test: &Predicate) -> Option<u64> {
    Form::from_predicate(test).filter(|form| form.can_be_merged(kind)).map(|form| form.subject.key())
}

/// Whether two tests with the same [`key`] can be merged.
pub(super) fn can_merge(kind: JunctionKind, left: &Predicate, right: &Predicate) -> bool {
    match (Form::from_predicate(left), Form::from_predicate(right)) {
        (Some(left), Some(right)) => {
            left.can_be_merged(kind) && right.can_be_merged(kind) && left.subject == right.subject
        }
        _ => false,
    }
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
        Atom::CompareInt(relation, Int::Literal(left), Int::Literal(right)) => {
            Predicate::constant(relation.holds(left.cmp(right)))
        }
        Atom::CompareInt(relation, left @ Int::Literal(_), right) => {
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
    // Use the forms that array indexes support.
    if let Some(Form { subject: Subject::Values(Text::Element(element)), values, none_or_all, .. }) =
        Form::from_predicate(&body)
        && *element == variable
    {
        let any = || Predicate::atom(Atom::ArrayHasAny(array.clone(), values.to_vec()));
        match (quantifier, none_or_all) {
            (Quantifier::Exists, false) => return any(),
            (Quantifier::All, true) => return any().negate(),
            _ => {}
        }
    }
    Predicate::quantified(quantifier, array.clone(), variable, body)
}

/// Returns the negation, as a single test if possible, otherwise with `Not`.
pub(super) fn negation(predicate: Predicate) -> Predicate {
    let inverted = match predicate.as_test() {
        Some((Atom::CompareText(relation, left, right), false)) => {
            Some(Atom::CompareText(relation.negated(), left.clone(), right.clone()))
        }
        Some((Atom::TextIn(text, values, none), false)) => {
            Some(Atom::TextIn(text.clone(), values.clone(), !none))
        }
        Some((Atom::CompareInt(relation, left, right), false)) => {
            Some(Atom::CompareInt(relation.negated(), left.clone(), right.clone()))
        }
        _ => None,
    };
    inverted.map_or_else(|| predicate.negate(), Predicate::atom)
}
