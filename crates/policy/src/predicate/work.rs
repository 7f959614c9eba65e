//! Counts work: one counter for all code that creates, compares or simplifies predicates.
//!
//! The cost of lowering a text cannot be seen from the text, because macros, lists and conditionals multiply. So work
//! is counted where it is done, and the lowering checks the counter while it runs.

use std::cell::Cell;

thread_local! {
    /// Work done by this thread. Never decreases; only [`Budget`] reads it.
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// Adds to the work done. A unit is about the cost of one predicate node: half a microsecond without optimisation, and
/// at most some hundred bytes.
pub(crate) fn charge(units: u64) {
    DONE.with(|done| done.set(done.get().saturating_add(units)));
}

pub(crate) fn charge_each(count: usize) {
    charge(count as u64);
}

/// A limit for the work of this thread from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    from: u64,
    units: u64,
}

impl Budget {
    pub(crate) fn of(units: u64) -> Self {
        Self { from: DONE.with(Cell::get), units }
    }

    /// Creates a budget of this many units, or of the remaining ones if they are fewer.
    pub(crate) fn at_most(&self, units: u64) -> Self {
        Self::of(units.min(self.units.saturating_sub(self.done())))
    }

    pub(crate) fn unlimited() -> Self {
        Self::of(u64::MAX)
    }

    /// Returns the work done since the budget was created.
    pub(crate) fn done(&self) -> u64 {
        DONE.with(Cell::get).saturating_sub(self.from)
    }

    /// Whether the budget allows this much more work.
    pub(crate) fn allows(&self, units: u64) -> bool {
        self.done().saturating_add(units) <= self.units
    }

    /// Whether the budget was exceeded. It then stays exceeded.
    pub(crate) fn is_spent(&self) -> bool {
        !self.allows(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

    use super::super::{Atom, Predicate};
    use super::*;

    fn flag(name: &str) -> Predicate {
        Predicate::atom(Atom::Flag(Arc::new(MarkedField {
            field: FieldRef::column(name),
            source: FieldSource::Column,
            logical: LogicalType::Boolean,
            column_type: ColumnType::Bool,
            filterable: true,
            policy: true,
            column: None,
        })))
    }

    #[test]
    fn work_is_deducted_from_the_budget() {
        let whole = Budget::of(10);
        charge(4);
        assert_eq!(whole.done(), 4);
        assert!(whole.allows(6) && !whole.allows(7));
        let part = whole.at_most(3);
        charge_each(3);
        assert!(!part.is_spent() && whole.done() == 7);
        charge(1);
        assert!(part.is_spent() && !whole.is_spent());
        let rest = whole.at_most(100);
        assert!(rest.allows(2) && !rest.allows(3));
        charge(2);
        assert!(!rest.is_spent() && !whole.is_spent());
        charge(1);
        assert!(rest.is_spent() && whole.is_spent());
        assert!(!whole.at_most(5).allows(1), "nothing is left");
        assert!(Budget::unlimited().allows(u64::MAX));
    }

    #[test]
    fn created_nodes_are_counted() {
        let work = Budget::unlimited();
        let (p, q) = (flag("p"), flag("q"));
        assert_eq!(work.done(), 2 * (4 + 1), "each is hashed");
        assert_eq!(p.and(q).size(), 3);
        assert_eq!(work.done(), 10 + 2 + (1 + 2), "the parts are read and combined");
    }

    /// Expanded, they would have millions of nodes.
    #[test]
    fn shared_predicates_are_compared_by_identity() {
        let shared = || {
            (0..20).fold(flag("p"), |inner, _| {
                let either = |name| inner.clone().or(flag(name));
                either("q").and(either("r"))
            })
        };
        let (one, again) = (shared(), shared());
        assert!(one.size() > 1_000_000);
        let work = Budget::unlimited();
        let Predicate::Or(both) = one.or(again) else {
            panic!("larger ones are the same only when they are one")
        };
        assert_eq!(both.parts().len(), 2);
        assert!(work.done() < 1_000, "{}", work.done());
    }
}
