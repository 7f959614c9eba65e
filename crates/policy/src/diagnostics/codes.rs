//! All kinds of diagnostics. Programs depend on the codes: new ones may be added, existing ones are never renamed.

use crate::diagnostics::Diagnostic;

/// Whether a policy can be stored in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The policy cannot be stored.
    Error,
    /// The policy can be stored; the diagnostic is advice.
    Warning,
}

/// A kind of diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Value of [`Diagnostic::code`].
    pub code: &'static str,
    /// Whether the policy is rejected.
    pub severity: Severity,
}

const fn error(code: &'static str) -> Code {
    Code { code, severity: Severity::Error }
}

const fn warning(code: &'static str) -> Code {
    Code { code, severity: Severity::Warning }
}

/// All kinds of diagnostics; `docs/policies.md` describes them.
pub const CODES: &[Code] = &[
    error("syntax"),
    error("unsupported"),
    error("unmarked_field"),
    error("number_field"),
    error("unknown_name"),
    error("unknown_function"),
    error("type_mismatch"),
    error("invalid_pattern"),
    error("too_long"),
    error("too_many_tokens"),
    error("too_deep"),
    error("too_large"),
    error("unavailable"),
    warning("negated_absent_key"),
    warning("negated_attribute"),
    warning("constant"),
    warning("shadowed"),
    warning("repeated"),
    warning("slow_pattern"),
    warning("unknown_attribute"),
    warning("attribute_kind"),
    warning("unknown_role"),
    warning("opens_no_recent_trace"),
    warning("opens_every_recent_trace"),
    warning("broad_policy"),
];

impl Diagnostic {
    /// Returns whether the diagnostic rejects the policy. An unknown code does.
    pub fn severity(&self) -> Severity {
        let known = CODES.iter().find(|known| known.code == self.code);
        known.map_or(Severity::Error, |known| known.severity)
    }
}
