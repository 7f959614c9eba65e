//! Two-valued predicates over one span. Expressions and filter conditions are lowered to them, and they are compiled
//! to ClickHouse SQL.
//!
//! Every atom is true or false on every span, never NULL and never an error: a value is only read if the
//! [`Atom::Defined`] of its field holds. Nodes are shared, because "is true" and "is false" have most of their parts
//! in common; [`Predicate::size`] is the size of the tree as it will be written.

mod fields;
mod join;
mod merge;
mod operands;
mod operators;
mod redundancy;
mod simplify;
pub(crate) mod work;

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use tracewarden_model::{Decimal, MarkedField};

use crate::pattern::Pattern;

use operands::weight;
pub use operands::{Array, Int, Text};
pub use operators::{Quantifier, Relation, TextFunction};
use work::{charge, charge_each};

/// A test that is true or false on every span.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Atom {
    /// The map contains the key and its value is not NULL, or the column is not NULL.
    Present(Arc<MarkedField>),
    /// The field is present and has a value of its logical type.
    Defined(Arc<MarkedField>),
    /// The string is UTF-8.
    Utf8(Text),
    /// Compares strings by bytes. For UTF-8 this is the order of code points.
    CompareText(Relation, Text, Text),
    /// The string is one of these; if the flag is set, none of these.
    TextIn(Text, Vec<String>, bool),
    /// A function of two strings.
    TextCall(TextFunction, Text, Text),
    /// The function holds for the string and any of these.
    TextCallAny(TextFunction, Text, Vec<String>),
    /// The pattern matches part of the string.
    Matches(Text, Arc<Pattern>),
    /// The array contains this element.
    ArrayHas(Array, Text),
    /// The array contains at least one of these elements.
    ArrayHasAny(Array, Vec<String>),
    /// The array contains all of these elements.
    ArrayHasAll(Array, Vec<String>),
    /// The arrays are equal.
    ArrayEq(Array, Array),
    /// Compares integers.
    CompareInt(Relation, Int, Int),
    /// The boolean field is true.
    Flag(Arc<MarkedField>),
    /// Compares the numeric field with a number.
    CompareNumber(Relation, Arc<MarkedField>, Decimal),
    /// The required number of elements satisfies `body`, in which an element is `Text::Element(variable)`.
    Quantified {
        /// Required number of elements.
        quantifier: Quantifier,
        /// The array.
        array: Array,
        /// Number of the variable that stands for the element in `body`.
        variable: u32,
        /// Predicate for the elements.
        body: Predicate,
    },
    /// Exactly one of these holds.
    ExactlyOne(Vec<Predicate>),
}

impl Atom {
    /// Returns the test and its list of values, if the order of the values does not matter.
    fn list_test(&self) -> Option<(ListTest<'_>, &[String])> {
        Some(match self {
            Self::TextIn(text, values, none) => (ListTest::In(text, *none), values),
            Self::TextCallAny(function, text, values) => (ListTest::Call(*function, text), values),
            Self::ArrayHasAny(array, values) => (ListTest::Has(array, false), values),
            Self::ArrayHasAll(array, values) => (ListTest::Has(array, true), values),
            _ => return None,
        })
    }

    /// Returns a hash that does not depend on the order of listed values.
    fn fingerprint(&self) -> u64 {
        match self.list_test() {
            Some((test, values)) => hash(&(test, values.iter().map(hash).fold(0, u64::wrapping_add))),
            None => hash(self),
        }
    }

    /// Whether both are the same test, ignoring the order of listed values.
    fn is_same(&self, other: &Self) -> bool {
        match (self.list_test(), other.list_test()) {
            (Some((test, values)), Some((other_test, other_values))) => {
                test == other_test && (values == other_values || sorted(values) == sorted(other_values))
            }
            _ => self == other,
        }
    }
}

/// A test of listed values, without the values.
#[derive(PartialEq, Hash)]
enum ListTest<'a> {
    In(&'a Text, bool),
    Call(TextFunction, &'a Text),
    Has(&'a Array, bool),
}

fn sorted(values: &[String]) -> Vec<&str> {
    let mut sorted: Vec<&str> = values.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted
}

/// A two-valued predicate over one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// Always true.
    True,
    /// Always false.
    False,
    /// All of these hold.
    And(Arc<Junction>),
    /// At least one of these holds.
    Or(Arc<Junction>),
    /// This does not hold.
    Not(Arc<Junction>),
    /// A test.
    Atom(Arc<Leaf>),
}

/// Number of parts of a junction that are compared with each other immediately, to remove duplicates: mostly presence
/// tests of the same keys. [`Predicate::simplified`] finds all duplicates.
const MAX_COMPARED_PARTS: usize = 16;

/// A test with a fingerprint, for quick comparison.
#[derive(Debug, Clone)]
pub struct Leaf {
    atom: Atom,
    fingerprint: u64,
}

impl Deref for Leaf {
    type Target = Atom;

    fn deref(&self) -> &Atom {
        &self.atom
    }
}

impl PartialEq for Leaf {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint && self.atom.is_same(&other.atom)
    }
}

