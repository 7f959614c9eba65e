//! What a change of roles would open and close, before it is made: traces gained, lost and unchanged, for the role and for
//! each user who holds it.
//!
//! What is compared are two answers of the same query, before and after; every user's whole access counts, as their reads
//! would be decided. Nobody reads anything by it: counts come back, and ids only of traces that the asker's own policies open.
//! Counts of others are for administrators alone, stand in the audit log before the trace store is asked, and can be switched
//! off with the samples of discovery, like the advice on policies.

mod numbers;
mod people;
mod preview;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_appdb::Policy;
use tracewarden_model::{AccessModel, Binding, Display, Window};
use tracewarden_tracestore::{Cost, Difference, Impact, ImpactRequest, Sharing, StoreError};

use crate::access::Access;
use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::overshare::{Groups, Spreading, VALUES};
use crate::pending::Prepared;
use crate::principal::Administrator;
use crate::query_limit::{Asked, QueryLimit};
use crate::service::Service;
pub(crate) use numbers::hash;
use numbers::{Batch, batches};

pub(crate) use people::People;
pub(crate) use preview::patience;
pub use preview::{PolicyPreview, PolicyPreviewRequest, SearchCosts};

/// Ids of traces that each list holds.
const SAMPLES: u32 = 10;
/// Comparisons beside which what is shared is counted by the same statement, at most: for each of them the store keeps counts
/// with each value.
const BESIDE_MOST: usize = 16;
/// Of the time that there is, the share for counting both together.
const BESIDE_SHARE: f64 = 0.7;
/// Of the time that there is, the share for each question but the last.
const NOT_LAST_SHARE: f64 = 0.7;
/// Users whose numbers are listed.
const USERS_LISTED: usize = 200;

/// Roles and access model, all of them, on one side of a change.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelSide {
    pub(crate) roles: BTreeMap<String, Vec<Policy>>,
    pub(crate) model: AccessModel,
}

/// Which change to look at, and what to write down about it first.
pub(crate) struct ImpactQuestion<'a> {
    /// As the audit log spells it.
    pub(crate) action: &'static str,
    pub(crate) target: Option<&'a str>,
    /// What the record says beside what every read's record does.
    pub(crate) detail: Value,
    pub(crate) before: &'a ModelSide,
    pub(crate) after: &'a ModelSide,
    /// The role to look at, and those who hold it; otherwise every user whose access the change may touch.
    pub(crate) role: Option<&'a str>,
    pub(crate) window: Window,
    /// How long all of it may take.
    pub(crate) patience: Duration,
}

/// Which traces were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// All traces of the window.
    All,
    /// Only those that the asker may read, because the operator lets nobody count others.
    Readable,
}

impl Among {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Readable => "readable",
        }
    }
}

/// Traces that come and go. Of a sample, the counts are estimates for the whole window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceChange {
    /// Open after and not before.
    pub gained: u64,
    /// Open before and not after.
    pub lost: u64,
    /// Open before and after.
    pub unchanged: u64,
    /// Some gained traces that the asker may read, newest first.
    pub gained_ids: Vec<String>,
    /// Some lost ones, likewise.
    pub lost_ids: Vec<String>,
}

/// What changes for one user, by all their roles together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserImpact {
    /// Name.
    pub username: String,
    /// The traces.
    pub change: TraceChange,
}

/// What a change of roles would do.
#[derive(Debug, Clone, PartialEq)]
pub struct ImpactAnswer {
    /// The window that was looked at.
    pub window: Window,
    /// Which traces were counted.
    pub among: Among,
    /// The share of the traces that was read: 1 when the counts are exact. Where several statements read
    /// different shares, the least.
    pub fraction: f64,
    /// By the one role alone, for any of the members who were looked at; `None` when no role was asked about.
    pub traces: Option<TraceChange>,
    /// Users whom the change may touch: those with the role who are not disabled, or all whose roles change.
    pub members: u64,
    /// Those of them who were compared.
    pub members_compared: u64,
    /// Those whose access changes first, then by name.
    pub users: Vec<UserImpact>,
    /// What it took.
    pub cost: Cost,
    /// What was left out, and why, for people.
    pub notes: Vec<String>,
}

