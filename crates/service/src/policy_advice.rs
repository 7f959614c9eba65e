//! Advice on policies that only the users or recent traces can give. It is given beside an answer and never decides
//! about one: when the own database or the trace store fails or is slow, there is none.
//!
//! How many recent traces a policy opens tells something about spans to somebody whose own policies may not show them.
//! It is less than what discovery shows, and the same holds for it: administrators alone get it, the operator can
//! switch it off with the samples of discovery, and what was asked about stands in the audit log before the trace store
//! is asked: the role with its policies, or the text that was only to be checked. What comes back are counts; services
//! are named only if the policy or a user's attributes name them.

mod traces;
mod users;

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tracewarden_appdb::User;
use tracewarden_model::AccessModel;
use tracewarden_policy::{Checked, Diagnostic, Predicate};
use tracewarden_tracestore::{ReachRequest, RecentReach};

use crate::error::ServiceError;
use crate::policy_advice::traces::Trial;
use crate::policy_advice::users::Users;
use crate::principal::Administrator;
use crate::service::Service;

/// How long whoever stored a role waits for advice at most.
pub(crate) const ROLE_PATIENCE: Duration = Duration::from_secs(3);
/// How long whoever checks an expression does.
pub(crate) const CHECK_PATIENCE: Duration = Duration::from_secs(1);

/// With more different sets of attributes among the users, nothing is said about attributes.
const MAX_ATTRIBUTE_SETS: u32 = 10_000;
/// Users of a role for whom its policies are tried.
const MAX_HOLDERS: usize = 10;

/// What the advice is about.
pub(crate) struct Subject {
    /// The role that holds the policies, if they are stored.
    pub(crate) role: Option<String>,
    pub(crate) policies: Vec<Checked>,
    pub(crate) model: AccessModel,
    /// Whether recent traces are looked at, as far as the operator lets them be.
    pub(crate) recent_traces: bool,
    /// How long all of it may take.
    pub(crate) patience: Duration,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    /// For each policy, by place.
    pub(crate) warnings: Vec<Vec<Diagnostic>>,
    /// Recent traces that were looked at, if any were.
    pub(crate) recent_traces: Option<u64>,
}

/// What the own database says, and what follows from it.
struct Known {
    subject: Subject,
    warnings: Vec<Vec<Diagnostic>>,
    trials: Vec<Trial>,
    predicates: Vec<Predicate>,
}

impl Service {
    /// Whether the operator lets recent traces be looked at.
    pub(crate) fn may_look_at_traces(&self) -> bool {
        self.settings().discovery_samples
    }

    /// Writes down that somebody wants to know what an expression opens of the recent traces.
    ///
    /// # Errors
    /// As [`Service::begin_change`].
    pub(crate) async fn record_policy_check(
        &self,
        admin: &Administrator<'_>,
        expression: &str,
    ) -> Result<(), ServiceError> {
        let mut tx = self.begin_change(admin).await?;
        self.record(&mut tx, admin, "policy.check", None, json!({ "expression": expression })).await?;
        Ok(tx.commit().await?)
    }

    /// Advice on valid policies, for an administrator whose question is in the audit log.
    pub(crate) async fn advice(&self, _admin: &Administrator<'_>, subject: Subject) -> Advice {
        let deadline = Instant::now() + subject.patience;
        let policies = subject.policies.len();
        let known = timeout_at(deadline, self.known(subject)).await;
        let Known { subject, warnings, trials, predicates } = match known {
            Ok(Ok(known)) => known,
            Ok(Err(failure)) => {
                tracing::info!(code = failure.code(), inside = failure.inside(), "no advice on policies");
                return Advice { warnings: vec![Vec::new(); policies], recent_traces: None };
            }
            Err(_) => {
                tracing::info!("no advice on policies: it took too long");
                return Advice { warnings: vec![Vec::new(); policies], recent_traces: None };
            }
        };
        let mut advice = Advice { warnings, recent_traces: None };
        if !subject.recent_traces || !self.may_look_at_traces() {
            return advice;
        }
        if let Some(reach) = self.look(&subject, &predicates, deadline).await {
            advice.recent_traces = Some(reach.traces);
            for trial in &trials {
                if let Some(warnings) = advice.warnings.get_mut(trial.policy)
                    && let Some(policy) = subject.policies.get(trial.policy)
                {
                    let most_shared = self.settings().overshare_warning;
                    warnings.extend(trial.warnings(policy, &predicates, &reach, &subject.model, most_shared));
                }
            }
        }
        advice
    }

    /// Reads about users what the policies' advice needs, and gives the connection back.
    async fn known(&self, subject: Subject) -> Result<Known, ServiceError> {
        let any = |test: fn(&Checked) -> bool| subject.policies.iter().any(test);
        let mut tx = self.db().begin_read().await?;
        let attributes = if any(|policy| !policy.attributes().is_empty()) {
            // No role has the empty name.
            tx.known_attributes(subject.role.as_deref().unwrap_or_default(), MAX_ATTRIBUTE_SETS).await?
        } else {
            None
        };
        let roles =
            if any(|policy| !policy.roles().is_empty()) { Some(tx.role_names().await?) } else { None };
        let holders: Vec<User> = match &subject.role {
            Some(role) if any(Checked::depends_on_caller) => {
                // One more tells whether these are all.
                let limit = u32::try_from(MAX_HOLDERS).unwrap_or(u32::MAX).saturating_add(1);
                tx.users_with_role(role, limit).await?
            }
            _ => Vec::new(),
        };
        drop(tx);
        let known = move || {
            let users = Users { attributes, roles };
            let warnings = subject.policies.iter().map(|policy| users.warnings(policy)).collect();
            let (trials, predicates) = traces::trials(&subject.policies, &holders);
            Known { subject, warnings, trials, predicates }
        };
        self.examining().run(known).await
    }

    /// What the predicates open of a sample of recent traces: the best that there is at the deadline.
    async fn look(
        &self,
        subject: &Subject,
        predicates: &[Predicate],
        deadline: Instant,
    ) -> Option<RecentReach> {
        let binding = subject.model.binding.as_ref().filter(|_| !predicates.is_empty())?;
        let seconds = u32::try_from(subject.patience.as_secs()).unwrap_or(u32::MAX).max(1);
        let request = ReachRequest { binding, predicates, now: self.now(), seconds };
        let mut found = None;
        let look = async {
            // However many administrators type, the store has other things to do.
            let _turn = self.advice_looks().acquire().await;
            self.store().recent_reach(request, &mut found).await
        };
        match timeout_at(deadline, look).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                let failure = ServiceError::from(failure);
                let inside = failure.inside();
                tracing::info!(code = failure.code(), inside, "no full advice from recent traces");
            }
            Err(_) => tracing::info!("no full advice from recent traces: it took too long"),
        }
        found
    }
}
