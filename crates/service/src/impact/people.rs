//! Whom a change may touch, and what their policies ask on both sides of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tracewarden_appdb::User;
use tracewarden_model::{Caller, MarkedField};
use tracewarden_policy::{
    AppliedPolicies, BrokenPolicy, CompiledPolicies, PolicySource, Predicate, RolePolicy, apply,
};
use tracewarden_tracestore::ChangedField;

use super::{Change, Failure, ModelSide};
use crate::access::stored_caller;
use crate::service::Service;

/// Most users who are looked at.
const USERS_MAX: usize = 10_000;
/// Users read at a time.
const PAGE: u32 = 500;
/// Users whose policies are compiled in one go.
const COMPILED_AT_ONCE: usize = 100;

/// Of the time that there is, the share that compiling policies may take.
const COMPILING_SHARE: f64 = 0.25;

/// One user, or the role by itself.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(super) username: String,
    pub(super) before: Access,
    pub(crate) after: Access,
}

/// What somebody's policies ask on one side of a change: a trace is open when any span satisfies any of these.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(super) all: Vec<Predicate>,
    /// Those of the role that is looked at, by themselves.
    pub(super) of_role: Vec<Predicate>,
    pub(super) rests_on: Vec<Arc<MarkedField>>,
    role_rests_on: Vec<Arc<MarkedField>>,
    /// Why nothing can be read.
    refused: Option<BrokenPolicy>,
    /// Whether a field that it rests on is something else now.
    changed: bool,
    role_changed: bool,
}

impl Access {
    pub(super) fn opening(&self) -> &[Predicate] {
        if self.changed { &[] } else { &self.all }
    }

    pub(crate) fn by_role(&self) -> &[Predicate] {
        if self.role_changed { &[] } else { &self.of_role }
    }

    /// The fields of everything that is still asked about.
    fn fields(&self) -> impl Iterator<Item = &Arc<MarkedField>> {
        let all = self.rests_on.iter().filter(|_| !self.changed);
        all.chain(self.role_rests_on.iter().filter(|_| !self.role_changed))
    }
}

/// Whom a change may touch.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Users, compared or not.
    pub(super) members: u64,
    /// Those who can be compared; somebody with the role alone, when nobody has it.
    pub(crate) compared: Vec<Person>,
    /// Whether nobody has the role, and what stands in `compared` is nobody.
    pub(super) is_nobody: bool,
    pub(crate) rests_on: Vec<Arc<MarkedField>>,
    notes: Vec<String>,
}

impl People {
    /// How many users can be compared.
    pub(super) fn compared(&self) -> u64 {
        if self.is_nobody { 0 } else { self.compared.len() as u64 }
    }

    /// How many users there are, compared or not.
    pub(crate) fn members(&self) -> u64 {
        self.members
    }

    /// Whether nobody has the role, and who is compared is nobody.
    pub(crate) fn is_nobody(&self) -> bool {
        self.is_nobody
    }

    pub(crate) fn note(&mut self, notes: &mut Vec<String>) {
        notes.append(&mut self.notes);
        let broken = |access: fn(&Person) -> &Access| {
            let refused = self.compared.iter().filter_map(move |person| access(person).refused.as_ref());
            let sources: BTreeSet<String> = refused.map(|broken| source(&broken.source)).collect();
            sources.into_iter().take(3).collect::<Vec<_>>()
        };
        for (when, sources) in
            [("now", broken(|person| &person.before)), ("afterwards", broken(|person| &person.after))]
        {
            if !sources.is_empty() {
                let sources = sources.join(", ");
                notes.push(format!("whoever has {sources} can read nothing {when}: it cannot be applied"));
            }
        }
    }

    pub(crate) fn note_changed(&self, notes: &mut Vec<String>) {
        let changed = |access: &Access| access.changed || access.role_changed;
        if self.compared.iter().any(|person| changed(&person.before) || changed(&person.after)) {
            let note = "some users can read nothing, because a field that their policies name is of another type now";
            notes.push(note.to_owned());
        }
    }

    /// Takes everything from those whose access rests on such a field, as reading does; whether there were any.
    pub(crate) fn refuse(&mut self, changed: &[ChangedField]) -> bool {
        let is_changed = |field: &Arc<MarkedField>| changed.iter().any(|changed| changed.field == **field);
        let mut found = false;
        for person in &mut self.compared {
            for access in [&mut person.before, &mut person.after] {
                let Access { rests_on, role_rests_on, changed, role_changed, .. } = access;
                for (rests_on, changed) in [(rests_on, changed), (role_rests_on, role_changed)] {
                    if !*changed && rests_on.iter().any(is_changed) {
                        *changed = true;
                        found = true;
                    }
                }
            }
        }
        self.rests_on = rests_on(&self.compared);
        found
    }
}

fn source(source: &PolicySource) -> String {
    match source {
        PolicySource::Role { role, title } => format!("the policy `{title}` of the role `{role}`"),
        PolicySource::Restriction => "a restriction".to_owned(),
    }
}

fn rests_on(people: &[Person]) -> Vec<Arc<MarkedField>> {
    let sides = people.iter().flat_map(|person| [&person.before, &person.after]);
    let mut fields: Vec<Arc<MarkedField>> = Vec::new();
    for field in sides.flat_map(Access::fields) {
        if !fields.contains(field) {
            fields.push(Arc::clone(field));
        }
    }
    fields
}

