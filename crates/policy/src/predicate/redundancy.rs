//! Removes redundant parts of a junction: duplicates, and parts that another part implies.

use std::collections::{HashMap, HashSet};

use super::work::charge_each;
use super::{Atom, JunctionKind, Predicate};

/// Up to this number of alternatives, each is searched for in each other one. Above it, only single parts are.
const MAX_PAIRWISE_PARTS: usize = 256;
/// Number of sets that are distinguished by their hashes in one unit of work.
const SETS_PER_UNIT: usize = 8;

/// Parts without duplicates, indexed by hash.
pub(super) struct DistinctParts {
    pub(super) parts: Vec<Predicate>,
    indices: HashMap<u64, Vec<usize>>,
}

impl DistinctParts {
    /// Returns the parts, including those of nested junctions. The error is the constant that they are equal to as a
    /// whole.
    pub(super) fn of(kind: JunctionKind, parts: &[Predicate]) -> Result<Self, Predicate> {
        let (neutral, absorbing) = (kind.neutral(), kind.dual().neutral());
        let mut distinct = Self { parts: Vec::with_capacity(parts.len()), indices: HashMap::new() };
        for part in parts.iter().flat_map(|part| kind.parts_of(part)) {
            charge_each(1);
            if part.is_same(&absorbing) {
                return Err(absorbing);
            }
            if !part.is_same(&neutral) && !distinct.contains(part) {
                distinct.indices.entry(part.fingerprint()).or_default().push(distinct.parts.len());
                distinct.parts.push(part.clone());
            }
        }
        let has_negation = |part: &Predicate| match part {
            Predicate::Not(inner) => inner.parts.first().is_some_and(|inner| distinct.contains(inner)),
            _ => false,
        };
        if distinct.parts.iter().any(has_negation) {
            return Err(absorbing);
        }
        match distinct.parts.is_empty() {
            true => Err(neutral),
            false => Ok(distinct),
        }
    }

    fn contains(&self, part: &Predicate) -> bool {
        let indices = self.indices.get(&part.fingerprint());
        indices.is_some_and(|indices| {
            indices.iter().any(|index| self.parts.get(*index).is_some_and(|known| known.is_same(part)))
        })
    }

    /// Removes parts that are redundant because of another part: `p || p && q` is `p`, `p && (p || q)` is `p`.
    pub(super) fn absorb(&mut self, kind: JunctionKind) {
        let inner = kind.dual();
        let contains_other_part = |part: &Predicate| {
            let parts = inner.parts_of(part);
            charge_each(parts.len());
            parts.len() > 1 && parts.iter().any(|part| self.contains(part))
        };
        // A test of the value includes the presence test.
        let is_implied_presence = |part: &Predicate| {
            let implying = match (kind, part.as_test()) {
                (JunctionKind::All, Some((Atom::Present(field), false))) => Atom::Defined(field.clone()),
                (JunctionKind::Any, Some((Atom::Defined(field), false))) => Atom::Present(field.clone()),
                _ => return false,
            };
            self.contains(&Predicate::atom(implying))
        };
        let mut absorbed: HashSet<usize> = HashSet::new();
        for (index, part) in self.parts.iter().enumerate() {
            let presence_is_implied = match kind {
                JunctionKind::All => is_implied_presence(part),
                JunctionKind::Any => inner.parts_of(part).iter().any(is_implied_presence),
            };
            if presence_is_implied || contains_other_part(part) {
                absorbed.insert(index);
            }
        }
        if self.parts.len() <= MAX_PAIRWISE_PARTS {
            let sets: Vec<PartSet<'_>> =
                self.parts.iter().map(|part| PartSet::of(inner.parts_of(part))).collect();
            for (index, larger) in sets.iter().enumerate() {
                charge_each(sets.len() / SETS_PER_UNIT);
                let implied = |(other, smaller): (usize, &PartSet<'_>)| {
                    other != index
                        && !absorbed.contains(&other)
                        && smaller.parts.len() < larger.parts.len()
                        && smaller.is_within(larger)
                };
                if sets.iter().enumerate().any(implied) {
                    absorbed.insert(index);
                }
            }
        }
        if !absorbed.is_empty() {
            let mut indexes = 0..;
            self.parts.retain(|_| indexes.next().is_none_or(|index| !absorbed.contains(&index)));
            self.indices.clear();
        }
    }
}

/// Parts of a junction, for subset tests.
struct PartSet<'a> {
    parts: &'a [Predicate],
    /// One bit for each hash modulo 64. A part whose bit is not set is not in the set.
    bits: u64,
}

impl<'a> PartSet<'a> {
    fn of(parts: &'a [Predicate]) -> Self {
        let bits = parts.iter().fold(0, |bits, part| bits | 1 << (part.fingerprint() % 64));
        Self { parts, bits }
    }

    fn is_within(&self, other: &Self) -> bool {
        if self.bits & !other.bits != 0 {
            return false;
        }
        charge_each(1 + self.parts.len() * other.parts.len() / SETS_PER_UNIT);
        self.parts.iter().all(|part| other.parts.iter().any(|known| known.is_same(part)))
    }
}

/// Whether both lists have the same parts, in any order.
pub(super) fn is_same_set(left: &[Predicate], right: &[Predicate]) -> bool {
    left.len() == right.len() && PartSet::of(left).is_within(&PartSet::of(right))
}
