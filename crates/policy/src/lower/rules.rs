//! The rules of lowering: for each operation, where it is true and where it is false.
//!
//! This table is the meaning of the language. Each rule is one function that says both sides, so that they can be read
//! against each other: whatever is on neither side is an error, which opens nothing and is not turned by a negation.
//! `D` is where the operands are defined. A side without its `D` opens traces: the store answers with an empty string
//! where a key is absent.
//!
//! The rules are values so that tests can put a wrong one in place of a right one and see that it is noticed
//! ([`testing`](crate::testing)). There is one table, and nothing but those tests knows another.

use std::cmp::Ordering;
use std::sync::Arc;

use tracewarden_model::MarkedField;

use super::truth::Truth;
use super::{Lowered, fields};
use crate::pattern::Pattern;
use crate::predicate::{Array, Atom, Int, Predicate, Quantifier, Relation, Text, TextFunction};

/// One function for each rule.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) not: fn(Truth) -> Truth,
    pub(crate) and: fn(Truth, Truth) -> Truth,
    pub(crate) or: fn(Truth, Truth) -> Truth,
    /// `c ? a : b` of booleans.
    pub(crate) conditional: fn(&Truth, Truth, Truth) -> Truth,
    /// Where `c ? a : b` is defined, by where `a` and `b` are.
    pub(crate) conditional_defined: fn(&Truth, Predicate, Predicate) -> Predicate,
    /// Where a boolean is defined.
    pub(crate) boolean_defined: fn(&Truth) -> Predicate,
    /// Where an operation on two values is defined.
    pub(crate) both_defined: fn(Predicate, Predicate) -> Predicate,
    /// Where a list is defined, by where its elements are.
    pub(crate) list_defined: fn(Vec<Predicate>) -> Predicate,
    /// Where a string that must be UTF-8 is defined.
    pub(crate) utf8: fn(Predicate, &Text) -> Predicate,
    /// Where a field has a value of its logical type.
    pub(crate) field_defined: fn(&Arc<MarkedField>) -> Predicate,
    /// Where a field is present.
    pub(crate) field_present: fn(&Arc<MarkedField>) -> Predicate,
    /// `user.attributes.k` of a caller who has no `k`.
    pub(crate) absent_attribute: fn() -> Lowered,
    /// A field of type boolean, by where it is defined and where its value is true.
    pub(crate) boolean_field: fn(Predicate, Predicate) -> Truth,
    /// `"k" in m`, `has(m.k)`, by where the key is present.
    pub(crate) has_key: fn(Predicate) -> Truth,
    /// `==` of values of unlike types.
    pub(crate) unlike: fn(Predicate) -> Truth,
    /// `!=`, by what `==` is.
    pub(crate) unequal: fn(Truth) -> Truth,
    pub(crate) equal_texts: fn(Predicate, Text, Text) -> Truth,
    pub(crate) equal_integers: fn(Predicate, Int, Int) -> Truth,
    pub(crate) equal_booleans: fn(Truth, Truth) -> Truth,
    pub(crate) equal_arrays: fn(Predicate, Array, Array) -> Truth,
    /// `==` of lists of the same length, by what it is of each pair of elements.
    pub(crate) equal_lists: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) ordered_texts: fn(Predicate, Relation, Text, Text) -> Truth,
    pub(crate) ordered_integers: fn(Predicate, Relation, Int, Int) -> Truth,
    pub(crate) ordered_booleans: fn(Relation, &Truth, &Truth) -> Truth,
    /// `in` a list of known strings.
    pub(crate) in_texts: fn(Predicate, Text, Vec<String>) -> Truth,
    /// `in` any other list, by what `==` is with each element.
    pub(crate) in_list: fn(Predicate, Vec<Truth>) -> Truth,
    pub(crate) in_array: fn(Predicate, Array, Text) -> Truth,
    /// `startsWith`, `endsWith`, `contains`.
    pub(crate) text_call: fn(Predicate, TextFunction, Text, Text) -> Truth,
    pub(crate) matches: fn(Predicate, Text, &Pattern) -> Truth,
    /// Macros over an array, by where it is defined and what the body is for an element.
    pub(crate) exists: fn(Predicate, &Elements, Truth) -> Truth,
    pub(crate) all: fn(Predicate, &Elements, Truth) -> Truth,
    pub(crate) exists_one: fn(Predicate, &Elements, Truth) -> Truth,
    /// Macros over a list, by where it is defined and what the body is for each of its elements.
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
    boolean_defined,
    both_defined,
    list_defined,
    utf8,
    field_defined: fields::defined,
    field_present: fields::present,
    absent_attribute,
    boolean_field,
    has_key,
    unlike,
    unequal,
    equal_texts,
    equal_integers,
    equal_booleans,
    equal_arrays,
    equal_lists,
    ordered_texts,
    ordered_integers,
    ordered_booleans,
    in_texts,
    in_list,
    in_array,
    text_call,
    matches,
    exists,
    all,
    exists_one,
    list_exists,
    list_all,
    list_exists_one,
};

