//! The only place where access decisions are made.

use std::sync::Arc;

use tracewarden_model::{AccessModel, Caller, FieldRef, MarkedField};

use crate::check::{CheckedPolicy, check};
use crate::compiled::{CompiledPolicies, PolicyCompiler, known};
use crate::diagnostics::{Diagnostic, Span};
use crate::lower;
use crate::parse::on_deep_stack;
use crate::predicate::Predicate;
use crate::predicate::work::Budget;

/// Maximum size of the combined predicate of a caller's policies, in nodes as written. A query contains it a few
/// times.
const MAX_SCOPE_SIZE: u64 = 20_000;

/// Maximum work for all policies of a caller together: enough for a few policies with very long lists, or thousands of
/// ordinary ones.
const MAX_SCOPE_WORK: u64 = 8 * lower::MAX_WORK;

/// A stored policy of a role that the caller holds.
#[derive(Debug, Clone, Copy)]
pub struct RolePolicy<'a> {
    /// The role.
    pub role: &'a str,
    /// The policy's title.
    pub title: &'a str,
    /// Text of the policy.
    pub expression: &'a str,
}

/// A condition of the caller's credential. A trace must satisfy it *in addition* to a policy, possibly with another
/// span than the one that satisfies the policy. It can only reduce access.
#[derive(Debug, Clone, Copy)]
pub struct KeyConstraint<'a> {
    /// Text of the condition.
    pub expression: &'a str,
    /// Whether its author may know of fields that can only be used in policies. For other authors these fields do not
    /// exist, so neither a response nor a suggestion reveals which fields decide access.
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
    KeyConstraint,
}

/// A stored policy that cannot be applied. The whole request must be rejected. Skipping the policy would silently show
/// less than the administrator granted, or more if the policy is a key constraint; guessing its meaning could show more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPolicy {
    /// Source of the policy.
    pub source: PolicySource,
    /// Category of the failure.
    pub reason: BrokenReason,
    /// Diagnostics of the policy.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reason why a stored policy cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrokenReason {
    /// It names something that policies cannot use, or can no longer use: a field that is not marked for policies.
    UnknownName,
    /// It uses a field as a type that the field no longer has.
    WrongType,
    /// It does not compile for another reason, for example after a change of the policy language.
    NotCompiling,
    /// It is too large with this caller's roles and attributes, because long lists are expanded.
    TooLargeForCaller,
    /// All policies of this caller together are too large.
    TooLargeTogether,
    /// No thread was available for the check.
    Unavailable,
}

impl BrokenReason {
    /// Returns the reason for a policy that does not compile, from its first diagnostic.
    fn of(diagnostics: &[Diagnostic]) -> Self {
        match diagnostics.first().map(|diagnostic| diagnostic.code) {
            Some("unmarked_field" | "unknown_name") => Self::UnknownName,
            Some("type_mismatch" | "number_field") => Self::WrongType,
            Some("unavailable") => Self::Unavailable,
            _ => Self::NotCompiling,
        }
    }
}

/// The traces that a caller may see: those with a span that satisfies the scope's predicate and a span, the same or
/// another, that satisfies the key constraint of its scope.
///
/// [`authorise`] is the only constructor, and no constructor gives access to everything. So all code that reads spans
/// has applied the caller's policies.
#[derive(Debug, Clone)]
pub struct AccessScope {
    predicate: Predicate,
    key_constraint: Option<Predicate>,
    referenced_fields: Vec<Arc<MarkedField>>,
}

impl AccessScope {
    const NOTHING: Self =
        Self { predicate: Predicate::False, key_constraint: None, referenced_fields: Vec::new() };

    fn new(
        predicate: Predicate,
        key_constraint: Option<Predicate>,
        referenced_fields: Vec<Arc<MarkedField>>,
    ) -> Self {
        match (predicate, key_constraint) {
            (Predicate::False, _) | (_, Some(Predicate::False)) => Self::NOTHING,
            // A trace in scope has at least one span, so a key constraint that is always true has no effect.
            (predicate, None | Some(Predicate::True)) => {
                Self { predicate, key_constraint: None, referenced_fields }
            }
            (predicate, key_constraint) => Self { predicate, key_constraint, referenced_fields },
        }
    }

    /// Returns the fields named by the policies that contribute to the scope. These can be more than the fields in its
    /// predicates: the test for a column that always has a value is omitted there, but it is needed if the column
    /// becomes Nullable.
    pub fn referenced_fields(&self) -> &[Arc<MarkedField>] {
        &self.referenced_fields
    }

    /// Returns the predicate that at least one span of a trace must satisfy.
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// Returns the predicate that at least one span of a trace, the same or another, must satisfy in addition.
    pub fn key_constraint(&self) -> Option<&Predicate> {
        self.key_constraint.as_ref()
    }

    /// Whether the scope contains no traces.
    pub fn is_empty(&self) -> bool {
        matches!(self.predicate, Predicate::False)
    }
}

impl<'a> KeyConstraint<'a> {
    /// Checks the text against the access model, limited to the fields that its author may know of.
    ///
    /// # Errors
    /// The errors of [`check`](crate::check()).
    pub fn check(&self, model: &AccessModel) -> Result<CheckedPolicy, Vec<Diagnostic>> {
        check(self.expression, &known(model, self.knows_policy_fields))
    }

    pub(crate) fn compile(
        &self,
        model: &AccessModel,
        compiled: &CompiledPolicies,
    ) -> Result<CompiledPolicy<'a>, BrokenPolicy> {
        let compiler = compiled.compiler(model, self.knows_policy_fields);
        CompiledPolicy::compile(&compiler, self.expression, PolicySource::KeyConstraint)
    }
}

