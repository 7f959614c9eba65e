//! Formats an explanation, and a user's whole access, as one sentence.

use tracewarden_policy::{Predicate, describe};

use crate::core::{policy_name, reason_text};
use crate::policies::explanation::ExplainVerdict;
use crate::policies::user_policies::{Block, Decision, UserPolicies};

/// Formats "`ada` sees this trace: …"; addresses the caller as "you".
pub(crate) fn decision_summary(applied: &UserPolicies, decision: &Decision, spans: u64, own: bool) -> String {
    let name = format!("`{}`", applied.inputs.caller.username);
    let (who, sees, is) = if own { ("you", "see", "are") } else { (name.as_str(), "sees", "is") };
    let not = if own { "do not see" } else { "does not see" };
    let possessive = if own { "your" } else { "their" };
    let spans = match spans {
        1 => "its one span".to_owned(),
        spans => format!("any of its {spans} spans"),
    };
    let source = || decision.source.as_ref().map_or_else(|| "a policy".to_owned(), policy_name);
    match decision.verdict {
        ExplainVerdict::Granted => {
            format!("{who} {sees} this trace: {} grants access", source())
        }
        ExplainVerdict::NoPolicy => {
            format!("{who} {not} this trace: none of {possessive} roles has a policy")
        }
        ExplainVerdict::NotSatisfied => {
            let policies = match applied.policies.policies.len() {
                1 => format!("the one policy of {possessive} roles is not satisfied"),
                policies => format!("none of the {policies} policies of {possessive} roles is satisfied"),
            };
            format!("{who} {not} this trace: {policies} by {spans}")
        }
        ExplainVerdict::KeyConstraint => {
            format!("{who} {not} this trace: the policy of the API key is not satisfied by {spans}")
        }
        ExplainVerdict::Disabled => format!("{who} {is} disabled and can read no trace"),
        ExplainVerdict::Suspended => {
            format!(
                "{who} can read no trace with a session or an API key while {possessive} access is suspended"
            )
        }
        ExplainVerdict::PasswordChangeRequired => {
            format!("{who} can read no trace before the password is changed")
        }
        ExplainVerdict::Broken => {
            let reason = decision.reason.unwrap_or("cannot be applied");
            format!("{who} can read no trace at all: {} {reason}", source())
        }
    }
}

/// Formats "`ada` can read a trace when …".
pub(crate) fn access_summary(applied: &UserPolicies) -> String {
    let by_policies = || policies_summary(applied);
    match applied.inputs.block {
        None => by_policies(),
        Some(Block::Disabled) => {
            format!("`{}` is disabled and can read no trace", applied.inputs.caller.username)
        }
        Some(Block::Suspended) => {
            by_policies() + "; nothing with a session or an API key while their access is suspended"
        }
        Some(Block::PasswordChangeRequired) => by_policies() + "; nothing before the password is changed",
    }
}

fn policies_summary(applied: &UserPolicies) -> String {
    let name = &applied.inputs.caller.username;
    let policies = applied.policies.policies.len();
    if let Some(broken) = &applied.policies.refused {
        let (source, reason) = (policy_name(&broken.source), reason_text(broken.reason));
        return format!("`{name}` can read no trace at all: {source} {reason}");
    }
    match (policies, applied.policies.granting_predicates().as_slice()) {
        (0, _) => format!("`{name}` can read no trace: none of their roles has a policy"),
        (_, []) => format!("`{name}` can read no trace: no span can satisfy a policy of their roles"),
        (_, [Predicate::True]) => format!("`{name}` can read every trace"),
        (_, [one]) => format!("`{name}` can read a trace when one of its spans matches: {}", describe(one)),
        (_, several) => format!(
            "`{name}` can read a trace when one of its spans satisfies any of {} policies",
            several.len()
        ),
    }
}
