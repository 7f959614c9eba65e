//! Lowered values and the operations on them.

use std::cmp::Ordering;

use crate::expression::Known;
use crate::lower::int_literal;
use crate::pattern::Pattern;
use crate::predicate::{Array, Atom, Int, Predicate, Relation, Text, TextFunction};

/// Where an expression is true and where it is false; it is an error everywhere else. Never both.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) is_true: Predicate,
    pub(crate) is_false: Predicate,
}

impl Truth {
    pub(crate) const ERROR: Self = Self { is_true: Predicate::False, is_false: Predicate::False };

    fn known(value: bool) -> Self {
        Self::two_valued(Predicate::constant(value))
    }

    /// True where `predicate` is, false everywhere else.
    pub(crate) fn two_valued(predicate: Predicate) -> Self {
        Self { is_true: predicate.clone(), is_false: predicate.negate() }
    }

    /// Where it is no error.
    pub(crate) fn decided(&self) -> Predicate {
        self.is_true.clone().or(self.is_false.clone())
    }

    pub(crate) fn where_defined(self, defined: &Predicate) -> Self {
        Self { is_true: defined.clone().and(self.is_true), is_false: defined.clone().and(self.is_false) }
    }

    pub(crate) fn not(self) -> Self {
        Self { is_true: self.is_false, is_false: self.is_true }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { is_true: self.is_true.and(other.is_true), is_false: self.is_false.or(other.is_false) }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self { is_true: self.is_true.or(other.is_true), is_false: self.is_false.and(other.is_false) }
    }

    pub(crate) fn any(truths: Vec<Self>) -> Self {
        Self {
            is_true: Predicate::any(truths.iter().map(|truth| truth.is_true.clone())),
            is_false: Predicate::all(truths.into_iter().map(|truth| truth.is_false)),
        }
    }

    pub(crate) fn all(truths: Vec<Self>) -> Self {
        Self {
            is_true: Predicate::all(truths.iter().map(|truth| truth.is_true.clone())),
            is_false: Predicate::any(truths.into_iter().map(|truth| truth.is_false)),
        }
    }

    /// `self ? yes : no` for boolean branches. An error of the condition is an error of the whole.
    fn choose(&self, yes: Self, no: Self) -> Self {
        let pick =
            |yes: Predicate, no: Predicate| self.is_true.clone().and(yes).or(self.is_false.clone().and(no));
        Self { is_true: pick(yes.is_true, no.is_true), is_false: pick(yes.is_false, no.is_false) }
    }
}

/// A value as far as it is known before the span is.
#[derive(Debug, Clone)]
pub(crate) enum Lowered {
    /// An error on every span.
    Error,
    /// The same on every span.
    Known(Known),
    Bool(Truth),
    Text {
        defined: Predicate,
        text: Text,
    },
    Int {
        defined: Predicate,
        int: Int,
    },
    Array {
        defined: Predicate,
        array: Array,
    },
    /// A list with at least one element that depends on the span. Defined where all elements are.
    List(Vec<Lowered>),
    /// One of two values, by a condition. Operations distribute over it.
    Choice {
        condition: Truth,
        yes: Box<Lowered>,
        no: Box<Lowered>,
    },
}

impl From<Truth> for Lowered {
    fn from(truth: Truth) -> Self {
        match (&truth.is_true, &truth.is_false) {
            (Predicate::True, Predicate::False) => Self::Known(Known::Bool(true)),
            (Predicate::False, Predicate::True) => Self::Known(Known::Bool(false)),
            (Predicate::False, Predicate::False) => Self::Error,
            _ => Self::Bool(truth),
        }
    }
}

impl Lowered {
    pub(crate) fn list(elements: Vec<Self>) -> Self {
        let mut known = Vec::with_capacity(elements.len());
        for element in &elements {
            match element {
                Self::Error => return Self::Error,
                Self::Known(value) => known.push(value.clone()),
                _ => {}
            }
        }
        if known.len() == elements.len() { Self::Known(Known::List(known)) } else { Self::List(elements) }
    }

    pub(crate) fn choice(condition: Truth, yes: Self, no: Self) -> Self {
        match Self::from(condition) {
            Self::Known(Known::Bool(true)) => yes,
            Self::Known(Known::Bool(false)) => no,
            Self::Bool(condition) => Self::Choice { condition, yes: Box::new(yes), no: Box::new(no) },
            _ => Self::Error,
        }
    }

