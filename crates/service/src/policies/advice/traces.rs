//! Advice on a policy from recent traces: whether it grants access to none or all of them, and how broad it is.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use tracewarden_appdb::User;
use tracewarden_clickhouse::{CoveredTraces, MAX_PREDICATES, PolicyCoverage};
use tracewarden_model::{AccessModel, Caller, FieldRef};
use tracewarden_policy::predicate::{Atom, Relation, Text};
use tracewarden_policy::{CheckedPolicy, Diagnostic, Predicate};

use crate::core::stored_caller;

/// Maximum number of users of a role for whom its policies are tested.
pub(super) const MAX_HOLDERS: usize = 10;
/// Minimum number of traces for advice.
const MIN_TRACES: u64 = 10;
/// Maximum number of services that a message names.
const MAX_NAMED_SERVICES: usize = 5;

/// A policy that is tested on recent traces.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) policy: usize,
    /// Numbers of the policy's predicates: one, or those of the users for whom it is tested.
    predicates: BTreeSet<usize>,
    /// Users for whom the policy is tested, if it depends on the user.
    users: Option<TestedUsers>,
}

#[derive(Debug, Clone, Copy)]
struct TestedUsers {
    users: usize,
    /// Whether these are all users with the role.
    all: bool,
}

/// Returns the policies that can be tested, and their predicates. A policy that depends on the caller is tested for users who
/// have the role. Constant policies have a warning of their own.
pub(super) fn trials(policies: &[CheckedPolicy], holders: &[User]) -> (Vec<Trial>, Vec<Predicate>) {
    let callers: Vec<Caller> =
        holders.iter().filter(|user| !user.disabled).take(MAX_HOLDERS).map(stored_caller).collect();
    let all = holders.len() <= MAX_HOLDERS;
    let (mut trials, mut predicates) = (Vec::new(), IndexSet::new());
    for (policy, checked) in policies.iter().enumerate() {
        // Limit of one statement; policies beyond it get no warnings.
        if predicates.len() >= MAX_PREDICATES {
            break;
        }
        if checked.fields().is_empty() {
            continue;
        }
        let (found, users) = if !checked.depends_on_caller() {
            let found = checked.predicate(&Caller::default());
            let constant = matches!(found, Some(Predicate::True | Predicate::False));
            (found.filter(|_| !constant).map(|found| vec![found]), None)
        } else if callers.is_empty() {
            (None, None)
        } else {
            let found = callers.iter().map(|caller| checked.predicate(caller)).collect();
            (found, Some(TestedUsers { users: callers.len(), all }))
        };
        let Some(found) = found else { continue };
        let own = found.into_iter().map(|predicate| predicates.insert_full(predicate).0).collect();
        trials.push(Trial { policy, predicates: own, users });
    }
    (trials, predicates.into_iter().collect())
}

impl Trial {
    pub(super) fn warnings(
        &self,
        policy: &CheckedPolicy,
        predicates: &[Predicate],
        coverage: &PolicyCoverage,
        model: &AccessModel,
        max_collateral_services: u64,
    ) -> Vec<Diagnostic> {
        let covered: Option<Vec<(&Predicate, CoveredTraces)>> = self
            .predicates
            .iter()
            .map(|at| Some((predicates.get(*at)?, *coverage.covered.get(*at)?)))
            .collect();
        let Some(covered) = covered.filter(|_| coverage.traces >= MIN_TRACES) else { return Vec::new() };
        let whole = |code, message, hint: &str| Diagnostic {
            line: 1,
            column: 1,
            length: u32::try_from(policy.text().chars().count()).unwrap_or(u32::MAX),
            code,
            message,
            hint: Some(hint.to_owned()),
        };
        if covered.iter().all(|(_, covered)| covered.traces == 0) {
            let message =
                format!("it grants access to none of {}{}", sample(coverage), self.for_users("any"));
            let hint = "check the spelling of names and values, unless the intended traces are rare";
            return vec![whole("opens_no_recent_trace", message, hint)];
        }
        if covered.iter().all(|(_, covered)| covered.traces == coverage.traces) {
            let message =
                format!("it grants access to all of {}{}", sample(coverage), self.for_users("each"));
            let hint = "to grant access to every trace, write `true`";
            return vec![whole("opens_every_recent_trace", message, hint)];
        }
        // The user with the most collateral access, among those for whom the policy is tested.
        let worst = covered.iter().rev().max_by_key(|(_, covered)| collateral_services(*covered));
        let for_user = self.for_users(if covered.len() == 1 { "each" } else { "one" });
        let broad_policy_message = worst.and_then(|(predicate, covered)| {
            broad_policy_message(predicate, *covered, &for_user, model, max_collateral_services)
        });
        let hint =
            "access to a trace includes the spans of all its services; the preview of the role lists them";
        broad_policy_message.map(|message| whole("broad_policy", message, hint)).into_iter().collect()
    }

