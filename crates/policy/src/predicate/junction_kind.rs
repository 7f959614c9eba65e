//! The two kinds of junctions, for code that handles both alike.

use super::Predicate;

/// Conjunction or disjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JunctionKind {
    All,
    Any,
}

impl JunctionKind {
    /// Returns the other kind.
    pub(super) fn dual(self) -> Self {
        match self {
            Self::All => Self::Any,
            Self::Any => Self::All,
        }
    }

    /// Returns the parts of a junction of this kind. Any other predicate is its own only part.
    pub(super) fn parts_of(self, predicate: &Predicate) -> &[Predicate] {
        match (self, predicate) {
            (Self::All, Predicate::And(junction)) | (Self::Any, Predicate::Or(junction)) => &junction.parts,
            _ => std::slice::from_ref(predicate),
        }
    }

    /// Returns the conjunction or disjunction of the parts.
    pub(super) fn join(self, parts: impl IntoIterator<Item = Predicate>) -> Predicate {
        match self {
            Self::All => Predicate::all(parts),
            Self::Any => Predicate::any(parts),
        }
    }
}