/// An error stays one.
fn not(a: Truth) -> Truth {
    Truth { is_true: a.is_false, is_false: a.is_true }
}

/// `error && false` is false: no side asks that both be defined.
fn and(a: Truth, b: Truth) -> Truth {
    Truth { is_true: a.is_true.and(b.is_true), is_false: a.is_false.or(b.is_false) }
}

/// `error || true` is true.
fn or(a: Truth, b: Truth) -> Truth {
    Truth { is_true: a.is_true.or(b.is_true), is_false: a.is_false.and(b.is_false) }
}

/// An error of the condition is one of the whole; an error of the branch that is not taken is none.
fn conditional(c: &Truth, a: Truth, b: Truth) -> Truth {
    Truth {
        is_true: (c.is_true.clone().and(a.is_true)).or(c.is_false.clone().and(b.is_true)),
        is_false: (c.is_true.clone().and(a.is_false)).or(c.is_false.clone().and(b.is_false)),
    }
}

fn conditional_defined(c: &Truth, a: Predicate, b: Predicate) -> Predicate {
    (c.is_true.clone().and(a)).or(c.is_false.clone().and(b))
}

fn boolean_defined(a: &Truth) -> Predicate {
    a.decided()
}

fn both_defined(a: Predicate, b: Predicate) -> Predicate {
    a.and(b)
}

/// `[a, b]` is an error where `a` or `b` is, whether or not anything looks at that element.
fn list_defined(elements: Vec<Predicate>) -> Predicate {
    Predicate::all(elements)
}

/// What is not UTF-8 has no size, no order and matches nothing.
fn utf8(defined: Predicate, text: &Text) -> Predicate {
    match text {
        Text::Literal(_) => defined,
        other => defined.and(Predicate::atom(Atom::Utf8(other.clone()))),
    }
}

/// Not an empty string: whoever has no team is in none, and not outside of every other.
fn absent_attribute() -> Lowered {
    Lowered::Error
}

fn boolean_field(defined: Predicate, value: Predicate) -> Truth {
    Truth { is_true: value.clone(), is_false: value.negate() }.where_defined(&defined)
}

/// Never an error: this is what a policy asks before it looks at the value.
fn has_key(present: Predicate) -> Truth {
    Truth { is_true: present.clone(), is_false: present.negate() }
}

/// CEL's own rule: a string and a list are unequal, and comparing them is no error.
fn unlike(defined: Predicate) -> Truth {
    Truth { is_true: Predicate::False, is_false: defined }
}

/// As `!(a == b)`: not where `a == b` is an error.
fn unequal(equal: Truth) -> Truth {
    Truth { is_true: equal.is_false, is_false: equal.is_true }
}

