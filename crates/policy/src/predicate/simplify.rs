//! Simplifies predicates.
//!
//! Predicates have two values, so the laws of Boolean algebra hold without exception; this is why expressions are
//! lowered to two sides. The laws used are: duplicate parts are removed; a part and its negation make a constant; `p
//! || p && q` is `p`; parts that all alternatives have in common are factored out; tests of the same value are merged
//! ([`merge`]). [`join`](super::join) applies them to the parts of a junction, this file to the whole tree.
//!
//! Every step makes the predicate smaller, in time approximately linear in its size. Parts are found by their hashes
//! and then compared, so equal hashes alone never count as equality.

use std::collections::HashMap;

use super::join::join_simplified;
use super::merge;
use super::work::{Budget, charge_each};
use super::{Atom, Junction, JunctionKind, Predicate};

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
