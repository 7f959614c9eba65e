//! Access to both sides of a policy for tests of the lowering, with the correct rules and with altered ones. Only with
//! the feature `testing`, which is disabled in the service.

use tracewarden_model::Caller;

use crate::check::Checked;
use crate::lower::rules::{RULES, Rules};
use crate::lower::{MAX_WORK, lower_by, sized};
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

pub use crate::lower::alterations::Alteration;

/// Returns where the policy is true and where it is false, simplified as it would be sent; `None` if that is too
/// large.
pub fn truth(checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    by(&RULES, checked, caller)
}

/// Returns [`truth`] with one rule altered.
pub fn truth_altered(
    checked: &Checked,
    caller: &Caller,
    alteration: Alteration,
) -> Option<(Predicate, Predicate)> {
    by(&alteration.rules(), checked, caller)
}

/// Returns [`truth`] before simplification.
pub fn truth_unsimplified(checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    let truth = lower_by(&RULES, &checked.root, caller).ok()?;
    Some((truth.is_true, truth.is_false))
}

fn by(rules: &Rules, checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    let truth = lower_by(rules, &checked.root, caller).ok()?;
    let side = |side: &Predicate| sized(side, &Budget::of(MAX_WORK)).ok();
    Some((side(&truth.is_true)?, side(&truth.is_false)?))
}