impl Service {
    /// What a change would open and close. Recorded before the trace store is asked.
    ///
    /// # Errors
    /// Those of [`Service::query`]; a policy of the administrator's own that is broken only keeps ids from them.
    pub(crate) async fn impact_of(
        &self,
        admin: &Administrator<'_>,
        question: ImpactQuestion<'_>,
    ) -> Result<ImpactAnswer, ServiceError> {
        let ImpactQuestion { action, target, detail, before, after, role, window, patience } = question;
        let detail = &detail;
        let prepare = || {
            let prepared = async move {
                let access = self.counting_access(admin).await?;
                let detail = noted(&access, detail);
                Ok(Prepared { access, plan: (), detail })
            };
            prepared.boxed()
        };
        let (access, (), mut pending) = self.begin_read(admin, action, target, prepare).await?;
        let asked = self.asked(&access, Some(window), &[]);
        let change = Change { before, after, role, window };
        let deadline = Instant::now() + patience;
        let compared = async {
            let mut people = self.people(&change, deadline).await?;
            self.impact_within(&access, &change, &mut people, deadline, None).await
        };
        match compared.await {
            Ok(impact) => {
                pending.complete(Outcome::Success, None).await?;
                Ok(impact)
            }
            Err(failure) => Err(pending.fail(failure.told_in_time(&asked)).await),
        }
    }

    /// What the administrator who asks may read themselves: of nothing else ids or values leave.
    pub(crate) async fn counting_access(&self, admin: &Administrator<'_>) -> Result<Access, ServiceError> {
        let mut tx = self.db().begin_read().await?;
        let authority = self.admin_authority(&mut tx, admin).await?;
        drop(tx);
        self.access_even_if_broken(authority).await
    }

    /// Which traces administrators may count.
    pub(crate) fn among(&self) -> Among {
        if self.may_look_at_traces() { Among::All } else { Among::Readable }
    }

    /// The comparison itself, for whoever has recorded the question.
    async fn impact_within(
        &self,
        access: &Access,
        change: &Change<'_>,
        people: &mut People,
        deadline: Instant,
        mut beside: Option<&mut Beside<'_>>,
    ) -> Result<ImpactAnswer, Failure> {
        let mut answer = ImpactAnswer {
            window: change.window,
            among: self.among(),
            fraction: 1.0,
            traces: change.role.map(|_| TraceChange::default()),
            members: 0,
            members_compared: 0,
            users: Vec::new(),
            cost: Cost::default(),
            notes: Vec::new(),
        };
        if source(&change.before.model) != source(&change.after.model) {
            answer.traces = None;
            let note =
                "the trace source is bound otherwise, so that traces before and after are not compared";
            answer.notes.push(note.to_owned());
            return Ok(answer);
        }
        answer.members = people.members;
        people.note(&mut answer.notes);
        let mut refused = None;
        let looked = async {
            // However many administrators ask, the store has other things to do.
            let turn = timeout_at(deadline, self.looks().acquire()).await;
            let _turn = turn.map_err(|_| StoreError::Timeout("other previews were running".to_owned()))?;
            loop {
                let beside_now = beside.as_deref_mut();
                match self.compare(access, change, people, deadline, beside_now, &mut answer).await {
                    // Whoever's access rests on a field that is something else now reads nothing.
                    Err(StoreError::FieldsChanged(changed)) if people.refuse(&changed) => {}
                    // What it is counted by may be gone, which is no reason not to compare.
                    Err(
                        error @ (StoreError::UnknownColumn { .. }
                        | StoreError::FieldsChanged(_)
                        | StoreError::TableChanged(_)
                        | StoreError::Store { .. }),
                    ) if beside.take().is_some() => {
                        tracing::info!(%error, "what is shared is counted apart from the comparison");
                        refused = Some(error);
                    }
                    // That nothing was left of the time is not why.
                    Err(StoreError::Timeout(_)) if refused.is_some() => {
                        return refused.take().map_or(Ok(()), Err);
                    }
                    looked => return looked,
                }
            }
        };
        looked.await?;
        people.note_changed(&mut answer.notes);
        answer.users.sort_by(|one, other| {
            let unaffected = |user: &UserImpact| user.change.gained == 0 && user.change.lost == 0;
            let lost = |user: &UserImpact| user.change.lost == 0;
            (unaffected(one), lost(one), &one.username).cmp(&(
                unaffected(other),
                lost(other),
                &other.username,
            ))
        });
        if answer.users.len() > USERS_LISTED {
            answer.notes.push(format!("{} more users are not listed", answer.users.len() - USERS_LISTED));
            answer.users.truncate(USERS_LISTED);
        }
        Ok(answer)
    }

