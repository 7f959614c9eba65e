//! Access to both sides of a policy for tests of the lowering, with the correct rules and with altered ones. Only with
//! the feature `testing`, which is disabled in the service.

mod rule_mutations;

use tracewarden_model::Caller;

use crate::check::CheckedPolicy;
use crate::lower::rules::{RULES, Rules};
use crate::lower::{MAX_WORK, lower_with_rules, simplify_bounded};
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

pub use rule_mutations::RuleMutation;

/// Returns where the policy is true and where it is false, simplified as it would be sent; `None` if that is too
/// large.
pub fn truth(checked: &CheckedPolicy, caller: &Caller) -> Option<(Predicate, Predicate)> {
    truth_with_rules(&RULES, checked, caller)
}

/// Returns [`truth`] with one rule altered.
pub fn mutated_truth(
    checked: &CheckedPolicy,
    caller: &Caller,
    mutation: RuleMutation,
) -> Option<(Predicate, Predicate)> {
    truth_with_rules(&mutation.rules(), checked, caller)
}

fn truth_with_rules(
    rules: &Rules,
    checked: &CheckedPolicy,
    caller: &Caller,
) -> Option<(Predicate, Predicate)> {
    let truth = lower_with_rules(rules, &checked.root, caller).ok()?;
    let side = |side: &Predicate| simplify_bounded(side, &Budget::of(MAX_WORK)).ok();
    Some((side(&truth.is_true)?, side(&truth.is_false)?))
}
