//! Simplifies predicates.
//!
//! Predicates have two values, so the laws of Boolean algebra hold without exception; this is why expressions are
//! lowered to two sides. The laws used are: duplicate parts are removed; a part and its negation make a constant; `p
//! || p && q` is `p`; parts that all alternatives have in common are factored out; tests of the same value are merged
//! ([`merge`]).
//!
//! Every step makes the predicate smaller, in time approximately linear in its size. Parts are found by their hashes
//! and then compared, so equal hashes alone never count as equality.

use std::collections::{HashMap, HashSet};

use super::merge;
use super::work::{Budget, charge_each};
use super::{Atom, Junction, Predicate};

/// Up to this number of alternatives, each is searched for in each other one. Above it, only single parts are.
const MAX_PAIRWISE_PARTS: usize = 256;
/// Number of sets that are distinguished by their hashes in one unit of work.
const SETS_PER_UNIT: usize = 8;
/// Maximum number of rounds. Merged parts can often be merged again, but rarely more than once.
const MAX_ROUNDS: usize = 8;

/// Conjunction or disjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JunctionKind {
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

    /// Returns the parts of a junction of this kind. Any other predicate is its own only part.
    fn parts_of(self, predicate: &Predicate) -> &[Predicate] {
        match (self, predicate) {
            (Self::All, Predicate::And(junction)) | (Self::Any, Predicate::Or(junction)) => &junction.parts,
            _ => std::slice::from_ref(predicate),
        }
    }

    pub(super) fn join(self, parts: impl IntoIterator<Item = Predicate>) -> Predicate {
        match self {
            Self::All => Predicate::all(parts),
            Self::Any => Predicate::any(parts),
        }
    }
}

impl Predicate {
    /// Returns a simplified, equivalent predicate.
    #[must_use]
    pub fn simplified(&self) -> Self {
        self.simplified_within(&Budget::unlimited())
    }

    /// Returns an equivalent predicate, simplified as far as the budget permits.
    pub(crate) fn simplified_within(&self, budget: &Budget) -> Self {
        Simplifier { budget, known: HashMap::new() }.simple(self)
    }

    /// Returns the disjunction of simplified parts, simplified as far as the budget permits.
    pub(crate) fn any_simplified(parts: Vec<Self>, budget: &Budget) -> Self {
        join_simplified(JunctionKind::Any, parts, budget)
    }
}

/// Caches simplified nodes: nodes are shared, so the expanded tree can be much larger than the number of nodes.
struct Simplifier<'a> {
    budget: &'a Budget,
    /// By address. The original is kept alive, so that its address is not reused.
    known: HashMap<usize, (Predicate, Predicate)>,
}

impl Simplifier<'_> {
    fn simple(&mut self, predicate: &Predicate) -> Predicate {
        let Some(address) = address(predicate) else { return predicate.clone() };
        if let Some((_, simple)) = self.known.get(&address) {
            return simple.clone();
        }
        charge_each(2);
        if self.budget.is_spent() {
            return predicate.clone();
        }
        let simple = match predicate {
            Predicate::True | Predicate::False => predicate.clone(),
            Predicate::And(junction) => self.junction(JunctionKind::All, junction),
            Predicate::Or(junction) => self.junction(JunctionKind::Any, junction),
            Predicate::Not(junction) => match junction.parts.first() {
                Some(inner) => merge::negation(self.simple(inner)),
                None => Predicate::False,
            },
            Predicate::Atom(leaf) => self.atom(leaf, predicate),
        };
        self.known.insert(address, (predicate.clone(), simple.clone()));
        simple
    }

    fn junction(&mut self, kind: JunctionKind, junction: &Junction) -> Predicate {
        let parts = junction.parts.iter().map(|part| self.simple(part)).collect();
        join_simplified(kind, parts, self.budget)
    }

    fn atom(&mut self, atom: &Atom, whole: &Predicate) -> Predicate {
        match atom {
            Atom::Quantified { quantifier, array, variable, body } => {
                merge::quantified(*quantifier, array, *variable, self.simple(body))
            }
            Atom::ExactlyOne(parts) => {
                let one = Predicate::exactly_one(parts.iter().map(|part| self.simple(part)));
                match &one {
                    Predicate::Atom(atom) if matches!(***atom, Atom::ExactlyOne(_)) => one,
                    // Some parts became constants, so the rest may be simplified again.
                    other => self.simple(other),
                }
            }
            _ => merge::simplify_atom(atom).unwrap_or_else(|| whole.clone()),
        }
    }
}

