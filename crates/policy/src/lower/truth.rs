//! The two sides of a lowered expression.

use crate::predicate::Predicate;

/// Where an expression is true and where it is false. Everywhere else it is an error. The two sides never overlap.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) is_true: Predicate,
    pub(crate) is_false: Predicate,
}

impl Truth {
    /// An error on every span.
    pub(crate) const ERROR: Self = Self { is_true: Predicate::False, is_false: Predicate::False };

    /// A constant on every span.
    pub(crate) fn known(value: bool) -> Self {
        Self { is_true: Predicate::constant(value), is_false: Predicate::constant(!value) }
    }

    /// A test that is never an error: it holds here and nowhere else.
    pub(crate) fn of(holds: Predicate) -> Self {
        Self { is_true: holds.clone(), is_false: holds.negate() }
    }

    /// Returns where the expression is not an error.
    pub(crate) fn not_error(&self) -> Predicate {
        self.is_true.clone().or(self.is_false.clone())
    }

    /// Returns the same expression where `defined` holds, and an error elsewhere.
    pub(crate) fn where_defined(self, defined: &Predicate) -> Self {
        Self { is_true: defined.clone().and(self.is_true), is_false: defined.clone().and(self.is_false) }
    }
}