fn equal_texts(defined: Predicate, a: Text, b: Text) -> Truth {
    Truth {
        is_true: Predicate::atom(Atom::CompareText(Relation::Eq, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareText(Relation::Ne, a, b)),
    }
    .where_defined(&defined)
}

fn equal_integers(defined: Predicate, a: Int, b: Int) -> Truth {
    Truth {
        is_true: Predicate::atom(Atom::CompareInt(Relation::Eq, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareInt(Relation::Ne, a, b)),
    }
    .where_defined(&defined)
}

/// Both true or both false; an error on either side is on neither of these.
fn equal_booleans(a: Truth, b: Truth) -> Truth {
    Truth {
        is_true: (a.is_true.clone().and(b.is_true.clone())).or(a.is_false.clone().and(b.is_false.clone())),
        is_false: (a.is_true.and(b.is_false)).or(a.is_false.and(b.is_true)),
    }
}

fn equal_arrays(defined: Predicate, a: Array, b: Array) -> Truth {
    let equal = Predicate::atom(Atom::ArrayEq(a, b));
    Truth { is_true: equal.clone(), is_false: equal.negate() }.where_defined(&defined)
}

/// All pairs are equal; or one is not. All elements of both lists must be defined, whatever the others are.
fn equal_lists(defined: Predicate, pairs: Vec<Truth>) -> Truth {
    every(pairs).where_defined(&defined)
}

fn ordered_texts(defined: Predicate, relation: Relation, a: Text, b: Text) -> Truth {
    Truth {
        is_true: Predicate::atom(Atom::CompareText(relation, a.clone(), b.clone())),
        is_false: Predicate::atom(Atom::CompareText(relation.negated(), a, b)),
    }
    .where_defined(&defined)
}

fn ordered_integers(defined: Predicate, relation: Relation, a: Int, b: Int) -> Truth {
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

/// Nothing is in an empty list, but asking is an error where the string is.
fn in_texts(defined: Predicate, needle: Text, texts: Vec<String>) -> Truth {
    if texts.is_empty() {
        return Truth { is_true: Predicate::False, is_false: defined };
    }
    Truth {
        is_true: Predicate::atom(Atom::TextIn(needle.clone(), texts.clone(), false)),
        is_false: Predicate::atom(Atom::TextIn(needle, texts, true)),
    }
    .where_defined(&defined)
}

/// Equal to one of them; or to none. All of the list must be defined, even when an element before is equal.
fn in_list(defined: Predicate, equal: Vec<Truth>) -> Truth {
    any(equal).where_defined(&defined)
}

fn in_array(defined: Predicate, array: Array, needle: Text) -> Truth {
    let found = Predicate::atom(Atom::ArrayHas(array, needle));
    Truth { is_true: found.clone(), is_false: found.negate() }.where_defined(&defined)
}

fn text_call(defined: Predicate, function: TextFunction, subject: Text, argument: Text) -> Truth {
    let holds = Predicate::atom(Atom::TextCall(function, subject, argument));
    Truth { is_true: holds.clone(), is_false: holds.negate() }.where_defined(&defined)
}

/// Whatever matches begins as the pattern says, which keys serve; on the other side this would only be more to ask.
fn matches(defined: Predicate, subject: Text, pattern: &Pattern) -> Truth {
    let begins = match (&subject, &pattern.prefix) {
        (Text::Field(_), Some(prefix)) => {
            let prefix = Text::Literal(prefix.clone());
            Predicate::atom(Atom::TextCall(TextFunction::StartsWith, subject.clone(), prefix))
        }
        _ => Predicate::True,
    };
    let holds = Predicate::atom(Atom::Matches(subject, pattern.re2.clone()));
    Truth { is_true: begins.and(holds.clone()), is_false: holds.negate() }.where_defined(&defined)
}

/// The elements of an array that a macro goes through.
pub(crate) struct Elements {
    pub(crate) array: Array,
    pub(crate) variable: u32,
}

impl Elements {
    /// So many of the elements satisfy `body`.
    pub(crate) fn satisfy(&self, quantifier: Quantifier, body: Predicate) -> Predicate {
        match (quantifier, &body) {
            (Quantifier::Exists | Quantifier::ExistsOne, Predicate::False) => return Predicate::False,
            (Quantifier::All, Predicate::True) => return Predicate::True,
            _ => {}
        }
        let (array, variable) = (self.array.clone(), self.variable);
        Predicate::atom(Atom::Quantified { quantifier, array, variable, body })
    }
}

/// As `p(x1) || p(x2) || …`: an element for which it is an error is absorbed by one for which it is true.
fn exists(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    Truth {
        is_true: elements.satisfy(Quantifier::Exists, body.is_true),
        is_false: elements.satisfy(Quantifier::All, body.is_false),
    }
    .where_defined(&defined)
}

/// As `p(x1) && p(x2) && …`: true of an empty array.
fn all(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    Truth {
        is_true: elements.satisfy(Quantifier::All, body.is_true),
        is_false: elements.satisfy(Quantifier::Exists, body.is_false),
    }
    .where_defined(&defined)
}

/// It counts, and no number comes of counting errors: so it must be decided for every element.
fn exists_one(defined: Predicate, elements: &Elements, body: Truth) -> Truth {
    let decided = elements.satisfy(Quantifier::All, body.decided());
    let one = elements.satisfy(Quantifier::ExistsOne, body.is_true);
    Truth { is_true: one.clone(), is_false: one.negate() }.where_defined(&defined.and(decided))
}

fn list_exists(defined: Predicate, bodies: Vec<Truth>) -> Truth {
    any(bodies).where_defined(&defined)
}

fn list_all(defined: Predicate, bodies: Vec<Truth>) -> Truth {
    every(bodies).where_defined(&defined)
}

fn list_exists_one(defined: Predicate, bodies: Vec<Truth>) -> Truth {
    let decided = Predicate::all(bodies.iter().map(Truth::decided));
    let one = Predicate::exactly_one(bodies.into_iter().map(|body| body.is_true));
    Truth { is_true: one.clone(), is_false: one.negate() }.where_defined(&defined.and(decided))
}

/// `||` of all of these.
pub(crate) fn any(truths: Vec<Truth>) -> Truth {
    Truth {
        is_true: Predicate::any(truths.iter().map(|truth| truth.is_true.clone())),
        is_false: Predicate::all(truths.into_iter().map(|truth| truth.is_false)),
    }
}

/// `&&` of all of these.
pub(crate) fn every(truths: Vec<Truth>) -> Truth {
    Truth {
        is_true: Predicate::all(truths.iter().map(|truth| truth.is_true.clone())),
        is_false: Predicate::any(truths.into_iter().map(|truth| truth.is_false)),
    }
}
