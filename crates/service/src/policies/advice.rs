//! Advice on policies that depends on users or recent traces. It accompanies an answer and never affects a decision: if the
//! application database or ClickHouse fails or is slow, there is no advice.
//!
//! The number of recent traces to which a policy grants access reveals something about spans that the caller's own policies
//! may not show. It is less than discovery shows, and the same rules apply: only administrators get it, the operator can
//! switch it off with the samples of discovery, and the audit log records the request before ClickHouse is queried: the role
//! with its policies, or the text to be checked. The results are counts; services are named only if the policy or a user's
//! attributes name them.

mod traces;
mod users;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracewarden_appdb::User;
use tracewarden_clickhouse::{PolicyCoverage, PolicyCoverageRequest};
use tracewarden_model::AccessModel;
use tracewarden_policy::{CheckedPolicy, Diagnostic, Predicate};

use crate::core::{Administrator, Core, Result, ServiceError};
use crate::policies::advice::traces::{MAX_HOLDERS, Trial};
use crate::policies::advice::users::Users;

/// Maximum time that storing a role waits for advice.
pub(crate) const ROLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time that checking an expression waits for advice.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of distinct sets of attributes among users; with more, there is no advice on attributes.
const MAX_ATTRIBUTE_SETS: u32 = 10_000;

pub(crate) struct AdviceRequest {
    /// Role that contains the policies, if they are stored.
    pub(crate) role: Option<String>,
    pub(crate) policies: Vec<CheckedPolicy>,
    pub(crate) model: AccessModel,
    /// Whether recent traces are sampled, if the operator permits it.
    pub(crate) recent_traces: bool,
    pub(crate) timeout: Duration,
}

/// Advice on policies.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    pub(crate) warnings: Vec<Vec<Diagnostic>>,
    /// Number of recent traces in the sample, if one was taken.
    pub(crate) recent_traces: Option<u64>,
}

/// Data from the application database, and the advice and trials derived from it.
struct AdviceInputs {
    advice_request: AdviceRequest,
    warnings: Vec<Vec<Diagnostic>>,
    trials: Vec<Trial>,
    predicates: Vec<Predicate>,
}

impl Core {
    /// Returns advice on valid policies, for an administrator whose request is in the audit log.
    pub(crate) async fn policy_advice(
        &self,
        _admin: &Administrator<'_>,
        advice_request: AdviceRequest,
    ) -> Advice {
        let deadline = Instant::now() + advice_request.timeout;
        let mut advice =
            Advice { warnings: vec![Vec::new(); advice_request.policies.len()], recent_traces: None };
        let inputs = match timeout_at(deadline, self.load_advice_inputs(advice_request)).await {
            Ok(Ok(inputs)) => inputs,
            Ok(Err(failure)) => {
                let log_cause = failure.log_cause();
                tracing::info!(code = failure.code(), log_cause, "no advice on policies");
                return advice;
            }
            Err(_) => {
                tracing::info!("no advice on policies: it took too long");
                return advice;
            }
        };
        let AdviceInputs { advice_request, warnings, trials, predicates } = inputs;
        advice.warnings = warnings;
        if !advice_request.recent_traces || !self.settings.discovery_samples {
            return advice;
        }
        if let Some(coverage) = self.sample_recent_traces(&advice_request, &predicates, deadline).await {
            advice.recent_traces = Some(coverage.traces);
            for trial in &trials {
                if let Some(warnings) = advice.warnings.get_mut(trial.policy)
                    && let Some(policy) = advice_request.policies.get(trial.policy)
                {
                    let (model, max) = (&advice_request.model, self.settings.collateral_access_warning);
                    warnings.extend(trial.warnings(policy, &predicates, &coverage, model, max));
                }
            }
        }
        advice
    }

    /// Reads the data about users that the advice needs, and releases the connection.
    async fn load_advice_inputs(&self, advice_request: AdviceRequest) -> Result<AdviceInputs> {
        let any = |test: fn(&CheckedPolicy) -> bool| advice_request.policies.iter().any(test);
        let mut tx = self.db.begin_read().await?;
        let attributes = if any(|policy| !policy.attributes().is_empty()) {
            // No role has an empty name.
            tx.known_attributes(advice_request.role.as_deref().unwrap_or_default(), MAX_ATTRIBUTE_SETS)
                .await?
        } else {
            None
        };
        let roles =
            if any(|policy| !policy.roles().is_empty()) { Some(tx.role_names().await?) } else { None };
        let holders: Vec<User> = match &advice_request.role {
            Some(role) if any(CheckedPolicy::depends_on_caller) => {
                // One more than the limit shows whether there are further users.
                let limit = u32::try_from(MAX_HOLDERS).unwrap_or(u32::MAX).saturating_add(1);
                tx.users_batch(Some(role), "", limit, u32::MAX).await?
            }
            _ => Vec::new(),
        };
        drop(tx);
        let inputs = move || {
            let users = Users { attributes, roles };
            let warnings = advice_request.policies.iter().map(|policy| users.warnings(policy)).collect();
            let (trials, predicates) = traces::trials(&advice_request.policies, &holders);
            AdviceInputs { advice_request, warnings, trials, predicates }
        };
        self.permits.analysis.run(inputs).await
    }

    /// Counts the traces in a sample of recent ones that the predicates match; returns the best result at the deadline.
    async fn sample_recent_traces(
        &self,
        advice_request: &AdviceRequest,
        predicates: &[Predicate],
        deadline: Instant,
    ) -> Option<PolicyCoverage> {
        let binding = advice_request.model.binding.as_ref().filter(|_| !predicates.is_empty())?;
        let seconds = u32::try_from(advice_request.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let request = PolicyCoverageRequest { binding, predicates, now: self.now(), seconds };
        let mut found = None;
        let sample_recent_traces = async {
            // Limits the load on ClickHouse, however many administrators edit policies.
            let _permit = self.permits.samples.wait().await;
            self.clickhouse.policy_coverage(request, &mut found).await
        };
        match timeout_at(deadline, sample_recent_traces).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                let failure = ServiceError::from(failure);
                let log_cause = failure.log_cause();
                tracing::info!(code = failure.code(), log_cause, "no full advice from recent traces");
            }
            Err(_) => tracing::info!("no full advice from recent traces: it took too long"),
        }
        found
    }
}
