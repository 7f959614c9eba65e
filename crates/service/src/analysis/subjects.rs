//! Users whom a change may affect, and their policies on both sides of it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use indexmap::IndexSet;
use tokio::time::{Instant, timeout_at};
use tracewarden_appdb::ModelState;
use tracewarden_clickhouse::ChangedField;
use tracewarden_model::{Caller, MarkedField};
use tracewarden_policy::{AppliedPolicies, BrokenPolicy, CompiledPolicies, Predicate, RolePolicy, apply};

use crate::analysis::Analysis;
use crate::analysis::change::Change;
use crate::core::{Result, UserBatches, policy_name, reason_text, role_policies, stored_caller, take_batch};

/// Maximum number of users who are evaluated.
const USERS_MAX: usize = 10_000;
/// Number of users whose policies are compiled together.
const COMPILE_BATCH_USERS: usize = 100;
/// Maximum total size of the policies that are held during a comparison, in predicate nodes as written; each node takes up to
/// some dozens of bytes. Equal predicates of several users are held once.
const MAX_INTERNED_SIZE: u64 = 1_000_000;
/// Reasons for leaving out users.
const TIMED_OUT: &str = "timed out before evaluating";
const TOO_LARGE: &str =
    "the policies of all users are together too large to be compared at once, which leaves out";

/// Share of the available time for the compilation of policies.
const COMPILE_TIME_SHARE: f64 = 0.25;

/// One user, or the role in isolation.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(super) username: String,
    pub(super) before: Access,
    pub(crate) after: Access,
}

/// A user's access on one side of a change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// By all of the user's roles.
    pub(super) whole: Grant,
    /// By the evaluated role in isolation.
    pub(super) role: Grant,
    /// Reason why the user can read nothing.
    refused: Option<BrokenPolicy>,
}

/// What policies grant: a trace is accessible if any span satisfies any of these predicates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grant {
    pub(super) predicates: Vec<Predicate>,
    pub(super) referenced_fields: Vec<Arc<MarkedField>>,
    /// Whether a field on which the access depends has changed; then nothing is accessible.
    changed: bool,
}

impl Grant {
    fn new(applied: &AppliedPolicies) -> Self {
        let predicates = applied.granting_predicates().into_iter().cloned().collect();
        Self { predicates, referenced_fields: applied.referenced_fields.clone(), changed: false }
    }

    pub(super) fn predicates(&self) -> &[Predicate] {
        if self.changed { &[] } else { &self.predicates }
    }
}

/// Users whom a change may affect.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    /// Number of users, compared or not.
    pub(super) members: u64,
    /// Users who can be compared; a synthetic user who has the role alone, if no user has it.
    pub(super) compared: Vec<Subject>,
    /// Whether no user has the role, and `compared` contains the synthetic user.
    pub(super) is_synthetic: bool,
    pub(crate) referenced_fields: Vec<Arc<MarkedField>>,
    notes: Vec<String>,
}

impl Subjects {
    /// Returns the number of users who can be compared.
    pub(super) fn compared(&self) -> u64 {
        if self.is_synthetic { 0 } else { self.compared.len() as u64 }
    }

    pub(crate) fn append_notes(&mut self, notes: &mut Vec<String>) {
        notes.append(&mut self.notes);
        let broken = |access: fn(&Subject) -> &Access| {
            let refused = self.compared.iter().filter_map(move |subject| access(subject).refused.as_ref());
            let sources: BTreeSet<String> = refused
                .map(|broken| format!("{} {}", policy_name(&broken.source), reason_text(broken.reason)))
                .collect();
            sources.into_iter().take(3).collect::<Vec<_>>()
        };
        for (when, sources) in
            [("now", broken(|subject| &subject.before)), ("afterwards", broken(|subject| &subject.after))]
        {
            if !sources.is_empty() {
                let sources = sources.join(", and ");
                notes.push(format!("some users can read no trace {when}: {sources}"));
            }
        }
    }

    pub(crate) fn append_changed_notes(&self, notes: &mut Vec<String>) {
        let changed = |access: &Access| access.whole.changed || access.role.changed;
        if self.compared.iter().any(|subject| changed(&subject.before) || changed(&subject.after)) {
            let note =
                "some users can read no trace, because the type of a field in their policies has changed";
            notes.push(note.to_owned());
        }
    }

    /// Removes all access that depends on one of these fields, as a read does; returns whether there was any.
    pub(crate) fn remove_access(&mut self, changed: &[ChangedField]) -> bool {
        let is_changed = |field: &Arc<MarkedField>| changed.iter().any(|changed| changed.field == **field);
        let mut found = false;
        let sides = self.compared.iter_mut().flat_map(|subject| [&mut subject.before, &mut subject.after]);
        for grant in sides.flat_map(|access| [&mut access.whole, &mut access.role]) {
            if !grant.changed && grant.referenced_fields.iter().any(is_changed) {
                grant.changed = true;
                found = true;
            }
        }
        self.referenced_fields = referenced_fields(&self.compared);
        found
    }
}

/// Distinct predicates of all users, to hold equal ones once.
#[derive(Default)]
struct PredicateInterner {
    known: HashSet<Predicate>,
    /// Total size in predicate nodes as written.
    size: u64,
}

impl PredicateInterner {
    fn intern(&mut self, mut subject: Subject) -> Subject {
        for Access { whole, role, .. } in [&mut subject.before, &mut subject.after] {
            for predicate in whole.predicates.iter_mut().chain(&mut role.predicates) {
                if let Some(known) = self.known.get(predicate) {
                    *predicate = known.clone();
                } else {
                    self.size = self.size.saturating_add(predicate.size());
                    self.known.insert(predicate.clone());
                }
            }
        }
        subject
    }
}

