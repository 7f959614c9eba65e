//! Preview of a role: the impact of storing these policies, or of deleting the role.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tracewarden_appdb::{ADMIN_ROLE, Policy};
use tracewarden_clickhouse::Cost;
use tracewarden_model::{Timestamp, Window};

use crate::access::{CheckedPolicies, check_case_conflict, check_role_input, policies_detail};
use crate::analysis::Analysis;
use crate::analysis::change::{Change, ModelSide};
use crate::analysis::collateral_access::{CollateralAnswer, CollateralGroupBy, parse_group_by};
use crate::analysis::counted_traces::CountedTraces;
use crate::analysis::failure::Failure;
use crate::analysis::impact::{CollateralCount, ImpactAnswer};
use crate::analysis::request::{timeout, with_decision_inputs};
use crate::analysis::subjects::Subjects;
use crate::core::{Access, Administrator, Outcome, PreparedRead, ServiceError, query_input, validate};

/// Action in the audit log.
const POLICY_PREVIEW: &str = "policy.preview";
/// Share of the requested time for all queries to ClickHouse; the rest is for the answer.
const QUERY_TIME_SHARE: f64 = 0.95;
/// Share of that for the comparison; the rest is for collateral access.
const COMPARISON_TIME_SHARE: f64 = 0.85;
/// Time-out of a search whose cost is measured.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Request for a preview.
#[derive(Debug, Clone, Default)]
pub struct PolicyPreviewRequest {
    /// Name of the role, which need not exist yet.
    pub role: String,
    /// Policies after the change; `None` to delete the role.
    pub policies: Option<Vec<Policy>>,
    /// Start of the window; 24 hours before `to` when absent.
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    pub to: Option<Timestamp>,
    /// Maximum duration in seconds.
    pub seconds: Option<i64>,
    /// Field by which collateral access is counted; services when absent.
    pub by: Option<String>,
}

/// Preview of a role.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyPreview {
    /// Name of the role.
    pub role: String,
    /// Traces gained and lost.
    pub impact: ImpactAnswer,
    /// Collateral access by the policies; `None` for a role that is deleted, or if it could not be counted.
    pub collateral_access: Option<CollateralAnswer>,
    /// Cost of the first page of a search by the first member, before and after.
    pub search: SearchCosts,
}

/// Cost of a search; `None` if it was not tried, or took too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchCosts {
    /// Cost before the change.
    pub before: Option<Cost>,
    /// Cost after the change.
    pub after: Option<Cost>,
}

struct Plan {
    before: ModelSide,
    after: ModelSide,
    window: Window,
    by: Option<CollateralGroupBy>,
}

