//! The rules of lowering: for each operation, where it is true and where it is false.
//!
//! This table defines the semantics of the language. Each rule is one function that returns both sides, so that they
//! can be compared: a span on neither side is an error, which grants no access and is not inverted by a negation. `D`
//! is where the operands are defined. A side without its `D` grants access wrongly, because ClickHouse returns an
//! empty string for an absent key.
//!
//! The rules are values so that tests can replace one by an altered rule and check that the error is detected
//! ([`testing`](crate::testing)). All other code uses this table only.

use std::cmp::Ordering;
use std::sync::Arc;

use tracewarden_model::MarkedField;

use super::truth::Truth;
use super::{LoweredValue, fields};
use crate::pattern::Pattern;
use crate::predicate::{Array, Atom, Int, Predicate, Quantifier, Relation, Text, TextFunction};

/// One function for each rule.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) not: fn(Truth) -> Truth,
    pub(crate) and: fn(Truth, Truth) -> Truth,
    pub(crate) or: fn(Truth, Truth) -> Truth,
    /// `c ? a : b` for booleans.
    pub(crate) conditional: fn(&Truth, Truth, Truth) -> Truth,
    /// Where `c ? a : b` is defined, given where `a` and `b` are.
    pub(crate) conditional_defined: fn(&Truth, Predicate, Predicate) -> Predicate,
    /// Where a boolean is defined: where it is true or false.
    pub(crate) boolean_defined: fn(&Truth) -> Predicate,
    /// Where an operation on two values is defined.
    pub(crate) both_defined: fn(Predicate, Predicate) -> Predicate,
    /// Where a list is defined, given where its elements are: `[a, b]` is an error if `a` or `b` is, even if the
    /// element is never used.
    pub(crate) list_defined: fn(Vec<Predicate>) -> Predicate,
    /// Where a string that must be UTF-8 is defined.
    pub(crate) utf8: fn(Predicate, &Text) -> Predicate,
    /// Where a field has a value of its logical type.
    pub(crate) field_defined: fn(&Arc<MarkedField>) -> Predicate,
    /// Where a field is present.
    pub(crate) field_present: fn(&Arc<MarkedField>) -> Predicate,
    /// `user.attributes.k` if the caller has no attribute `k`. Not an empty string: a caller without a team is in no
    /// team, and must not match conditions that exclude other teams.
    pub(crate) absent_attribute: fn() -> LoweredValue,
    /// A field of type boolean, given where it is defined and where its value is true.
    pub(crate) boolean_field: fn(Predicate, Predicate) -> Truth,
    /// `"k" in m` and `has(m.k)`, given where the key is present. Never an error, because policies use it to test for
    /// the key before reading the value.
    pub(crate) has_key: fn(Predicate) -> Truth,
    /// `==` of values of different types.
    pub(crate) different_types: fn(Predicate) -> Truth,
    /// `!=`, given the result of `==`: an error where `a == b` is an error.
    pub(crate) unequal: fn(Truth) -> Truth,
    pub(crate) equal_texts: fn(Predicate, Text, Text) -> Truth,
    pub(crate) equal_integers: fn(Predicate, Int, Int) -> Truth,
    pub(crate) equal_booleans: fn(Truth, Truth) -> Truth,
    pub(crate) equal_arrays: fn(Predicate, Array, Array) -> Truth,
    /// `==` of lists of the same length, given the results of `==` for each pair of elements. All elements of both
    /// lists must be defined.
    pub(crate) equal_lists: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) ordered_texts: fn(Predicate, Relation, Text, Text) -> Truth,
    pub(crate) ordered_integers: fn(Predicate, Relation, Int, Int) -> Truth,
    pub(crate) ordered_booleans: fn(Relation, &Truth, &Truth) -> Truth,
    /// `in` a list of known strings.
    pub(crate) in_texts: fn(Predicate, Text, Vec<String>) -> Truth,
    /// `in` any other list, given the results of `==` for each element. The whole list must be defined, even if an
    /// earlier element is equal.
    pub(crate) in_list: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) in_array: fn(Predicate, Array, Text) -> Truth,
    /// `startsWith`, `endsWith`, `contains`.
    pub(crate) text_call: fn(Predicate, TextFunction, Text, Text) -> Truth,
    pub(crate) matches: fn(Predicate, Text, &Arc<Pattern>) -> Truth,
    /// Macros over an array, given where it is defined and the body for one element.
    pub(crate) exists: fn(Predicate, &Elements, Truth) -> Truth,
    pub(crate) all: fn(Predicate, &Elements, Truth) -> Truth,
    pub(crate) exists_one: fn(Predicate, &Elements, Truth) -> Truth,
    /// Macros over a list, given where it is defined and the body for each of its elements.
    pub(crate) list_exists: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) list_all: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) list_exists_one: fn(Predicate, Vec<Truth>) -> Truth,
}

