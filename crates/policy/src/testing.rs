//! For tests of the lowering: both sides of a policy, by the right rules and by wrong ones. Only with the feature
//! `testing`, which the service is built without.

use tracewarden_model::Caller;

use crate::check::Checked;
use crate::lower::rules::{RULES, Rules};
use crate::lower::{MAX_WORK, lower_by, sized};
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

pub use crate::lower::alterations::Alteration;

/// Where the policy is true and where it is false, simplified as it would be sent; `None` when that is too large.
pub fn truth(checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    by(&RULES, checked, caller)
}

/// [`truth`] by the rules with one of them wrong.
pub fn truth_altered(
    checked: &Checked,
    caller: &Caller,
    alteration: Alteration,
) -> Option<(Predicate, Predicate)> {
    by(&alteration.rules(), checked, caller)
}

/// [`truth`] as the rules say it, before it is simplified.
pub fn truth_unsimplified(checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    let truth = lower_by(&RULES, &checked.root, caller).ok()?;
    Some((truth.is_true, truth.is_false))
}

fn by(rules: &Rules, checked: &Checked, caller: &Caller) -> Option<(Predicate, Predicate)> {
    let truth = lower_by(rules, &checked.root, caller).ok()?;
    let side = |side: &Predicate| sized(side, &Budget::of(MAX_WORK)).ok();
    Some((side(&truth.is_true)?, side(&truth.is_false)?))
}