impl Service {
    /// Reads whom a change may touch, and compiles their policies; of the time until `deadline` it takes a share alone.
    pub(crate) async fn people(&self, change: &Change<'_>, deadline: Instant) -> Result<People, Failure> {
        let share = deadline.saturating_duration_since(Instant::now()).mul_f64(COMPILING_SHARE);
        let deadline = Instant::now() + share;
        let mut people = People::default();
        let users = match change.role {
            Some(role) => self.holders(role, &mut people).await?,
            None => self.touched(change, &mut people).await?,
        };
        if users.is_empty() {
            let Some(role) = change.role else { return Ok(people) };
            let roles = BTreeSet::from([role.to_owned()]);
            let nobody = Caller { roles, ..Caller::default() };
            people.is_nobody = true;
            people.compared = self.compiled_for(change, vec![nobody]).await?;
        }
        let mut callers: Vec<Caller> = users.iter().map(stored_caller).collect();
        while !callers.is_empty() {
            if Instant::now() >= deadline && !people.compared.is_empty() {
                people.notes.push(format!("there was no time to look at {} more users", callers.len()));
                break;
            }
            let rest = callers.split_off(COMPILED_AT_ONCE.min(callers.len()));
            let (count, compiling) = (callers.len() + rest.len(), self.compiled_for(change, callers));
            // The first ones in any case.
            let compiled = match people.compared.is_empty() {
                true => Ok(compiling.await),
                false => timeout_at(deadline, compiling).await,
            };
            match compiled {
                Ok(compiled) => people.compared.extend(compiled?),
                Err(_) => {
                    people.notes.push(format!("there was no time to look at {count} more users"));
                    break;
                }
            }
            callers = rest;
        }
        people.rests_on = rests_on(&people.compared);
        Ok(people)
    }

    /// Users who hold a role and are not disabled.
    async fn holders(&self, role: &str, people: &mut People) -> Result<Vec<User>, Failure> {
        // One more tells whether these are all.
        let most = u32::try_from(USERS_MAX).unwrap_or(u32::MAX).saturating_add(1);
        let mut users = self.db().begin_read().await?.users_with_role(role, most).await?;
        let more = users.len() > USERS_MAX;
        users.truncate(USERS_MAX);
        users.retain(|user| !user.disabled);
        people.members = users.len() as u64;
        if more {
            people.notes.push(format!("only the first {USERS_MAX} users with the role are looked at"));
        }
        Ok(users)
    }

    /// Users who are not disabled, and hold a role that is another one afterwards.
    async fn touched(&self, change: &Change<'_>, people: &mut People) -> Result<Vec<User>, Failure> {
        let Change { before, after, .. } = change;
        // What a policy means depends on the fields.
        let all = before.model.fields != after.model.fields;
        let changes = |role: &String| all || before.roles.get(role) != after.roles.get(role);
        let (mut users, mut last, mut seen) = (Vec::new(), String::new(), 0);
        let mut tx = self.db().begin_read().await?;
        loop {
            let page = tx.users(&last, PAGE).await?;
            let Some(user) = page.last() else { break };
            last = tracewarden_appdb::fold_username(&user.username);
            seen += page.len();
            users.extend(page.into_iter().filter(|user| !user.disabled && user.roles.iter().any(changes)));
            if seen >= USERS_MAX {
                people.notes.push(format!("only the first {seen} users are looked at"));
                break;
            }
        }
        people.members = users.len() as u64;
        Ok(users)
    }

    async fn compiled_for(&self, change: &Change<'_>, callers: Vec<Caller>) -> Result<Vec<Person>, Failure> {
        let compiled = self.compiled();
        let (before, after) = (change.before.clone(), change.after.clone());
        let role = change.role.map(str::to_owned);
        let work = move || {
            let person = |caller: Caller| Person {
                username: caller.username.clone(),
                before: side(&before, role.as_deref(), &caller, &compiled),
                after: side(&after, role.as_deref(), &caller, &compiled),
            };
            callers.into_iter().map(person).collect()
        };
        Ok(self.examining().run(work).await?)
    }
}

/// What somebody could read on one side of a change. A role that is not there any more is nobody's.
fn side(side: &ModelSide, role: Option<&str>, caller: &Caller, compiled: &CompiledPolicies) -> Access {
    let caller = Caller {
        roles: caller.roles.iter().filter(|role| side.roles.contains_key(*role)).cloned().collect(),
        ..caller.clone()
    };
    let held = caller.roles.iter().filter_map(|role| side.roles.get_key_value(role));
    let policies: Vec<RolePolicy<'_>> = held
        .flat_map(|(role, policies)| {
            policies.iter().map(|policy| RolePolicy {
                role,
                title: &policy.title,
                expression: &policy.expression,
            })
        })
        .collect();
    let applied = apply(policies.iter().copied(), None, &caller, &side.model, compiled);
    let all = applied.opening().into_iter().cloned().collect();
    // As if the role were the only one: refused when one of its policies cannot be applied, whatever the others say.
    let own: Vec<RolePolicy<'_>> =
        policies.iter().copied().filter(|policy| Some(policy.role) == role).collect();
    let alone = apply(own, None, &caller, &side.model, compiled);
    let of_role = alone.opening().into_iter().cloned().collect();
    let role_rests_on = alone.rests_on;
    let AppliedPolicies { refused, rests_on, .. } = applied;
    Access { all, of_role, rests_on, role_rests_on, refused, changed: false, role_changed: false }
}