fn address(predicate: &Predicate) -> Option<usize> {
    match predicate {
        Predicate::True | Predicate::False => None,
        Predicate::And(junction) | Predicate::Or(junction) | Predicate::Not(junction) => {
            Some(std::sync::Arc::as_ptr(junction).addr())
        }
        Predicate::Atom(leaf) => Some(std::sync::Arc::as_ptr(leaf).addr()),
    }
}

/// Joins parts that are already simplified.
pub(super) fn join_simplified(kind: JunctionKind, parts: Vec<Predicate>, budget: &Budget) -> Predicate {
    let mut parts = parts;
    for _ in 0..MAX_ROUNDS {
        if budget.is_spent() {
            break;
        }
        let mut distinct = match DistinctParts::of(kind, &parts) {
            Ok(distinct) => distinct,
            Err(decided) => return decided,
        };
        distinct.absorb(kind);
        let (merged, again) = merge::merged(kind, distinct.parts, budget);
        if !again {
            if let Some(factored) = factored(kind, &merged, budget) {
                return factored;
            }
            let (merged, again) = merged_within_parts(kind, merged, budget);
            if !again {
                return kind.join(merged);
            }
            parts = merged;
        } else {
            parts = merged;
        }
    }
    kind.join(parts)
}

/// Parts without duplicates, indexed by hash.
struct DistinctParts {
    parts: Vec<Predicate>,
    indices: HashMap<u64, Vec<usize>>,
}

