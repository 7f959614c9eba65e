//! The one way to an access decision.

use tracewarden_model::{AccessModel, Caller};

use crate::check::check_here;
use crate::diagnostics::{Diagnostic, Span};
use crate::lower;
use crate::parse::on_deep_stack;
use crate::predicate::Predicate;

/// Largest predicate of all policies of a caller together, in nodes as written. What is sent holds it a few times.
const MAX_SCOPE_SIZE: u64 = 20_000;

/// A stored policy of a role that the caller holds.
#[derive(Debug, Clone, Copy)]
pub struct RolePolicy<'a> {
    /// The role.
    pub role: &'a str,
    /// The policy's title.
    pub title: &'a str,
    /// Its text.
    pub expression: &'a str,
}

/// A stored policy that cannot be applied. The whole request must be refused: leaving the policy out would show less
/// than the administrator granted without anyone noticing, and guessing could show more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPolicy {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a caller may see: a trace is open when any of its spans satisfies the scope's predicate.
///
/// There is no constructor but [`authorise`], and none for "everything": whoever reads spans has gone through the
/// caller's policies.
#[derive(Debug, Clone)]
pub struct AccessScope {
    predicate: Predicate,
}

impl AccessScope {
    /// What some span of a trace must satisfy.
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// Whether no trace at all is open.
    pub fn opens_nothing(&self) -> bool {
        matches!(self.predicate, Predicate::False)
    }
}

/// Compiles the policies of all roles that the caller holds: their union.
///
/// # Errors
/// The first policy that does not compile under this model, or is too large for this caller.
pub fn authorise<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    caller: &Caller,
    model: &AccessModel,
) -> Result<AccessScope, BrokenPolicy> {
    let policies: Vec<RolePolicy<'a>> = policies.into_iter().collect();
    let Some(first) = policies.first().copied() else {
        return Ok(AccessScope { predicate: Predicate::False });
    };
    let work = || policies.iter().map(|policy| compile(policy, caller, model)).collect::<Result<Vec<_>, _>>();
    let predicates = on_deep_stack(work).unwrap_or_else(|| {
        let message = "the policy could not be checked: no thread could be started";
        Err(broken(&first, vec![Diagnostic::new("", Span::default(), "unavailable", message)]))
    })?;
    let predicate = Predicate::any(predicates);
    if predicate.size() > MAX_SCOPE_SIZE {
        let message = "the caller's policies are together too large for their roles and attributes";
        return Err(broken(&first, vec![Diagnostic::new("", Span::default(), "too_large", message)]));
    }
    Ok(AccessScope { predicate })
}

fn compile(policy: &RolePolicy<'_>, caller: &Caller, model: &AccessModel) -> Result<Predicate, BrokenPolicy> {
    let checked = check_here(policy.expression, model).map_err(|diagnostics| broken(policy, diagnostics))?;
    lower::lower(&checked.root, caller).map_err(|_| {
        let message = "the policy is too large for this caller's roles and attributes";
        broken(policy, vec![Diagnostic::new(policy.expression, checked.root.span, "too_large", message)])
    })
}

fn broken(policy: &RolePolicy<'_>, diagnostics: Vec<Diagnostic>) -> BrokenPolicy {
    BrokenPolicy { role: policy.role.to_owned(), title: policy.title.to_owned(), diagnostics }
}
