//! Where an expression is true and where it is false.

use crate::predicate::Predicate;

/// Where an expression is true and where it is false; it is an error everywhere else. Never both.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    pub(crate) is_true: Predicate,
    pub(crate) is_false: Predicate,
}

impl Truth {
    /// An error on every span.
    pub(crate) const ERROR: Self = Self { is_true: Predicate::False, is_false: Predicate::False };

    /// The same on every span.
    pub(crate) fn known(value: bool) -> Self {
        Self { is_true: Predicate::constant(value), is_false: Predicate::constant(!value) }
    }

    /// Where it is no error.
    pub(crate) fn decided(&self) -> Predicate {
        self.is_true.clone().or(self.is_false.clone())
    }

    /// The same where `defined` holds, an error elsewhere.
    pub(crate) fn where_defined(self, defined: &Predicate) -> Self {
        Self { is_true: defined.clone().and(self.is_true), is_false: defined.clone().and(self.is_false) }
    }
}
