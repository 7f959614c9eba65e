//! The one way to an access decision.

use std::borrow::Cow;

use tracewarden_model::{AccessModel, Caller};

use crate::check::{Checked, check, check_here};
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

/// A condition of the credential that a caller came with: a trace must satisfy it *too*, possibly by another span than
/// the one that satisfies a policy. It only ever takes away.
#[derive(Debug, Clone, Copy)]
pub struct Restriction<'a> {
    /// Its text.
    pub expression: &'a str,
    /// Whether its author may know of fields that are policy inputs only. To others these do not exist, so that neither
    /// an answer nor a suggestion tells what access is decided by.
    pub knows_policy_fields: bool,
}

/// Where a stored policy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A role that the caller holds.
    Role {
        /// The role.
        role: String,
        /// The policy's title.
        title: String,
    },
    /// The caller's credential.
    Restriction,
}

/// A stored policy that cannot be applied. The whole request must be refused: leaving the policy out would show less
/// than the administrator granted without anyone noticing, or more when it restricts; and guessing could show more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPolicy {
    /// Which policy.
    pub source: PolicySource,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a caller may see: a trace is open when any of its spans satisfies the scope's predicate, and any of its spans,
/// the same or another, satisfies the scope's restriction.
///
/// There is no constructor but [`authorise`], and none for "everything": whoever reads spans has gone through the
/// caller's policies.
#[derive(Debug, Clone)]
pub struct AccessScope {
    predicate: Predicate,
    restriction: Option<Predicate>,
}

impl AccessScope {
    const NOTHING: Self = Self { predicate: Predicate::False, restriction: None };

    fn new(predicate: Predicate, restriction: Option<Predicate>) -> Self {
        match (predicate, restriction) {
            (Predicate::False, _) | (_, Some(Predicate::False)) => Self::NOTHING,
            // Some span satisfies the predicate, so some span satisfies this.
            (predicate, None | Some(Predicate::True)) => Self { predicate, restriction: None },
            (predicate, restriction) => Self { predicate, restriction },
        }
    }

    /// What some span of a trace must satisfy.
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// What some span of a trace, the same or another, must satisfy besides.
    pub fn restriction(&self) -> Option<&Predicate> {
        self.restriction.as_ref()
    }

    /// Whether no trace at all is open.
    pub fn opens_nothing(&self) -> bool {
        matches!(self.predicate, Predicate::False)
    }

    /// In nodes as written.
    fn size(&self) -> u64 {
        self.predicate.size().saturating_add(self.restriction.as_ref().map_or(0, Predicate::size))
    }
}

impl Restriction<'_> {
    /// Checks the text against the access model as its author may know it.
    ///
    /// # Errors
    /// Those of [`check`](crate::check()).
    pub fn check(&self, model: &AccessModel) -> Result<Checked, Vec<Diagnostic>> {
        check(self.expression, &self.known(model))
    }

    /// The model as the author may know it.
    fn known<'m>(&self, model: &'m AccessModel) -> Cow<'m, AccessModel> {
        if self.knows_policy_fields {
            return Cow::Borrowed(model);
        }
        let fields = model.fields.iter().filter(|field| field.filterable).cloned().collect();
        Cow::Owned(AccessModel { fields, version: model.version, binding: model.binding.clone() })
    }
}

/// Compiles the policies of all roles that the caller holds: their union, within the restriction of the caller's
/// credential if it has one.
///
/// # Errors
/// The first policy that does not compile under this model, or is too large for this caller.
pub fn authorise<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    restriction: Option<Restriction<'a>>,
    caller: &Caller,
    model: &AccessModel,
) -> Result<AccessScope, BrokenPolicy> {
    let policies: Vec<RolePolicy<'a>> = policies.into_iter().collect();
    let first = match (policies.first(), restriction) {
        (Some(policy), _) => policy.source(),
        (None, Some(_)) => PolicySource::Restriction,
        (None, None) => return Ok(AccessScope::NOTHING),
    };
    let refuse = |code, message| BrokenPolicy {
        source: first.clone(),
        diagnostics: vec![Diagnostic::new("", Span::default(), code, message)],
    };
    let work = || {
        let granted = policies
            .iter()
            .map(|policy| compile(policy.expression, policy.source(), caller, model))
            .collect::<Result<Vec<_>, _>>()?;
        let restrict = |restriction: Restriction<'_>| {
            let model = restriction.known(model);
            compile(restriction.expression, PolicySource::Restriction, caller, &model)
        };
        let restriction = restriction.map(restrict).transpose()?;
        Ok(AccessScope::new(Predicate::any(granted), restriction))
    };
    let scope = on_deep_stack(work).unwrap_or_else(|| {
        Err(refuse("unavailable", "the policy could not be checked: no thread could be started"))
    })?;
    if scope.size() > MAX_SCOPE_SIZE {
        let message = "the caller's policies are together too large for their roles and attributes";
        return Err(refuse("too_large", message));
    }
    Ok(scope)
}

impl RolePolicy<'_> {
    fn source(&self) -> PolicySource {
        PolicySource::Role { role: self.role.to_owned(), title: self.title.to_owned() }
    }
}

fn compile(
    expression: &str,
    source: PolicySource,
    caller: &Caller,
    model: &AccessModel,
) -> Result<Predicate, BrokenPolicy> {
    let checked = match check_here(expression, model) {
        Ok(checked) => checked,
        Err(diagnostics) => return Err(BrokenPolicy { source, diagnostics }),
    };
    lower::lower(&checked.root, caller).map_err(|_| {
        let message = "the policy is too large for this caller's roles and attributes";
        let diagnostics = vec![Diagnostic::new(expression, checked.root.span, "too_large", message)];
        BrokenPolicy { source, diagnostics }
    })
}
