//! Preview of a role: the impact of storing these policies, or of deleting the role.

use serde::Serialize;
use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_clickhouse::Cost;
use tracewarden_model::Window;
use utoipa::ToSchema;

use crate::access::{check_deletion, check_role_input};
use crate::analysis::collateral_access::CollateralAnswer;
use crate::analysis::counted_traces::CountedTraces;
use crate::analysis::impact::{CollateralCount, ImpactAnswer};
use crate::analysis::role_change::PolicyPreviewRequest;
use crate::analysis::subjects::Subjects;
use crate::analysis::{Analysis, timeout};
use crate::core::{Access, Administrator, Outcome, Result, ServiceError};

const POLICY_PREVIEW: &str = "policy.preview";
/// Share of the time for the comparison; the rest is for collateral access.
const COMPARISON_TIME_SHARE: f64 = 0.85;
/// Time-out of a search whose cost is measured.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

/// The effect of a changed role.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PolicyPreview {
    /// Name of the role.
    pub role: String,
    /// The traces gained and lost.
    #[serde(flatten)]
    pub impact: ImpactAnswer,
    /// Collateral access: values that the policies make visible without naming them. If one statement counted these together with
    /// the traces gained and lost, both parts report the cost of that statement. Null for a role that is deleted, or if the
    /// values could not be determined.
    #[schema(required = true)]
    pub collateral_access: Option<CollateralAnswer>,
    /// Cost for the first member of the first page of a search of all traces in the window's last 24 hours.
    pub search: SearchCosts,
}

/// Cost of the first page of a search.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchCosts {
    /// Cost before the change; null when the search was not run or took too long.
    pub before: Option<Cost>,
    /// Cost after the change; null when the search was not run or took too long.
    pub after: Option<Cost>,
}

impl Analysis {
    /// Computes the impact of storing a role with these policies.
    ///
    /// # Errors
    /// Those of [`Roles::put_role`](crate::Roles::put_role) for the policies, and of
    /// [`Traces::begin_query`](crate::Traces::begin_query) for the window and failures.
    pub async fn preview_policies(
        &self,
        admin: &Administrator<'_>,
        request: PolicyPreviewRequest,
    ) -> Result<PolicyPreview> {
        let started = Instant::now();
        let role = request.role.as_str();
        let timeout = self.core.audit_denial(admin, POLICY_PREVIEW, Some(role), check(&request)).await?;
        let prepare = || self.prepare_role_change(admin, &request, true);
        let (access, plan, mut record) =
            self.core.begin_read(admin, POLICY_PREVIEW, Some(role), prepare).await?;
        let (change, window) = (plan.change(role), plan.window);
        record.set_query_with_timeout(&access, window);
        let deadline = started + timeout;
        let by = plan.by.as_ref().filter(|_| request.policies.is_some());
        let mut collateral_count = by.map(|by| CollateralCount { by, deadline, counted: None });
        let compared = async {
            let deadline = started + timeout.mul_f64(COMPARISON_TIME_SHARE);
            let mut subjects = self.subjects(&change, deadline).await?;
            let counted = collateral_count.as_mut();
            let impact = self.impact_within(&access, &change, &mut subjects, deadline, counted).await?;
            Ok::<_, ServiceError>((subjects, impact))
        };
        let (subjects, mut impact) = record.check(compared.await).await?;
        let collateral_access = match collateral_count {
            Some(CollateralCount { by, counted, .. }) => {
                let cost = impact.counted.cost;
                let collateral_answer = match counted {
                    Some((groups, fraction)) => {
                        let answer =
                            self.collateral_answer(groups, subjects.members, window, by, fraction, cost);
                        answer.map_err(ServiceError::from)
                    }
                    None => self.count_collateral_access(&access, window, &subjects, by, deadline).await,
                };
                match collateral_answer {
                    Ok(mut collateral_access) => {
                        impact.counted.notes.append(&mut collateral_access.counted.notes);
                        Some(collateral_access)
                    }
                    // The comparison is returned without it.
                    Err(failure) => {
                        let detail = record.error(failure).detail();
                        impact.note(format!(
                            "the collateral access of the role could not be counted: {detail}"
                        ));
                        None
                    }
                }
            }
            None => {
                if request.policies.is_some() {
                    impact.note("no service column is bound, so collateral access is not counted");
                }
                None
            }
        };
        let search = self.search_costs(&access, window, &subjects, deadline).await;
        record.complete(Outcome::Success, None).await?;
        Ok(PolicyPreview { role: request.role, impact, collateral_access, search })
    }

    /// Measures the cost of the first page of a search by the first member, before and after, as far as there is time.
    /// Discards the results.
    async fn search_costs(
        &self,
        access: &Access,
        window: Window,
        subjects: &Subjects,
        deadline: Instant,
    ) -> SearchCosts {
        let from = window.from().max(window.to().saturating_sub(Window::DEFAULT_NANOS));
        let (Some(subject), Ok(window)) = (subjects.compared.first(), Window::new(from, window.to())) else {
            return SearchCosts::default();
        };
        // The amount of data that a search reads reveals something about spans, too.
        if self.counted_traces() == CountedTraces::Readable {
            return SearchCosts::default();
        }
        let mut costs = [None, None];
        for (cost, side) in costs.iter_mut().zip([&subject.before, &subject.after]) {
            let left = deadline.saturating_duration_since(Instant::now()).min(SEARCH_TIMEOUT);
            let (limit, grant) = (self.core.settings.limits.default_limit, &side.whole);
            let (binding, fields) = (&access.binding, &grant.referenced_fields);
            let found = access.store.search_cost(binding, grant.predicates(), fields, window, limit, left);
            *cost = timeout_at(deadline, found).await.ok().and_then(Result::ok);
        }
        let [before, after] = costs;
        SearchCosts { before, after }
    }
}

/// Checks the parts of the request that do not depend on stored data; returns the time-out.
fn check(request: &PolicyPreviewRequest) -> Result<Duration> {
    match &request.policies {
        Some(policies) => check_role_input(&request.role, policies)?,
        None => check_deletion(&request.role)?,
    }
    timeout(request.seconds)
}
