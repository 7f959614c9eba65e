//! Error messages for a stored policy that cannot be applied: reason and remedy, for the caller and for administrators.

use tracewarden_policy::{BrokenPolicy, BrokenReason, PolicySource};

use crate::core::error::ServiceError;

/// A policy that cannot be applied, with the messages of the compiler.
#[derive(Debug, thiserror::Error)]
#[error("{} {}: {}", policy_name(&.0.source), reason_text(.0.reason), messages(.0))]
struct PolicyFault(BrokenPolicy);

fn messages(broken: &BrokenPolicy) -> String {
    let messages: Vec<&str> =
        broken.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    messages.join("; ")
}

pub(crate) fn policy_name(source: &PolicySource) -> String {
    match source {
        PolicySource::Role { role, title } => format!("the policy `{title}` of the role `{role}`"),
        PolicySource::KeyConstraint => "the policy of the API key".to_owned(),
    }
}

/// Reason why the policy cannot be applied; follows the policy's name in a sentence.
pub(crate) fn reason_text(reason: BrokenReason) -> &'static str {
    match reason {
        BrokenReason::UnknownName => "references a field that is no longer usable in policies",
        BrokenReason::WrongType => "uses a field whose type has changed",
        BrokenReason::NotCompiling => "no longer compiles",
        BrokenReason::TooLargeForCaller => "becomes too large with the roles and attributes of its user",
        BrokenReason::TooLargeTogether => {
            "is, together with the other policies of its user, too large with the user's roles and attributes"
        }
        BrokenReason::Unavailable => "could not be checked",
    }
}

fn remedy(reason: BrokenReason) -> &'static str {
    match reason {
        BrokenReason::UnknownName => "make the field usable in policies again, or change the policy",
        BrokenReason::WrongType | BrokenReason::NotCompiling => "correct the policy",
        BrokenReason::TooLargeForCaller => {
            "shorten the lists in the user's attributes, or look for a value in a list with `in`, which stays small"
        }
        BrokenReason::TooLargeTogether => {
            "shorten the lists in the user's attributes, or take roles from the user"
        }
        BrokenReason::Unavailable => "try again",
    }
}

/// Returns the error of a request that is rejected because of a policy. Only administrators see which policy it is and what
/// is wrong with it.
pub(crate) fn broken_policy_error(broken: BrokenPolicy, is_admin: bool) -> ServiceError {
    let (reason, is_key_policy) = (broken.reason, broken.source == PolicySource::KeyConstraint);
    let fault = PolicyFault(broken);
    let detail = match (reason, is_key_policy, is_admin) {
        (BrokenReason::Unavailable, ..) => return ServiceError::unavailable(fault),
        (reason, _, true) => format!("{fault}; {}", remedy(reason)),
        (reason, true, false) => {
            format!("the policy of the API key {}; create another key", reason_text(reason))
        }
        (BrokenReason::TooLargeForCaller, ..) => format!(
            "a policy of your roles becomes too large with your roles and attributes; ask an administrator to {}",
            remedy(reason)
        ),
        (BrokenReason::TooLargeTogether, ..) => format!(
            "the policies of your roles are together too large with your roles and attributes; ask an administrator to {}",
            remedy(reason)
        ),
        (reason, false, false) => {
            format!(
                "a policy of your roles {}; ask an administrator to {}",
                reason_text(reason),
                remedy(reason)
            )
        }
    };
    ServiceError::PolicyBroken { detail, source: fault.into() }
}

#[cfg(test)]
mod tests {
    use tracewarden_policy::Diagnostic;

    use super::*;

    fn broken(source: PolicySource, reason: BrokenReason) -> BrokenPolicy {
        let diagnostic = Diagnostic {
            line: 1,
            column: 1,
            length: 1,
            code: "unknown_name",
            message: "there is no field `Secret`".to_owned(),
            hint: None,
        };
        BrokenPolicy { source, reason, diagnostics: vec![diagnostic] }
    }

    #[test]
    fn only_administrators_see_details_of_broken_policies() {
        let role = || PolicySource::Role { role: "pay".to_owned(), title: "Own team".to_owned() };
        let reasons = [
            BrokenReason::UnknownName,
            BrokenReason::WrongType,
            BrokenReason::NotCompiling,
            BrokenReason::TooLargeForCaller,
            BrokenReason::TooLargeTogether,
        ];
        let mut details = std::collections::BTreeSet::new();
        for reason in reasons {
            for source in [role(), PolicySource::KeyConstraint] {
                let error = broken_policy_error(broken(source.clone(), reason), false);
                assert_eq!(error.code(), "policy_broken");
                let detail = error.detail();
                let compiles =
                    matches!(reason, BrokenReason::TooLargeForCaller | BrokenReason::TooLargeTogether);
                assert!(!(compiles && detail.contains("compile")), "{detail}");
                assert!(!detail.contains("Secret") && !detail.contains("Own team"), "{detail}");
                assert!(details.insert(detail), "each has its own");
                let detail_for_admin = broken_policy_error(broken(source.clone(), reason), true).detail();
                assert!(
                    detail_for_admin.contains("Secret") && detail_for_admin.contains(&policy_name(&source)),
                    "{detail_for_admin}"
                );
            }
        }
        let error = broken_policy_error(broken(role(), BrokenReason::Unavailable), false);
        assert_eq!(error.code(), "unavailable");
    }
}