impl Eq for Leaf {}

/// The parts of a conjunction, disjunction or negation. A negation has exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Junction {
    parts: Vec<Predicate>,
    size: u64,
    /// Independent of the order of the parts.
    fingerprint: u64,
}

impl Junction {
    fn new(parts: Vec<Predicate>) -> Arc<Self> {
        charge_each(1 + parts.len());
        let size = parts.iter().map(Predicate::size).fold(1, u64::saturating_add);
        let fingerprint = parts.iter().map(Predicate::fingerprint).fold(0, u64::wrapping_add);
        Arc::new(Self { parts, size, fingerprint })
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[Predicate] {
        &self.parts
    }
}

/// Conjunction or disjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JunctionKind {
    All,
    Any,
}

impl JunctionKind {
    fn dual(self) -> Self {
        match self {
            Self::All => Self::Any,
            Self::Any => Self::All,
        }
    }

    /// Returns the junction without parts. A part with the other constant determines the junction.
    fn neutral(self) -> Predicate {
        Predicate::constant(self == Self::All)
    }

    /// Returns the parts of a junction of this kind. Any other predicate is its own only part.
    fn parts_of(self, predicate: &Predicate) -> &[Predicate] {
        match (self, predicate) {
            (Self::All, Predicate::And(junction)) | (Self::Any, Predicate::Or(junction)) => &junction.parts,
            _ => std::slice::from_ref(predicate),
        }
    }

    /// Returns the conjunction or disjunction of the parts, simplified.
    fn join(self, parts: impl IntoIterator<Item = Predicate>) -> Predicate {
        let is_constant = |part: &Predicate, value| {
            matches!((part, value), (Predicate::True, true) | (Predicate::False, false))
        };
        let mut kept: Vec<Predicate> = Vec::new();
        for part in parts {
            if is_constant(&part, self == Self::Any) {
                return part;
            }
            let flattened = self.parts_of(&part);
            charge_each(flattened.len());
            for part in flattened {
                let repeated =
                    kept.len() < MAX_COMPARED_PARTS && kept.iter().any(|known| known.is_same(part));
                if !is_constant(part, self == Self::All) && !repeated {
                    kept.push(part.clone());
                }
            }
        }
        match (kept.len(), self) {
            (0 | 1, _) => kept.pop().unwrap_or_else(|| self.neutral()),
            (_, Self::All) => Predicate::And(Junction::new(kept)),
            (_, Self::Any) => Predicate::Or(Junction::new(kept)),
        }
    }
}

impl Predicate {
    /// Creates a predicate from a test.
    pub fn atom(atom: Atom) -> Self {
        // Cost of hashing it; a field consists of a few strings.
        charge(4 + atom.size());
        let fingerprint = atom.fingerprint();
        Self::Atom(Arc::new(Leaf { atom, fingerprint }))
    }

    /// Returns the constant `True` or `False`.
    pub fn constant(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }

    /// Returns the conjunction of `parts`, simplified.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        JunctionKind::All.join(parts)
    }

    /// Returns the disjunction of `parts`, simplified.
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        JunctionKind::Any.join(parts)
    }

    /// Returns the predicate "exactly one of `parts` holds", simplified.
    pub fn exactly_one(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut true_parts = 0_u32;
        let mut undecided = Vec::new();
        for part in parts {
            match part {
                Self::True => true_parts += 1,
                Self::False => {}
                other => undecided.push(other),
            }
        }
        match (true_parts, undecided.len()) {
            (0, 0) | (2.., _) => Self::False,
            (0, 1) => undecided.pop().unwrap_or(Self::False),
            (0, _) => Self::atom(Atom::ExactlyOne(undecided)),
            (1, _) => Self::all(undecided.into_iter().map(Self::negate)),
        }
    }

    /// Returns the condition that the required number of elements of the array satisfies `body`.
    pub(crate) fn quantified(quantifier: Quantifier, array: Array, variable: u32, body: Self) -> Self {
        match (quantifier, &body) {
            (Quantifier::Exists | Quantifier::ExistsOne, Self::False) => Self::False,
            (Quantifier::All, Self::True) => Self::True,
            _ => Self::atom(Atom::Quantified { quantifier, array, variable, body }),
        }
    }

    /// Returns the conjunction of `self` and `other`, simplified.
    pub fn and(self, other: Self) -> Self {
        Self::all([self, other])
    }

    /// Returns the disjunction of `self` and `other`, simplified.
    pub fn or(self, other: Self) -> Self {
        Self::any([self, other])
    }

    /// Returns the negation. Sound, because predicates have two values.
    pub fn negate(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Not(inner) => inner.parts.first().cloned().unwrap_or(Self::False),
            other => Self::Not(Junction::new(vec![other])),
        }
    }

    /// Returns the size of the tree as it is written, in nodes and operands; saturating.
    pub fn size(&self) -> u64 {
        match self {
            Self::True | Self::False => 1,
            Self::And(junction) | Self::Or(junction) | Self::Not(junction) => junction.size,
            Self::Atom(atom) => atom.size(),
        }
    }

    /// Returns a single test, and whether it is negated.
    pub(crate) fn as_test(&self) -> Option<(&Atom, bool)> {
        match self {
            Self::Atom(atom) => Some((atom, false)),
            Self::Not(inner) => match inner.parts() {
                [Self::Atom(atom)] => Some((atom, true)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns a hash that does not depend on the order of parts.
    fn fingerprint(&self) -> u64 {
        match self {
            Self::True => 1,
            Self::False => 2,
            Self::And(junction) => hash(&(3_u8, junction.fingerprint)),
            Self::Or(junction) => hash(&(4_u8, junction.fingerprint)),
            Self::Not(junction) => hash(&(5_u8, junction.fingerprint)),
            Self::Atom(leaf) => leaf.fingerprint,
        }
    }

    /// Whether both have the same parts in any order. Exact, except for predicates that are too large to be sent
    /// anyway: comparing shared trees node by node could take too long.
    fn is_same(&self, other: &Self) -> bool {
        if self.fingerprint() != other.fingerprint() {
            return false;
        }
        charge(1);
        match (self, other) {
            (Self::True, Self::True) | (Self::False, Self::False) => true,
            (Self::Atom(a), Self::Atom(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::And(a), Self::And(b)) | (Self::Or(a), Self::Or(b)) | (Self::Not(a), Self::Not(b)) => {
                Arc::ptr_eq(a, b) || (a.size == b.size && a.size <= MAX_COMPARED_SIZE && a.is_same(b))
            }
            _ => false,
        }
    }
}

/// Larger predicates are equal only if they are the same allocation.
const MAX_COMPARED_SIZE: u64 = 20_000;

impl Junction {
    fn is_same(&self, other: &Self) -> bool {
        let in_order = self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(left, right)| left.is_same(right));
        if in_order || self.parts.len() != other.parts.len() {
            return in_order;
        }
        charge_each(self.parts.len());
        let sorted = |parts: &[Predicate]| {
            let mut sorted: Vec<usize> = (0..parts.len()).collect();
            sorted.sort_by_key(|at| parts.get(*at).map(Predicate::fingerprint));
            sorted
        };
        sorted(&self.parts).into_iter().zip(sorted(&other.parts)).all(|(left, right)| {
            match (self.parts.get(left), other.parts.get(right)) {
                (Some(left), Some(right)) => left.is_same(right),
                _ => false,
            }
        })
    }
}

impl Hash for Predicate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Weight of a list of strings. Short lists are expanded; a list of thousands is one value that is looked up in a set.
fn list_weight(lengths: impl ExactSizeIterator<Item = usize>) -> u64 {
    const MAX_EXPANDED_VALUES: usize = 16;
    let count = lengths.len();
    let bytes = lengths.fold(0_u64, |bytes, length| bytes.saturating_add(length as u64));
    1 + count.min(MAX_EXPANDED_VALUES) as u64
        + count.saturating_sub(MAX_EXPANDED_VALUES) as u64 / 8
        + bytes / 32
}

impl Atom {
    fn size(&self) -> u64 {
        let list = |values: &[String]| list_weight(values.iter().map(String::len));
        match self {
            Self::TextIn(_, values, _)
            | Self::TextCallAny(.., values)
            | Self::ArrayHasAny(_, values)
            | Self::ArrayHasAll(_, values) => list(values),
            Self::CompareText(_, left, right) | Self::TextCall(_, left, right) => left.size() + right.size(),
            Self::ArrayHas(_, needle) => 1 + needle.size(),
            Self::Matches(_, pattern) => 1 + weight(&pattern.re2),
            Self::ArrayEq(_, Array::List(values)) => {
                values.iter().map(Text::size).fold(1, u64::saturating_add)
            }
            Self::Quantified { body, .. } => body.size().saturating_mul(2).saturating_add(2),
            Self::ExactlyOne(parts) => parts.iter().map(|part| 1 + part.size()).fold(1, u64::saturating_add),
            _ => 1,
        }
    }
}