    fn for_users(&self, which: &str) -> String {
        match self.users {
            None => String::new(),
            Some(TestedUsers { users: 1, all: true }) => " for the one user with this role".to_owned(),
            Some(TestedUsers { users, all: true }) => {
                format!(" for {which} of the {users} users with this role")
            }
            Some(TestedUsers { users, all: false }) => {
                format!(" for {which} of {users} evaluated users with this role")
            }
        }
    }
}

fn sample(coverage: &PolicyCoverage) -> String {
    let window = match coverage.window_nanos / 60_000_000_000 {
        60 => "hour".to_owned(),
        minutes if minutes > 60 => format!("{} hours", minutes / 60),
        minutes => format!("{minutes} minutes"),
    };
    let of = if coverage.sampled { "traces in a sample of the last" } else { "traces of the last" };
    format!("{} {of} {window}", coverage.traces)
}

/// Returns the number of services without a span that satisfies the predicate, in the traces that it matches.
fn collateral_services(covered: CoveredTraces) -> u64 {
    covered.services.saturating_sub(covered.matching_services)
}

/// Returns a message if a predicate gives collateral access to many services: none of their spans satisfies it, they are
/// visible only because traces are shown whole. `for_user` names the users for whom the policy has this predicate.
fn broad_policy_message(
    predicate: &Predicate,
    covered: CoveredTraces,
    for_user: &str,
    model: &AccessModel,
    max_collateral_services: u64,
) -> Option<String> {
    let services = |count: u64| if count == 1 { "1 service".to_owned() } else { format!("{count} services") };
    let column = model.binding.as_ref()?.display.service.as_deref()?;
    let collateral_services = collateral_services(covered);
    if collateral_services <= max_collateral_services {
        return None;
    }
    let covered_services = services(covered.services);
    let named = named(predicate, &FieldRef::column(column));
    if named.is_empty() {
        let own = services(covered.matching_services);
        return Some(format!(
            "its matching spans are of {own}, but the traces that it grants{for_user} contain spans of \
             {covered_services}: {collateral_services} are visible only via whole traces"
        ));
    }
    let names: Vec<String> = named.iter().take(MAX_NAMED_SERVICES).map(|name| format!("`{name}`")).collect();
    let more = if named.len() > MAX_NAMED_SERVICES { ", …" } else { "" };
    Some(format!(
        "it names {} ({}{more}), but the traces that it grants{for_user} contain spans of {covered_services}: {collateral_services} \
         are visible only via whole traces",
        services(named.len() as u64),
        names.join(", ")
    ))
}

/// Returns the values that a field must equal for a part of the predicate to hold.
fn named<'a>(predicate: &'a Predicate, field_ref: &FieldRef) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![predicate];
    while let Some(predicate) = left.pop() {
        match predicate {
            Predicate::And(junction) | Predicate::Or(junction) => left.extend(junction.parts()),
            Predicate::Atom(atom) => match &***atom {
                Atom::CompareText(Relation::Eq, Text::Field(field), Text::Literal(text))
                | Atom::CompareText(Relation::Eq, Text::Literal(text), Text::Field(field))
                    if field.field == *field_ref =>
                {
                    found.insert(text.as_str());
                }
                Atom::TextIn(Text::Field(field), texts, false) if field.field == *field_ref => {
                    found.extend(texts.iter().map(String::as_str));
                }
                _ => {}
            },
            // Negated values are not named.
            Predicate::True | Predicate::False | Predicate::Not(_) => {}
        }
    }
    found
}