/// The rules.
pub(crate) const RULES: Rules = Rules {
    not,
    and,
    or,
    conditional,
    conditional_defined,
    boolean_defined: Truth::not_error,
    both_defined: Predicate::and,
    list_defined: Predicate::all,
    utf8,
    field_defined: fields::defined,
    field_present: fields::present,
    absent_attribute: || LoweredValue::Error,
    boolean_field: |defined, value| Truth::of(value).where_defined(&defined),
    has_key: Truth::of,
    different_types,
    unequal: not,
    equal_texts: |defined, a, b| compare_texts(defined, Relation::Eq, a, b),
    equal_integers: |defined, a, b| compare_integers(defined, Relation::Eq, a, b),
    equal_booleans,
    equal_arrays: |defined, a, b| Truth::of(Predicate::atom(Atom::ArrayEq(a, b))).where_defined(&defined),
    equal_lists: |defined, pairs| every(pairs).where_defined(&defined),
    ordered_texts: compare_texts,
    ordered_integers: compare_integers,
    ordered_booleans,
    in_texts,
    in_list: |defined, equal| any(equal).where_defined(&defined),
    in_array: |defined, array, needle| {
        Truth::of(Predicate::atom(Atom::ArrayHas(array, needle))).where_defined(&defined)
    },
    text_call: |defined, function, subject, argument| {
        Truth::of(Predicate::atom(Atom::TextCall(function, subject, argument))).where_defined(&defined)
    },
    matches,
    exists,
    all,
    exists_one,
    list_exists: |defined, bodies| any(bodies).where_defined(&defined),
    list_all: |defined, bodies| every(bodies).where_defined(&defined),
    list_exists_one,
};

/// The negation of an error is an error.
fn not(a: Truth) -> Truth {
    Truth { is_true: a.is_false, is_false: a.is_true }
}

/// `error && false` is false, so neither side requires that both operands are defined.
fn and(a: Truth, b: Truth) -> Truth {
    Truth { is_true: a.is_true.and(b.is_true), is_false: a.is_false.or(b.is_false) }
}

/// `error || true` is true.
fn or(a: Truth, b: Truth) -> Truth {
    Truth { is_true: a.is_true.or(b.is_true), is_false: a.is_false.and(b.is_false) }
}

/// An error of the condition is an error of the whole. An error of the branch that is not taken has no effect.
fn conditional(c: &Truth, a: Truth, b: Truth) -> Truth {
    Truth {
        is_true: (c.is_true.clone().and(a.is_true)).or(c.is_false.clone().and(b.is_true)),
        is_false: (c.is_true.clone().and(a.is_false)).or(c.is_false.clone().and(b.is_false)),
    }
}

fn conditional_defined(c: &Truth, a: Predicate, b: Predicate) -> Predicate {
    (c.is_true.clone().and(a)).or(c.is_false.clone().and(b))
}

/// A string that is not UTF-8 has no size and no order, and matches no pattern.
fn utf8(defined: Predicate, text: &Text) -> Predicate {
    match text {
        Text::Literal(_) => defined,
        other => defined.and(Predicate::atom(Atom::Utf8(other.clone()))),
    }
}

/// As in CEL: a string and a list are unequal, and comparing them is not an error.
fn different_types(defined: Predicate) -> Truth {
    Truth { is_true: Predicate::False, is_false: defined }
}

/// Both true or both false. An error of either operand is on neither side.
fn equal_booleans(a: Truth, b: Truth) -> Truth {
    Truth {
        is_true: (a.is_true.clone().and(b.is_true.clone())).or(a.is_false.clone().and(b.is_false.clone())),
        is_false: (a.is_true.and(b.is_false)).or(a.is_false.and(b.is_true)),
    }
}

