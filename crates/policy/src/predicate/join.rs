//! Joins simplified parts to a simplified junction. Its steps call each other: merged tests and factored alternatives
//! contain parts that are joined again.

use std::collections::HashMap;

use super::merge::{self, Form, Subject};
use super::redundancy::{DistinctParts, is_same_set};
use super::work::{Budget, charge_each};
use super::{Atom, JunctionKind, Predicate};

/// Maximum number of rounds. Merged parts can often be merged again, but rarely more than once.
const MAX_ROUNDS: usize = 8;

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
        let (merged, again) = merged(kind, distinct.parts, budget);
        if again {
            parts = merged;
            continue;
        }
        if let Some(factored) = factored(kind, &merged, budget) {
            return factored;
        }
        let (merged, again) = merged_within_parts(kind, merged, budget);
        if !again {
            return kind.join(merged);
        }
        parts = merged;
    }
    kind.join(parts)
}

/// Merges parts of a conjunction or disjunction where possible, each into the first of its group. The flag tells
/// whether any were merged.
fn merged(kind: JunctionKind, parts: Vec<Predicate>, budget: &Budget) -> (Vec<Predicate>, bool) {
    let mut groups: HashMap<u64, Vec<usize>> = HashMap::new();
    charge_each(2 * parts.len());
    for (index, part) in parts.iter().enumerate() {
        if let Some(key) = merge::key(kind, part) {
            groups.entry(key).or_default().push(index);
        }
    }
    groups.retain(|_, group| group.len() > 1);
    if groups.is_empty() {
        return (parts, false);
    }
    let mut slots: Vec<Option<Predicate>> = parts.iter().cloned().map(Some).collect();
    let mut any = false;
    for group in groups.into_values() {
        let Some(first) = group.first().and_then(|first| parts.get(*first)) else { continue };
        let mergeable: Vec<usize> = group
            .iter()
            .copied()
            .filter(|index| parts.get(*index).is_some_and(|part| merge::can_merge(kind, first, part)))
            .collect();
        if mergeable.len() < 2 {
            continue;
        }
        let mut one = Some(one(kind, mergeable.iter().filter_map(|index| parts.get(*index)), budget));
        for index in mergeable {
            if let Some(slot) = slots.get_mut(index) {
                *slot = one.take();
            }
        }
        any = true;
    }
    (slots.into_iter().flatten().collect(), any)
}

/// Merges the conjunction or disjunction of tests that fit.
fn one<'a>(kind: JunctionKind, tests: impl Iterator<Item = &'a Predicate>, budget: &Budget) -> Predicate {
    let forms: Vec<Form<'a>> = tests.filter_map(Form::from_predicate).collect();
    let Some(first) = forms.first() else { return kind.neutral() };
    let values = || merge::distinct(forms.iter().flat_map(|form| form.values));
    match first.subject {
        Subject::Values(text) => {
            let tests = forms.iter().map(|form| (form.values, form.none_or_all));
            let (values, negated) = merge::values(kind, tests);
            merge::one_of(text, values, negated)
        }
        Subject::Calls(function, text, negated) => {
            let call = merge::simplify_call(function, text, values());
            if negated { merge::negation(call) } else { call }
        }
        Subject::Elements(array, negated) => {
            // Either the array must contain all values, or it must contain none of them.
            let all_or_any =
                if negated == (kind == JunctionKind::All) { Atom::ArrayHasAny } else { Atom::ArrayHasAll };
            let elements = Predicate::atom(all_or_any(array.clone(), values()));
            if negated { elements.negate() } else { elements }
        }
        Subject::Bodies(quantifier, array, variable) => {
            let bodies = forms.iter().filter_map(|form| form.body.cloned()).collect();
            merge::quantified(quantifier, array, variable, join_simplified(kind, bodies, budget))
        }
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
            if rest.get(at).is_none_or(|test| merge::key(kind, test).is_none()) {
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
        whole.extend(merged(kind, chosen.into_iter().map(|(_, test, _)| test).collect(), budget).0);
        if let Some(slot) = slots.get_mut(first) {
            *slot = Some(join_simplified(inner, whole, budget));
        }
        any = true;
        // Merged parts are processed in the next round, because their positions in the groups are no longer valid.
    }
    (slots.into_iter().flatten().collect(), any)
}
