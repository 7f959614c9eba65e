//! All kinds of diagnostics. Programs depend on the codes: new ones may be added, existing ones are never renamed.
//! `docs/policies.md` describes them.

use crate::diagnostics::Diagnostic;

/// Codes of diagnostics that reject a policy.
pub const ERRORS: &[&str] = &[
    "syntax",
    "unsupported",
    "unmarked_field",
    "number_field",
    "unknown_name",
    "unknown_function",
    "type_mismatch",
    "invalid_pattern",
    "too_long",
    "too_many_tokens",
    "too_deep",
    "too_large",
    "unavailable",
];

/// Codes of advice: the policy can be stored.
pub const WARNINGS: &[&str] = &[
    "negated_absent_key",
    "negated_attribute",
    "constant",
    "shadowed",
    "repeated",
    "slow_pattern",
    "unknown_attribute",
    "attribute_kind",
    "unknown_role",
    "opens_no_recent_trace",
    "opens_every_recent_trace",
    "broad_policy",
];

impl Diagnostic {
    /// Whether the policy can be stored in spite of the diagnostic. An unknown code rejects it.
    pub fn is_warning(&self) -> bool {
        WARNINGS.contains(&self.code)
    }
}
