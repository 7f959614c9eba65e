//! Operators of comparisons.

use tracewarden_policy::predicate::Relation;

/// Writes the operator of a comparison.
pub(super) fn operator(relation: Relation) -> &'static str {
    match relation {
        Relation::Eq => "=",
        Relation::Ne => "!=",
        Relation::Lt => "<",
        Relation::Le => "<=",
        Relation::Gt => ">",
        Relation::Ge => ">=",
    }
}
