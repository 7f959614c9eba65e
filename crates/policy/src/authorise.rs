//! The one way to an access decision.

use std::sync::Arc;

use tracewarden_model::{AccessModel, Caller, FieldRef, MarkedField};

use crate::check::{Checked, check};
use crate::compiled::{CompiledPolicies, Compiling, known};
use crate::diagnostics::{Diagnostic, Span};
use crate::lower;
use crate::parse::on_deep_stack;
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

/// Largest predicate of all policies of a caller together, in nodes as written. What is sent holds it a few times.
const MAX_SCOPE_SIZE: u64 = 20_000;

/// Most work for all policies of a caller together: what a few with very long lists take, or thousands of others.
const MAX_SCOPE_WORK: u64 = 8 * lower::MAX_WORK;

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
    /// What keeps it from being applied.
    pub reason: BrokenReason,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// What keeps a stored policy from being applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokenReason {
    /// It names something that policies cannot use, or no longer: a field that is not marked for policies.
    UnknownName,
    /// It uses a field of another type than the field has now.
    WrongType,
    /// It does not compile for another reason, as when the language has changed.
    NotCompiling,
    /// With this caller's roles and attributes it is too large, of which long lists are written out.
    TooLargeForCaller,
    /// All policies of this caller are too large together.
    TooLargeTogether,
    /// There was no thread to check it in.
    Unavailable,
}

impl BrokenReason {
    /// Of a policy that does not compile: what its first diagnostic says.
    pub(crate) fn of(diagnostics: &[Diagnostic]) -> Self {
        match diagnostics.first().map(|diagnostic| diagnostic.code) {
            Some("unmarked_field" | "unknown_name") => Self::UnknownName,
            Some("type_mismatch" | "number_field") => Self::WrongType,
            Some("unavailable") => Self::Unavailable,
            _ => Self::NotCompiling,
        }
    }
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
    rests_on: Vec<Arc<MarkedField>>,
}

impl AccessScope {
    const NOTHING: Self = Self { predicate: Predicate::False, restriction: None, rests_on: Vec::new() };

    fn new(predicate: Predicate, restriction: Option<Predicate>, rests_on: Vec<Arc<MarkedField>>) -> Self {
        match (predicate, restriction) {
            (Predicate::False, _) | (_, Some(Predicate::False)) => Self::NOTHING,
            // Some span satisfies the predicate, so some span satisfies this.
            (predicate, None | Some(Predicate::True)) => Self { predicate, restriction: None, rests_on },
            (predicate, restriction) => Self { predicate, restriction, rests_on },
        }
    }

    /// Every field that a policy names of which something is left in the scope. More than its predicates look at: what is
    /// always there leaves no trace in them, and is not, once the column can be NULL.
    pub fn rests_on(&self) -> &[Arc<MarkedField>] {
        &self.rests_on
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
        check(self.expression, &known(model, self.knows_policy_fields))
    }
}

/// Compiles the policies of all roles that the caller holds: their union, within the restriction of the caller's
/// credential if it has one. Neither the order nor the repetition of policies matters.
///
/// # Errors
/// The first policy that does not compile under this model, or else the first that is too large for this caller unless
/// another one opens every trace anyway.
pub fn authorise<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    restriction: Option<Restriction<'a>>,
    caller: &Caller,
    model: &AccessModel,
    compiled: &CompiledPolicies,
) -> Result<AccessScope, BrokenPolicy> {
    let policies: Vec<RolePolicy<'a>> = policies.into_iter().collect();
    let first = match (policies.first(), restriction) {
        (Some(policy), _) => policy.source(),
        (None, Some(_)) => PolicySource::Restriction,
        (None, None) => return Ok(AccessScope::NOTHING),
    };
    let refuse = |reason, code, message| BrokenPolicy {
        source: first.clone(),
        reason,
        diagnostics: vec![Diagnostic::new("", Span::default(), code, message)],
    };
    let work = || {
        // All of them before the first verdict: whether a policy is broken must not hang on what others open.
        let granting = compiled.under(model, true);
        let granting: Vec<Stored<'_>> = policies
            .iter()
            .map(|policy| Stored::compile(&granting, policy.expression, policy.source()))
            .collect::<Result<_, _>>()?;
        let restricting = restriction
            .map(|restriction| {
                let under = compiled.under(model, restriction.knows_policy_fields);
                Stored::compile(&under, restriction.expression, PolicySource::Restriction)
            })
            .transpose()?;
        let work = Budget::of(MAX_SCOPE_WORK);
        let (granted, mut rests_on) = union(&granting, caller, &work)?;
        rests_on.extend(restricting.iter().flat_map(Stored::fields));
        let restriction = restricting.map(|stored| stored.lower(caller, &work)).transpose()?;
        Ok(AccessScope::new(granted, restriction, rests_on))
    };
    let scope = on_deep_stack(work).unwrap_or_else(|| {
        let message = "the policy could not be checked: no thread could be started";
        Err(refuse(BrokenReason::Unavailable, "unavailable", message))
    })?;
    if scope.size() > MAX_SCOPE_SIZE {
        let message = "the caller's policies are together too large for their roles and attributes";
        return Err(refuse(BrokenReason::TooLargeTogether, "too_large", message));
    }
    Ok(scope)
}