/// Compiles the policies of all roles that the caller holds: their union, limited by the key constraint of the caller's
/// credential if it has one. Order and repetition of policies do not matter.
///
/// # Errors
/// The first policy that does not compile under this model. Otherwise the first policy that is too large for this
/// caller, unless another policy grants access to every trace.
pub fn authorise<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    key_constraint: Option<KeyConstraint<'a>>,
    caller: &Caller,
    model: &AccessModel,
    compiled: &CompiledPolicies,
) -> Result<AccessScope, BrokenPolicy> {
    let policies: Vec<RolePolicy<'a>> = policies.into_iter().collect();
    let first = match (policies.first(), key_constraint) {
        (Some(policy), _) => policy.source(),
        (None, Some(_)) => PolicySource::KeyConstraint,
        (None, None) => return Ok(AccessScope::NOTHING),
    };
    let refuse = |reason, diagnostics| BrokenPolicy { source: first.clone(), reason, diagnostics };
    let work = || {
        // Compile all policies before lowering any: whether a policy is broken must not depend on the access that
        // others grant.
        let granting = compiled.compiler(model, true);
        let granting: Vec<CompiledPolicy<'_>> = policies
            .iter()
            .map(|policy| CompiledPolicy::compile(&granting, policy.expression, policy.source()))
            .collect::<Result<_, _>>()?;
        let restricting = key_constraint.map(|constraint| constraint.compile(model, compiled)).transpose()?;
        let work = Budget::of(MAX_SCOPE_WORK);
        let (granted, mut referenced_fields) = union(&granting, caller, &work)?;
        referenced_fields.extend(restricting.iter().flat_map(CompiledPolicy::fields));
        let key_constraint =
            restricting.map(|compiled_policy| compiled_policy.lower(caller, &work)).transpose()?;
        Ok(AccessScope::new(granted, key_constraint, referenced_fields))
    };
    let scope = on_deep_stack("checked", work)
        .unwrap_or_else(|diagnostics| Err(refuse(BrokenReason::Unavailable, diagnostics)))?;
    let constraint_size = scope.key_constraint.as_ref().map_or(0, Predicate::size);
    if scope.predicate.size().saturating_add(constraint_size) > MAX_SCOPE_SIZE {
        let message = "the caller's policies are together too large for their roles and attributes";
        let diagnostics = vec![Diagnostic::new("", Span::default(), "too_large", message)];
        return Err(refuse(BrokenReason::TooLargeTogether, diagnostics));
    }
    Ok(scope)
}

/// Returns the union of the policies and the fields named by those that can match a span.
fn union(
    policies: &[CompiledPolicy<'_>],
    caller: &Caller,
    work: &Budget,
) -> Result<(Predicate, Vec<Arc<MarkedField>>), BrokenPolicy> {
    let mut granted = Vec::with_capacity(policies.len());
    let mut referenced_fields = Vec::new();
    let mut too_large = None;
    // Fields of the policy that matches every span. If several do, take the one with the fewest fields, regardless of
    // order. With another one, a changed column could deny access that this policy still grants.
    let mut unconditional_fields: Option<Vec<Arc<MarkedField>>> = None;
    for policy in policies {
        match policy.lower(caller, work) {
            Ok(Predicate::True) => {
                let fields = policy.fields();
                if fields.is_empty() {
                    return Ok((Predicate::True, fields));
                }
                if unconditional_fields.as_ref().is_none_or(|known| sort_key(&fields) < sort_key(known)) {
                    unconditional_fields = Some(fields);
                }
            }
            Ok(Predicate::False) => {}
            Ok(predicate) => {
                granted.push(predicate);
                referenced_fields.extend(policy.fields());
            }
            Err(broken) => too_large = too_large.or(Some(broken)),
        }
    }
    match (unconditional_fields, too_large) {
        (Some(fields), _) => Ok((Predicate::True, fields)),
        (None, Some(broken)) => Err(broken),
        // Simplification removes parts that several roles have in common.
        (None, None) => Ok((Predicate::any_simplified(granted, work), referenced_fields)),
    }
}

/// Returns a sort key for lists of fields that does not depend on the order within the list.
fn sort_key(fields: &[Arc<MarkedField>]) -> (usize, Vec<&FieldRef>) {
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
pub(crate) struct CompiledPolicy<'a> {
    expression: &'a str,
    source: PolicySource,
    checked: Arc<CheckedPolicy>,
}

impl<'a> CompiledPolicy<'a> {
    pub(crate) fn compile(
        compiler: &PolicyCompiler<'_>,
        expression: &'a str,
        source: PolicySource,
    ) -> Result<Self, BrokenPolicy> {
        match compiler.policy(expression) {
            Ok(checked) => Ok(Self { expression, source, checked }),
            Err(diagnostics) => {
                Err(BrokenPolicy { source, reason: BrokenReason::of(&diagnostics), diagnostics })
            }
        }
    }

    pub(crate) fn fields(&self) -> Vec<Arc<MarkedField>> {
        self.checked.root.fields().into_iter().map(Arc::clone).collect()
    }

    pub(crate) fn lower(&self, caller: &Caller, work: &Budget) -> Result<Predicate, BrokenPolicy> {
        lower::lower(&self.checked.root, caller, &work.at_most(lower::MAX_WORK)).map_err(|_| {
            let message = "the policy is too large for this caller's roles and attributes";
            let span = self.checked.root.span;
            let diagnostics = vec![Diagnostic::new(self.expression, span, "too_large", message)];
            BrokenPolicy { source: self.source.clone(), reason: BrokenReason::TooLargeForCaller, diagnostics }
        })
    }
}