    /// Asks the store, some users at a time, until all are compared or there is no time left.
    async fn compare(
        &self,
        access: &Access,
        change: &Change<'_>,
        people: &People,
        deadline: Instant,
        mut beside: Option<&mut Beside<'_>>,
        answer: &mut ImpactAnswer,
    ) -> Result<(), StoreError> {
        (answer.users, answer.members_compared, answer.fraction) = (Vec::new(), 0, 1.0);
        let mut sampled = None;
        let store = access.store.metered();
        let batches: Vec<Batch<'_>> = batches(people, answer.traces.is_some());
        let many = batches.len();
        let has_role = batches.iter().any(|batch| batch.role.is_some());
        if let Some(beside) = &mut beside {
            beside.counted = None;
        }
        for (at, batch) in batches.into_iter().enumerate() {
            // Reading the spans once more to count what is shared would double the time.
            let is_one = many == 1 && batch.comparisons.len() <= BESIDE_MOST;
            let mut together = beside.as_deref_mut().filter(|_| is_one).and_then(|beside| {
                let groups = Groups::of(people);
                let openings = groups.numbered(|predicate| batch.known(predicate))?;
                Some((beside, groups, openings))
            });
            let sharing = together.as_ref().map(|(beside, _, openings)| Sharing {
                openings,
                by: beside.by.spread(),
                limit: VALUES,
            });
            let deadline = together.as_ref().map_or(deadline, |(beside, ..)| beside.deadline);
            let left = deadline.saturating_duration_since(Instant::now());
            let is_last = at.saturating_add(1) == many;
            let request = ImpactRequest {
                binding: &access.binding,
                predicates: &batch.predicates,
                comparisons: &batch.comparisons,
                sharing,
                window: change.window,
                readable: &access.scope,
                only_readable: answer.among == Among::Readable,
                rests_on: &people.rests_on,
                samples: SAMPLES,
                patience: match (sharing.is_some(), is_last) {
                    (true, _) => left.mul_f64(BESIDE_SHARE),
                    (false, true) => left,
                    (false, false) => left.mul_f64(NOT_LAST_SHARE),
                },
            };
            let mut found = timeout_at(deadline, store.impact(request)).await;
            let shared = match &mut found {
                Ok(Ok(impact)) => Some((std::mem::take(&mut impact.shared), impact.fraction)),
                _ => None,
            };
            // What is shared may take more than there is; the comparison by itself takes less.
            let is_short = match &found {
                Ok(Ok(impact)) => impact.fraction < 1.0,
                Ok(Err(error)) => error.is_over_limit(),
                Err(_) => false,
            };
            if sharing.is_some() && is_short {
                let patience = deadline.saturating_duration_since(Instant::now());
                let alone = ImpactRequest { sharing: None, patience, ..request };
                let alone = timeout_at(deadline, store.impact(alone)).await;
                let fraction = |found: &Result<Result<Impact, StoreError>, _>| match found {
                    Ok(Ok(impact)) => impact.fraction,
                    _ => 0.0,
                };
                if fraction(&alone) > fraction(&found) {
                    found = alone;
                }
            }
            let impact = match found {
                Ok(Ok(impact)) => impact,
                Ok(Err(StoreError::Timeout(_) | StoreError::Memory(_))) | Err(_) if at > 0 => {
                    let left_out = people.compared().saturating_sub(answer.members_compared);
                    answer.notes.push(format!("there was no time to compare {left_out} of the users"));
                    break;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    return Err(StoreError::Timeout("there was no time to compare anything".to_owned()));
                }
            };
            if impact.fraction < answer.fraction {
                answer.fraction = impact.fraction;
                sampled = Some(impact.traces);
            }
            if let (Some((beside, mut groups, _)), Some((shared, fraction))) = (together.take(), shared) {
                groups.learn(shared, fraction);
                beside.counted = Some((groups, fraction));
            }
            let change_of =
                |place: usize| impact.compared.get(place).map(|found| scaled(found, impact.fraction));
            if let (Some(place), Some(traces)) = (batch.role, &mut answer.traces) {
                *traces = change_of(place).unwrap_or_default();
            }
            for (person, place) in &batch.people {
                let change = change_of(*place).unwrap_or_default();
                answer.users.push(UserImpact { username: person.username.clone(), change });
            }
            answer.members_compared += batch.people.len() as u64;
        }
        if !has_role && answer.traces.take().is_some() {
            answer.notes.push(
                "what the role opens by itself is not told: its members' policies are too many to ask about together"
                    .to_owned(),
            );
        }
        if let Some(traces) = sampled {
            answer.notes.push(of_sample(traces, answer.fraction));
        }
        answer.cost = sum(answer.cost, store.cost());
        Ok(())
    }
}