    /// As a condition. A value that is no boolean is an error there, which `&&` and `||` absorb like any other.
    pub(crate) fn truth(&self) -> Truth {
        match self {
            Self::Known(Known::Bool(value)) => Truth::known(*value),
            Self::Bool(truth) => truth.clone(),
            Self::Choice { condition, yes, no } => condition.choose(yes.truth(), no.truth()),
            _ => Truth::ERROR,
        }
    }

    /// Where it is no error.
    pub(crate) fn defined(&self) -> Predicate {
        match self {
            Self::Error => Predicate::False,
            Self::Known(_) => Predicate::True,
            Self::Bool(truth) => truth.decided(),
            Self::Text { defined, .. } | Self::Int { defined, .. } | Self::Array { defined, .. } => {
                defined.clone()
            }
            Self::List(elements) => Predicate::all(elements.iter().map(Self::defined)),
            Self::Choice { condition, yes, no } => {
                let yes = condition.is_true.clone().and(yes.defined());
                yes.or(condition.is_false.clone().and(no.defined()))
            }
        }
    }

    fn as_text(&self) -> Option<(Predicate, Text)> {
        match self {
            Self::Known(Known::Text(text)) => Some((Predicate::True, Text::Literal(text.clone()))),
            Self::Text { defined, text } => Some((defined.clone(), text.clone())),
            _ => None,
        }
    }

    fn as_int(&self) -> Option<(Predicate, Int)> {
        match self {
            Self::Known(Known::Int(int)) => Some((Predicate::True, Int::Literal(*int))),
            Self::Int { defined, int } => Some((defined.clone(), int.clone())),
            _ => None,
        }
    }