fn compare_texts(defined: Predicate, relation: Relation, a: Text, b: Text) -> Truth {
    Truth {
        is_true: Predicate::atom(Atom::CompareText(relation, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareText(relation.negated(), a, b)),
    }
    .where_defined(&defined)
}

fn compare_integers(defined: Predicate, relation: Relation, a: Int, b: Int) -> Truth {
    Truth {
        is_true: Predicate::atom(Atom::CompareInt(relation, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareInt(relation.negated(), a, b)),
    }
    .where_defined(&defined)
}

/// False comes before true.
fn ordered_booleans(relation: Relation, a: &Truth, b: &Truth) -> Truth {
    let side = |truth: &Truth, value| if value { truth.is_true.clone() } else { truth.is_false.clone() };
    let where_ordering = |wanted: &dyn Fn(Ordering) -> bool| {
        let pairs = [(false, false), (false, true), (true, false), (true, true)];
        Predicate::any(
            pairs.into_iter().filter(|(x, y)| wanted(x.cmp(y))).map(|(x, y)| side(a, x).and(side(b, y))),
        )
    };
    Truth {
        is_true: where_ordering(&|ordering| relation.holds(ordering)),
        is_false: where_ordering(&|ordering| !relation.holds(ordering)),
    }
}

/// No string is in an empty list, but the test is an error if the string is.
fn in_texts(defined: Predicate, needle: Text, texts: Vec<String>) -> Truth {
    if texts.is_empty() {
        return different_types(defined);
    }
    Truth {
        is_true: Predicate::atom(Atom::TextIn(needle.clone(), texts.clone(), false)),
        is_false: Predicate::atom(Atom::TextIn(needle, texts, true)),
    }
    .where_defined(&defined)
}

/// A matching text begins with the pattern's prefix, and ClickHouse can use the table's key for that condition. On the
/// false side the prefix would only add work.
fn matches(defined: Predicate, subject: Text, pattern: &Arc<Pattern>) -> Truth {
    let begins = match (&subject, &pattern.prefix) {
        (Text::Field(_), Some(prefix)) => {
            let prefix = Text::Literal(prefix.clone());
            Predicate::atom(Atom::TextCall(TextFunction::StartsWith, subject.clone(), prefix))
        }
        _ => Predicate::True,
    };
    let holds = Predicate::atom(Atom::Matches(subject, Arc::clone(pattern)));
    Truth { is_true: begins.and(holds.clone()), is_false: holds.negate() }.where_defined(&defined)
}

/// The elements of an array that a macro iterates over.
pub(crate) struct Elements {
    pub(crate) array: Array,
    pub(crate) variable: u32,
}

impl Elements {
    /// Returns the condition that the required number of elements satisfies `body`.
    pub(crate) fn satisfy(&self, quantifier: Quantifier, body: Predicate) -> Predicate {
        Predicate::quantified(quantifier, self.array.clone(), self.variable, body)
    }
}

/// Like `p(x1) || p(x2) || …`: an element for which the body is true hides the errors of others.
fn exists(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    Truth {
        is_true: elements.satisfy(Quantifier::Exists, body.is_true),
        is_false: elements.satisfy(Quantifier::All, body.is_false),
    }
    .where_defined(&defined)
}

/// Like `p(x1) && p(x2) && …`: true for an empty array.
fn all(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    Truth {
        is_true: elements.satisfy(Quantifier::All, body.is_true),
        is_false: elements.satisfy(Quantifier::Exists, body.is_false),
    }
    .where_defined(&defined)
}

/// Counts elements, and errors cannot be counted: the body must be true or false for every element.
fn exists_one(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    let not_error = elements.satisfy(Quantifier::All, body.not_error());
    let one = elements.satisfy(Quantifier::ExistsOne, body.is_true);
    Truth::of(one).where_defined(&defined.and(not_error))
}

fn list_exists_one(defined: Predicate, bodies: Vec<Truth>) -> Truth {
    let not_error = Predicate::all(bodies.iter().map(Truth::not_error));
    let one = Predicate::exactly_one(bodies.into_iter().map(|body| body.is_true));
    Truth::of(one).where_defined(&defined.and(not_error))
}

/// Returns `||` of all of these.
pub(crate) fn any(truths: Vec<Truth>) -> Truth {
    Truth {
        is_true: Predicate::any(truths.iter().map(|truth| truth.is_true.clone())),
        is_false: Predicate::all(truths.into_iter().map(|truth| truth.is_false)),
    }
}

/// Returns `&&` of all of these.
pub(crate) fn every(truths: Vec<Truth>) -> Truth {
    Truth {
        is_true: Predicate::all(truths.iter().map(|truth| truth.is_true.clone())),
        is_false: Predicate::any(truths.into_iter().map(|truth| truth.is_false)),
    }
}