impl Analysis {
    /// Computes the impact of storing a role with these policies.
    ///
    /// # Errors
    /// Those of [`Roles::put_role`](crate::Roles::put_role) for the policies, those of
    /// [`Traces::query`](crate::Traces::query) for the window and failures, [`ServiceError::NotFound`] for the deletion of a
    /// role that does not exist.
    pub async fn preview_policies(
        &self,
        admin: &Administrator<'_>,
        request: PolicyPreviewRequest,
    ) -> Result<PolicyPreview, ServiceError> {
        let started = Instant::now();
        let role = request.role.as_str();
        let checked = self.check_preview(&request).await;
        let timeout = self.core.audit_denial(admin, POLICY_PREVIEW, Some(role), checked).await?;
        let prepare = || self.prepare_preview(admin, &request).boxed();
        let (access, plan, mut open_audit_record) =
            self.core.begin_read(admin, POLICY_PREVIEW, Some(role), prepare).await?;
        let Plan { before, after, window, by } = plan;
        let query_context = self.core.query_context(&access, Some(window), &[]);
        let timeout = timeout.mul_f64(QUERY_TIME_SHARE);
        let deadline = started + timeout;
        let change = Change { before: &before, after: &after, role: Some(role), window };
        let by = by.filter(|_| request.policies.is_some());
        let mut collateral_count = by.as_ref().map(|by| CollateralCount { by, deadline, counted: None });
        let compared = async {
            let comparison_deadline = started + timeout.mul_f64(COMPARISON_TIME_SHARE);
            let mut subjects = self.subjects(&change, comparison_deadline).await?;
            let impact = self
                .impact_within(
                    &access,
                    &change,
                    &mut subjects,
                    comparison_deadline,
                    collateral_count.as_mut(),
                )
                .await?;
            Ok::<_, Failure>((subjects, impact))
        };
        let (subjects, mut impact) = match compared.await {
            Ok(compared) => compared,
            Err(failure) => {
                return Err(open_audit_record
                    .fail(failure.into_error_for_chosen_timeout(&query_context))
                    .await);
            }
        };
        let collateral_access = match collateral_count {
            Some(CollateralCount { by, counted, .. }) => {
                let collateral_answer = match counted {
                    Some((groups, fraction)) => {
                        let (members, cost) = (subjects.members(), impact.cost);
                        self.collateral_answer(groups, members, window, by, fraction, cost)
                            .map_err(Failure::from)
                    }
                    None => self.count_collateral_access(&access, window, &subjects, by, deadline).await,
                };
                match collateral_answer {
                    Ok(mut collateral_access) => {
                        impact.notes.append(&mut collateral_access.notes);
                        Some(collateral_access)
                    }
                    // The comparison is returned without it.
                    Err(failure) => {
                        let failure = failure.into_error_for_chosen_timeout(&query_context);
                        impact.notes.push(format!(
                            "the collateral access of the role could not be counted: {}",
                            failure.detail()
                        ));
                        None
                    }
                }
            }
            None => {
                if request.policies.is_some() {
                    let note = "no service column is bound, so collateral access is not counted";
                    impact.notes.push(note.to_owned());
                }
                None
            }
        };
        let search = self.search_costs(&access, window, &subjects, deadline).await;
        open_audit_record.complete(Outcome::Success, None).await?;
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
            let (limit, predicates) = (self.core.settings.limits.default_limit, side.granting_predicates());
            let found = access.store.search_cost(
                &access.binding,
                predicates,
                &side.referenced_fields,
                window,
                limit,
                left,
            );
            *cost = found.await.ok();
        }
        let [before, after] = costs;
        SearchCosts { before, after }
    }

    /// Checks the parts of the request that do not depend on stored data; returns the time-out.
    async fn check_preview(&self, request: &PolicyPreviewRequest) -> Result<Duration, ServiceError> {
        match &request.policies {
            Some(policies) => check_role_input(&request.role, policies)?,
            None if request.role == ADMIN_ROLE => {
                let detail = "the role `admin` is built in and cannot be deleted".to_owned();
                return Err(ServiceError::Conflict { detail, errors: Vec::new() });
            }
            None => drop(validate::lookup_name(&request.role, "role")?),
        }
        timeout(request.seconds)
    }

    async fn prepare_preview(
        &self,
        admin: &Administrator<'_>,
        request: &PolicyPreviewRequest,
    ) -> Result<PreparedRead<Plan>, ServiceError> {
        let window = query_input::first_window(request.from, request.to, self.core.now())?;
        let mut tx = self.core.db.begin_read().await?;
        let authority = self.core.admin_authority(&mut tx, admin).await?;
        let roles = tx.roles().await?;
        drop(tx);
        let access = self.core.access_even_if_broken(authority).await?;
        let model = access.authority.model.clone();
        let roles: BTreeMap<String, Vec<Policy>> =
            roles.into_iter().map(|role| (role.name, role.policies)).collect();
        let before = ModelSide { roles, model };
        let mut after = before.clone();
        match &request.policies {
            Some(policies) => {
                let (policies, model) = (policies.clone(), before.model.clone());
                let checks =
                    self.core.permits.analysis.run(move || CheckedPolicies::new(policies, model)).await?;
                checks.checked?;
                check_case_conflict(&request.role, before.roles.keys())?;
                after.roles.insert(request.role.clone(), checks.policies);
            }
            None if after.roles.remove(&request.role).is_none() => {
                return Err(ServiceError::NotFound { what: "role" });
            }
            None => {}
        }
        let by = match &request.by {
            Some(by) => Some(parse_group_by(by, &before.model, &access.binding)?),
            None => CollateralGroupBy::default_for(&access.binding),
        };
        let detail = json!({
            "from": window.from().to_string(),
            "to": window.to().to_string(),
            "policies": request.policies.as_deref().map(policies_detail),
            "by": request.by,
        });
        let detail = with_decision_inputs(&access, &detail);
        Ok(PreparedRead { access, plan: Plan { before, after, window, by }, detail })
    }
}