    /// The elements of a list that is not an array of the span.
    fn as_elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::Known(Known::List(elements)) => Some(elements.iter().cloned().map(Self::Known).collect()),
            Self::List(elements) => Some(elements.clone()),
            _ => None,
        }
    }

    pub(crate) fn compare(&self, relation: Relation, other: &Self) -> Truth {
        if let Some(truth) = self.distributed(other, |left, right| left.compare(relation, right)) {
            return truth;
        }
        match relation {
            Relation::Eq => self.equals(other),
            Relation::Ne => self.equals(other).not(),
            _ => self.ordered(relation, other),
        }
    }

    /// Applies `operation` to both branches when either side is a choice.
    fn distributed(&self, other: &Self, operation: impl Fn(&Self, &Self) -> Truth) -> Option<Truth> {
        match (self, other) {
            (Self::Choice { condition, yes, no }, _) => {
                Some(condition.choose(operation(yes, other), operation(no, other)))
            }
            (_, Self::Choice { condition, yes, no }) => {
                Some(condition.choose(operation(self, yes), operation(self, no)))
            }
            _ => None,
        }
    }

    fn equals(&self, other: &Self) -> Truth {
        let defined = self.defined().and(other.defined());
        if matches!(defined, Predicate::False) {
            return Truth::ERROR;
        }
        if let (Self::Known(left), Self::Known(right)) = (self, other) {
            return Truth::known(left == right);
        }
        let two = |eq: Atom, ne: Predicate| Truth { is_true: Predicate::atom(eq), is_false: ne };
        let truth = if let (Some((_, left)), Some((_, right))) = (self.as_text(), other.as_text()) {
            two(
                Atom::CompareText(Relation::Eq, left.clone(), right.clone()),
                Predicate::atom(Atom::CompareText(Relation::Ne, left, right)),
            )
        } else if let (Some((_, left)), Some((_, right))) = (self.as_int(), other.as_int()) {
            two(
                Atom::CompareInt(Relation::Eq, left.clone(), right.clone()),
                Predicate::atom(Atom::CompareInt(Relation::Ne, left, right)),
            )
        } else if matches!((self, other), (Self::Bool(_), _) | (_, Self::Bool(_))) {
            match (self, other) {
                (
                    Self::Bool(_) | Self::Known(Known::Bool(_)),
                    Self::Bool(_) | Self::Known(Known::Bool(_)),
                ) => {
                    let (left, right) = (self.truth(), other.truth());
                    Truth {
                        is_true: (left.is_true.clone().and(right.is_true.clone()))
                            .or(left.is_false.clone().and(right.is_false.clone())),
                        is_false: (left.is_true.and(right.is_false)).or(left.is_false.and(right.is_true)),
                    }
                }
                _ => Truth::known(false),
            }
        } else {
            self.equals_as_list(other)
        };
        truth.where_defined(&defined)
    }

    /// Equality of lists and arrays, where both are defined. Values of unlike types are unequal: CEL's own rule.
    fn equals_as_list(&self, other: &Self) -> Truth {
        match (self, other) {
            (Self::Array { array: left, .. }, Self::Array { array: right, .. }) => {
                Truth::two_valued(Predicate::atom(Atom::ArrayEq(left.clone(), right.clone())))
            }
            (whole @ Self::Array { array, .. }, list) | (list, whole @ Self::Array { array, .. }) => {
                let Some(elements) = list.as_elements() else { return Truth::known(false) };
                if let Some((condition, yes, no)) = split_first_choice(&elements) {
                    let either = |elements| whole.equals_as_list(&Self::List(elements));
                    return condition.choose(either(yes), either(no));
                }
                let texts: Option<Vec<Text>> =
                    elements.iter().map(|element| element.as_text().map(|(_, text)| text)).collect();
                match texts {
                    Some(texts) => {
                        Truth::two_valued(Predicate::atom(Atom::ArrayEq(array.clone(), Array::List(texts))))
                    }
                    None => Truth::known(false),
                }
            }
            _ => match (self.as_elements(), other.as_elements()) {
                (Some(left), Some(right)) if left.len() == right.len() => {
                    let pairs =
                        left.iter().zip(&right).map(|(left, right)| left.compare(Relation::Eq, right));
                    Truth::all(pairs.collect())
                }
                _ => Truth::known(false),
            },
        }
    }

    fn ordered(&self, relation: Relation, other: &Self) -> Truth {
        if let (Self::Known(left), Self::Known(right)) = (self, other) {
            return match known_order(left, right) {
                Some(ordering) => Truth::known(relation.holds(ordering)),
                None => Truth::ERROR,
            };
        }
        if let (Some((left_defined, left)), Some((right_defined, right))) = (self.as_text(), other.as_text())
        {
            let defined = Predicate::all([left_defined, utf8(&left), right_defined, utf8(&right)]);
            let compare =
                |relation| Predicate::atom(Atom::CompareText(relation, left.clone(), right.clone()));
            return Truth { is_true: compare(relation), is_false: compare(relation.negated()) }
                .where_defined(&defined);
        }
        if let (Some((left_defined, left)), Some((right_defined, right))) = (self.as_int(), other.as_int()) {
            let compare = |relation| Predicate::atom(Atom::CompareInt(relation, left.clone(), right.clone()));
            return Truth { is_true: compare(relation), is_false: compare(relation.negated()) }
                .where_defined(&left_defined.and(right_defined));
        }
        if let (Self::Bool(_) | Self::Known(Known::Bool(_)), Self::Bool(_) | Self::Known(Known::Bool(_))) =
            (self, other)
        {
            return bools_ordered(relation, &self.truth(), &other.truth());
        }
        Truth::ERROR
    }

    pub(crate) fn is_in(&self, haystack: &Self) -> Truth {
        if let Some(truth) = self.distributed(haystack, Self::is_in) {
            return truth;
        }
        if let Self::Array { defined, array } = haystack {
            let Some((needle_defined, needle)) = self.as_text() else {
                return Truth::known(false).where_defined(&self.defined().and(defined.clone()));
            };
            return Truth::two_valued(Predicate::atom(Atom::ArrayHas(array.clone(), needle)))
                .where_defined(&needle_defined.and(defined.clone()));
        }
        let Some(elements) = haystack.as_elements() else { return Truth::ERROR };
        let defined = self.defined().and(haystack.defined());
        if let (Self::Text { text, .. }, Self::Known(_)) = (self, haystack) {
            let texts: Vec<String> = elements
                .iter()
                .filter_map(|element| match element {
                    Self::Known(Known::Text(text)) => Some(text.clone()),
                    _ => None,
                })
                .collect();
            let truth = match texts.as_slice() {
                [] => Truth::known(false),
                _ => Truth {
                    is_true: Predicate::atom(Atom::TextIn(text.clone(), texts.clone(), false)),
                    is_false: Predicate::atom(Atom::TextIn(text.clone(), texts, true)),
                },
            };
            return truth.where_defined(&defined);
        }
        let pairs = elements.iter().map(|element| self.compare(Relation::Eq, element)).collect();
        Truth::any(pairs).where_defined(&defined)
    }

    pub(crate) fn text_call(&self, function: TextFunction, argument: &Self) -> Truth {
        if let Some(truth) = self.distributed(argument, |left, right| left.text_call(function, right)) {
            return truth;
        }
        if let (Self::Known(Known::Text(subject)), Self::Known(Known::Text(argument))) = (self, argument) {
            return Truth::known(match function {
                TextFunction::StartsWith => subject.starts_with(argument),
                TextFunction::EndsWith => subject.ends_with(argument),
                TextFunction::Contains => subject.contains(argument),
            });
        }
        match (self.as_text(), argument.as_text()) {
            (Some((subject_defined, subject)), Some((argument_defined, argument))) => {
                let call = Predicate::atom(Atom::TextCall(function, subject, argument));
                Truth::two_valued(call).where_defined(&subject_defined.and(argument_defined))
            }
            _ => Truth::ERROR,
        }
    }

    pub(crate) fn matches(&self, pattern: &Pattern) -> Truth {
        if let Some(truth) = self.distributed(&Self::Error, |left, _| left.matches(pattern)) {
            return truth;
        }
        // A known string is matched by the store as well: one engine decides about all of them.
        match self.as_text() {
            Some((defined, text)) => {
                let defined = defined.and(utf8(&text));
                Truth::two_valued(Predicate::atom(Atom::Matches(text, pattern.re2.clone())))
                    .where_defined(&defined)
            }
            None => Truth::ERROR,
        }
    }

    pub(crate) fn size(&self) -> Self {
        match self {
            Self::Known(Known::Text(text)) => {
                Self::Int { defined: Predicate::True, int: int_literal(text.chars().count()) }.folded()
            }
            Self::Known(Known::List(list)) => {
                Self::Int { defined: Predicate::True, int: int_literal(list.len()) }.folded()
            }
            Self::List(list) => Self::Int { defined: self.defined(), int: int_literal(list.len()) },
            Self::Text { defined, text } => {
                Self::Int { defined: defined.clone().and(utf8(text)), int: Int::TextSize(text.clone()) }
            }
            Self::Array { defined, array } => {
                Self::Int { defined: defined.clone(), int: Int::ArraySize(array.clone()) }
            }
            Self::Choice { condition, yes, no } => Self::choice(condition.clone(), yes.size(), no.size()),
            _ => Self::Error,
        }
    }

    fn folded(self) -> Self {
        match self {
            Self::Int { defined: Predicate::True, int: Int::Literal(value) } => {
                Self::Known(Known::Int(value))
            }
            other => other,
        }
    }
}