/// How far estimates from so many sampled traces may be off, for people: a number that rests on 100 traces by a fifth, on 400 by a
/// tenth, which is twice the standard deviation of such a count.
fn of_sample(traces: u64, fraction: f64) -> String {
    let about = |traces| estimate(traces, fraction);
    format!(
        "the numbers are estimates from a sample of {traces} traces, one in {:.0}: 19 times out of 20, one near {} is right within \
         20 %, one near {} within 10 %",
        1.0 / fraction,
        about(100),
        about(400)
    )
}

/// What is shared by the role's policies after the change, where that can be counted by the statement that compares.
struct Beside<'a> {
    by: &'a Spreading,
    /// For both.
    deadline: Instant,
    /// With the share of the traces that it is of; nothing when it was not counted.
    counted: Option<(Groups, f64)>,
}

/// The binding, as far as it says which traces there are.
fn source(model: &AccessModel) -> Option<Binding> {
    model.binding.clone().map(|binding| Binding { display: Display::default(), ..binding })
}

/// A change to look at.
pub(crate) struct Change<'a> {
    pub(crate) before: &'a ModelSide,
    pub(crate) after: &'a ModelSide,
    pub(crate) role: Option<&'a str>,
    pub(crate) window: Window,
}

/// Failures of the store are told by who asked.
pub(crate) enum Failure {
    Store(StoreError),
    Service(ServiceError),
}

impl Failure {
    /// As whoever asked may know it.
    pub(crate) fn told(self, asked: &Asked) -> ServiceError {
        match self {
            Self::Store(error) => asked.error(error),
            Self::Service(error) => error,
        }
    }

    /// The same, where the asker said how long it may take.
    pub(crate) fn told_in_time(self, asked: &Asked) -> ServiceError {
        match self {
            Self::Store(StoreError::Timeout(inside)) => ServiceError::OverLimit {
                limit: QueryLimit::Time,
                detail: "there was no time to look even at a sample: give it more `seconds`, at most 60, or narrow the window"
                    .to_owned(),
                inside: inside.into(),
            },
            other => other.told(asked),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<tracewarden_appdb::DbError> for Failure {
    fn from(error: tracewarden_appdb::DbError) -> Self {
        Self::Service(error.into())
    }
}

/// What the record says: what the decision rests on, and what was asked.
pub(crate) fn noted(access: &Access, asked: &Value) -> Value {
    let mut detail = access.basis.clone();
    if let (Value::Object(members), Value::Object(asked)) = (&mut detail, asked) {
        members.extend(asked.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    detail
}

fn scaled(found: &Difference, fraction: f64) -> TraceChange {
    TraceChange {
        gained: estimate(found.gained, fraction),
        lost: estimate(found.lost, fraction),
        unchanged: estimate(found.unchanged, fraction),
        gained_ids: found.gained_ids.clone(),
        lost_ids: found.lost_ids.clone(),
    }
}

/// A count of a sample, as an estimate for all traces.
pub(crate) fn estimate(count: u64, fraction: f64) -> u64 {
    if fraction >= 1.0 || fraction <= 0.0 {
        return count;
    }
    // Counts stay far below what a double holds exactly.
    (count as f64 / fraction).round() as u64
}

/// Both together.
pub(crate) fn sum(one: Cost, other: Cost) -> Cost {
    Cost {
        rows: one.rows.saturating_add(other.rows),
        bytes: one.bytes.saturating_add(other.bytes),
        elapsed: one.elapsed.saturating_add(other.elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_sample_are_scaled_and_exact_ones_are_not() {
        assert_eq!(estimate(7, 1.0), 7);
        assert_eq!(estimate(7, 0.25), 28);
        assert_eq!(estimate(1, 0.3), 3);
        assert_eq!(estimate(0, 0.001), 0);
    }

    #[test]
    fn a_sample_says_how_far_its_numbers_may_be_off() {
        let note = of_sample(8_920, 1.0 / 64.0);
        assert!(
            note.contains("a sample of 8920 traces, one in 64: 19 times out of 20, one near 6400 is"),
            "{note}"
        );
        assert!(note.ends_with("within 20 %, one near 25600 within 10 %"), "{note}");
    }
}