impl DistinctParts {
    /// Returns the parts, including those of nested junctions. The error is the constant that they are equal to as a
    /// whole.
    fn of(kind: JunctionKind, parts: &[Predicate]) -> Result<Self, Predicate> {
        let neutral = Predicate::constant(kind == JunctionKind::All);
        let absorbing = Predicate::constant(kind != JunctionKind::All);
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
    fn absorb(&mut self, kind: JunctionKind) {
        let inner = kind.dual();
        let contains_other_part = |part: &Predicate| {
            let parts = inner.parts_of(part);
            charge_each(parts.len());
            parts.len() > 1 && parts.iter().any(|part| self.contains(part))
        };
        let mut absorbed: HashSet<usize> = HashSet::new();
        for (index, part) in self.parts.iter().enumerate() {
            let presence_is_implied = match kind {
                // A test of the value includes the presence test.
                JunctionKind::All => {
                    merge::defined_of_present(part).is_some_and(|defined| self.contains(&defined))
                }
                JunctionKind::Any => {
                    let presence = |part: &Predicate| {
                        merge::present_of_defined(part).is_some_and(|present| self.contains(&present))
                    };
                    inner.parts_of(part).iter().any(presence)
                }
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
            let mut index = 0;
            self.parts.retain(|_| {
                index += 1;
                !absorbed.contains(&(index - 1))
            });
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

/// Factors out the common parts: `p && q || p && r` is `p && (q || r)`.
fn factored(kind: JunctionKind, parts: &[Predicate], budget: &Budget) -> Option<Predicate> {
    let inner = kind.dual();
    let (first, others) = parts.split_first()?;
    if others.is_empty() {
        return None;
    }
    let mut common: Vec<&Predicate> = inner.parts_of(first).iter().collect();
    charge_each(common.len());
    for other in others {
        charge_each(inner.parts_of(other).len());
        let other_parts: HashMap<u64, &Predicate> =
            inner.parts_of(other).iter().map(|part| (part.fingerprint(), part)).collect();
        common.retain(|part| other_parts.get(&part.fingerprint()).is_some_and(|known| known.is_same(part)));
        if common.is_empty() {
            return None;
        }
    }
    let shared: HashMap<u64, &Predicate> = common.iter().map(|part| (part.fingerprint(), *part)).collect();
    let is_shared =
        |part: &&Predicate| shared.get(&part.fingerprint()).is_some_and(|known| known.is_same(part));
    let rests = parts.iter().map(|part| {
        let rest = inner.parts_of(part).iter().filter(|part| !is_shared(part));
        inner.join(rest.cloned())
    });
    let rest = join_simplified(kind, rests.collect(), budget);
    let whole: Vec<Predicate> = common.into_iter().cloned().chain([rest]).collect();
    Some(join_simplified(inner, whole, budget))
}

/// Merges parts that differ in one test only: `p && x == a || p && x == b` is `p && x in [a, b]`. The flag tells
/// whether any were merged.
fn merged_within_parts(kind: JunctionKind, parts: Vec<Predicate>, budget: &Budget) -> (Vec<Predicate>, bool) {
    let inner = kind.dual();
    let mut groups: HashMap<(u64, u64), Vec<(usize, usize)>> = HashMap::new();
    for (index, part) in parts.iter().enumerate() {
        let tests = inner.parts_of(part);
        if tests.len() < 2 {
            continue;
        }
        charge_each(2 * tests.len());
        let whole = tests.iter().fold(0_u64, |sum, test| sum.wrapping_add(test.fingerprint()));
        for (at, test) in tests.iter().enumerate() {
            if let Some(key) = merge::key(kind, test) {
                let rest = whole.wrapping_sub(test.fingerprint());
                groups.entry((key, rest)).or_default().push((index, at));
            }
        }
    }
    // The largest group first, then by content and not by position: a part can belong to several groups, and the
    // result must not depend on the order of the parts.
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, group)| group.len() > 1).collect();
    groups.sort_by_key(|(held, group)| (usize::MAX - group.len(), *held));
    let mut slots: Vec<Option<Predicate>> = parts.into_iter().map(Some).collect();
    let mut any = false;
    for (_, group) in groups {
        let mut chosen: Vec<(usize, Predicate, Vec<Predicate>)> = Vec::new();
        for (index, at) in group {
            let Some(part) = slots.get(index).and_then(Option::as_ref) else { continue };
            if budget.is_spent() {
                break;
            }
            let mut rest = inner.parts_of(part).to_vec();
            charge_each(rest.len());
            if at >= rest.len() || merge::key(kind, part_at(&rest, at)).is_none() {
                continue;
            }
            let test = rest.remove(at);
            let fits = match chosen.first() {
                None => true,
                Some((_, first, first_rest)) => {
                    merge::can_merge(kind, first, &test) && is_same_set(first_rest, &rest)
                }
            };
            if fits {
                chosen.push((index, test, rest));
            }
        }
        let Some((first, _, rest)) = chosen.first().filter(|_| chosen.len() > 1) else { continue };
        let (first, mut whole) = (*first, rest.clone());
        for (index, ..) in &chosen {
            if let Some(slot) = slots.get_mut(*index) {
                *slot = None;
            }
        }
        whole.extend(merge::merged(kind, chosen.into_iter().map(|(_, test, _)| test).collect(), budget).0);
        if let Some(slot) = slots.get_mut(first) {
            *slot = Some(join_simplified(inner, whole, budget));
        }
        any = true;
        // Merged parts are processed in the next round, because their positions in the groups are no longer valid.
    }
    (slots.into_iter().flatten().collect(), any)
}

fn part_at(parts: &[Predicate], at: usize) -> &Predicate {
    parts.get(at).unwrap_or(&Predicate::False)
}

fn is_same_set(left: &[Predicate], right: &[Predicate]) -> bool {
    left.len() == right.len() && PartSet::of(left).is_within(&PartSet::of(right))
}