/// A list with a choice among its elements, as the two lists that it stands for.
fn split_first_choice(elements: &[Lowered]) -> Option<(Truth, Vec<Lowered>, Vec<Lowered>)> {
    let at = elements.iter().position(|element| matches!(element, Lowered::Choice { .. }))?;
    let Some(Lowered::Choice { condition, yes, no }) = elements.get(at) else { return None };
    let with = |branch: &Lowered| {
        let mut list = elements.to_vec();
        if let Some(place) = list.get_mut(at) {
            *place = branch.clone();
        }
        list
    };
    Some((condition.clone(), with(yes), with(no)))
}

/// Strings that are not UTF-8 have no size, no order and match nothing.
fn utf8(text: &Text) -> Predicate {
    match text {
        Text::Literal(_) => Predicate::True,
        other => Predicate::atom(Atom::Utf8(other.clone())),
    }
}

fn known_order(left: &Known, right: &Known) -> Option<Ordering> {
    match (left, right) {
        (Known::Text(left), Known::Text(right)) => Some(left.cmp(right)),
        (Known::Int(left), Known::Int(right)) => Some(left.cmp(right)),
        (Known::Bool(left), Known::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn bools_ordered(relation: Relation, left: &Truth, right: &Truth) -> Truth {
    let mut is_true = Vec::new();
    let mut is_false = Vec::new();
    for left_value in [false, true] {
        for right_value in [false, true] {
            let side =
                |truth: &Truth, value| if value { truth.is_true.clone() } else { truth.is_false.clone() };
            let both = side(left, left_value).and(side(right, right_value));
            if relation.holds(left_value.cmp(&right_value)) {
                is_true.push(both);
            } else {
                is_false.push(both);
            }
        }
    }
    Truth { is_true: Predicate::any(is_true), is_false: Predicate::any(is_false) }
}