/// What any of these opens, and the fields that those name which open anything.
fn union(
    policies: &[Stored<'_>],
    caller: &Caller,
    work: &Budget,
) -> Result<(Predicate, Vec<Arc<MarkedField>>), BrokenPolicy> {
    let mut granted = Vec::with_capacity(policies.len());
    let mut rests_on = Vec::new();
    let mut too_large = None;
    // The fields of the policy that opens every trace. Of several the one that rests on least, whatever their order: with
    // another one a column that changed would deny what this one opens all the same.
    let mut opening: Option<Vec<Arc<MarkedField>>> = None;
    for policy in policies {
        match policy.lower(caller, work) {
            Ok(Predicate::True) => {
                let fields = policy.fields();
                if fields.is_empty() {
                    return Ok((Predicate::True, fields));
                }
                if opening.as_ref().is_none_or(|known| rank(&fields) < rank(known)) {
                    opening = Some(fields);
                }
            }
            Ok(Predicate::False) => {}
            Ok(predicate) => {
                granted.push(predicate);
                rests_on.extend(policy.fields());
            }
            Err(broken) => too_large = too_large.or(Some(broken)),
        }
    }
    match (opening, too_large) {
        (Some(fields), _) => Ok((Predicate::True, fields)),
        (None, Some(broken)) => Err(broken),
        // What several roles say alike stands once.
        (None, None) => Ok((Predicate::any_simplified(granted, work), rests_on)),
    }
}

/// An order of lists of fields that does not depend on the order within them.
fn rank(fields: &[Arc<MarkedField>]) -> (usize, Vec<&FieldRef>) {
    let mut names: Vec<&FieldRef> = fields.iter().map(|field| &field.field).collect();
    names.sort();
    (names.len(), names)
}

impl RolePolicy<'_> {
    pub(crate) fn source(&self) -> PolicySource {
        PolicySource::Role { role: self.role.to_owned(), title: self.title.to_owned() }
    }
}

/// A stored policy that compiles.
struct Stored<'a> {
    expression: &'a str,
    source: PolicySource,
    checked: Arc<Checked>,
}

impl<'a> Stored<'a> {
    fn compile(
        compiling: &Compiling<'_>,
        expression: &'a str,
        source: PolicySource,
    ) -> Result<Self, BrokenPolicy> {
        match compiling.policy(expression) {
            Ok(checked) => Ok(Self { expression, source, checked }),
            Err(diagnostics) => {
                Err(BrokenPolicy { source, reason: BrokenReason::of(&diagnostics), diagnostics })
            }
        }
    }

    fn fields(&self) -> Vec<Arc<MarkedField>> {
        self.checked.root.fields().into_iter().map(Arc::clone).collect()
    }

    fn lower(&self, caller: &Caller, work: &Budget) -> Result<Predicate, BrokenPolicy> {
        lower::lower(&self.checked.root, caller, &work.at_most(lower::MAX_WORK)).map_err(|_| {
            let message = "the policy is too large for this caller's roles and attributes";
            let place = self.checked.root.span;
            let diagnostics = vec![Diagnostic::new(self.expression, place, "too_large", message)];
            BrokenPolicy { source: self.source.clone(), reason: BrokenReason::TooLargeForCaller, diagnostics }
        })
    }
}
