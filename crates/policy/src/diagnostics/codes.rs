//! Every kind of diagnostic. Programs depend on the codes: they may be added to, and are never renamed.

use crate::diagnostics::Diagnostic;

/// Whether a policy can be stored in spite of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can; this is advice.
    Warning,
}

/// A kind of diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// As it stands in [`Diagnostic::code`].
    pub code: &'static str,
    /// Whether it refuses the policy.
    pub severity: Severity,
}

const fn error(code: &'static str) -> Code {
    Code { code, severity: Severity::Error }
}

const fn warning(code: &'static str) -> Code {
    Code { code, severity: Severity::Warning }
}

/// All kinds; `docs/policies.md` says what each means.
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
    warning("wide_reach"),
];

impl Diagnostic {
    /// Whether it refuses the policy. A kind that is not known does.
    pub fn severity(&self) -> Severity {
        let known = CODES.iter().find(|known| known.code == self.code);
        known.map_or(Severity::Error, |known| known.severity)
    }
}