/// Returns the fields of all predicates that are still evaluated.
fn referenced_fields(subjects: &[Subject]) -> Vec<Arc<MarkedField>> {
    let sides = subjects.iter().flat_map(|subject| [&subject.before, &subject.after]);
    let grants = sides.flat_map(|access| [&access.whole, &access.role]).filter(|grant| !grant.changed);
    let fields: IndexSet<&Arc<MarkedField>> = grants.flat_map(|grant| &grant.referenced_fields).collect();
    fields.into_iter().cloned().collect()
}

impl Analysis {
    /// Reads the users whom a change may affect, and compiles their policies within a share of the time until `deadline`.
    pub(crate) async fn subjects(&self, change: &Change<'_>, deadline: Instant) -> Result<Subjects> {
        let share = deadline.saturating_duration_since(Instant::now()).mul_f64(COMPILE_TIME_SHARE);
        let deadline = Instant::now() + share;
        let mut subjects = Subjects::default();
        let mut tx = self.core.db.begin_read().await?;
        let (seen, _) = tx.audit_head().await?;
        let holders = match change.role {
            Some(role) => Some(tx.enabled_users(Some(role)).await?),
            None => None,
        };
        drop(tx);
        let mut user_batches = UserBatches::new(change.role, USERS_MAX);
        let (mut held, mut stopped) = (PredicateInterner::default(), None);
        while stopped.is_none()
            && let Some(mut users) = user_batches.next(&self.core.db).await?
        {
            users.retain(|user| change.affects(user));
            subjects.members = subjects.members.saturating_add(users.len() as u64);
            while !users.is_empty() {
                let is_late = Instant::now() >= deadline && !subjects.compared.is_empty();
                stopped = if is_late {
                    Some(TIMED_OUT)
                } else {
                    (held.size > MAX_INTERNED_SIZE).then_some(TOO_LARGE)
                };
                if stopped.is_some() {
                    break;
                }
                let some = take_batch(&mut users, COMPILE_BATCH_USERS, |user| change.weight(user));
                let compiling = self.compile_subjects(change, some.iter().map(stored_caller).collect());
                // The first users are evaluated in any case.
                let compiled = match subjects.compared.is_empty() {
                    true => Ok(compiling.await),
                    false => timeout_at(deadline, compiling).await,
                };
                let Ok(compiled) = compiled else {
                    stopped = Some(TIMED_OUT);
                    break;
                };
                subjects.compared.extend(compiled?.into_iter().map(|subject| held.intern(subject)));
            }
        }
        subjects.members = holders.unwrap_or(subjects.members);
        let more = subjects.members.saturating_sub(subjects.compared.len() as u64);
        match stopped {
            // For a change of the model, the number of further affected users is not known.
            Some(reason) if change.role.is_none() => subjects.notes.push(format!("{reason} further users")),
            Some(reason) => subjects.notes.push(format!("{reason} {more} more users")),
            None if user_batches.has_more => {
                subjects.notes.push(format!("only the first {USERS_MAX} users are evaluated"));
            }
            None => {}
        }
        if subjects.members == 0
            && let Some(role) = change.role
        {
            let roles = BTreeSet::from([role.to_owned()]);
            let synthetic_user = Caller { roles, ..Caller::default() };
            subjects.is_synthetic = true;
            subjects.compared = self.compile_subjects(change, vec![synthetic_user]).await?;
        }
        if self.core.db.begin_read().await?.access_changed_since(seen).await? {
            let note = "users, roles or the access model changed during the evaluation: the numbers may mix \
                        two states";
            subjects.notes.push(note.to_owned());
        }
        subjects.referenced_fields = referenced_fields(&subjects.compared);
        Ok(subjects)
    }

    async fn compile_subjects(&self, change: &Change<'_>, callers: Vec<Caller>) -> Result<Vec<Subject>> {
        let compiled = Arc::clone(&self.core.compiled);
        // The tests of the model may have megabytes, and decide nothing here.
        let without_tests = |side: &ModelState| ModelState {
            roles: side.roles.clone(),
            model: side.model.clone(),
            mappings: Default::default(),
            tests: Default::default(),
        };
        let (before, after) = (without_tests(change.before), without_tests(change.after));
        let role = change.role.map(str::to_owned);
        let work = move || {
            let subject = |caller: Caller| Subject {
                username: caller.username.clone(),
                before: side(&before, role.as_deref(), &caller, &compiled),
                after: side(&after, role.as_deref(), &caller, &compiled),
            };
            callers.into_iter().map(subject).collect()
        };
        self.core.permits.analysis.run(work).await
    }
}

/// Compiles a user's access on one side of a change. A role that does not exist on that side grants nothing.
fn side(side: &ModelState, role: Option<&str>, caller: &Caller, compiled: &CompiledPolicies) -> Access {
    let caller = Caller {
        roles: caller.roles.iter().filter(|role| side.roles.contains_key(*role)).cloned().collect(),
        ..caller.clone()
    };
    let held = caller.roles.iter().filter_map(|role| side.roles.get_key_value(role));
    let policies: Vec<RolePolicy<'_>> =
        held.flat_map(|(role, policies)| role_policies(role, policies)).collect();
    let applied = apply(policies.iter().copied(), None, &caller, &side.model, compiled);
    // Evaluated as the user's only role: rejected if one of its policies cannot be applied, whatever the other roles'
    // policies are.
    let own = policies.into_iter().filter(|policy| Some(policy.role) == role);
    let alone = apply(own, None, &caller, &side.model, compiled);
    Access { whole: Grant::new(&applied), role: Grant::new(&alone), refused: applied.refused }
}
