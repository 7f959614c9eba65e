//! Preview of a role: the impact of storing these policies, or of deleting the role.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tracewarden_appdb::{ADMIN_ROLE, Policy};
use tracewarden_model::{Timestamp, Window};
use tracewarden_tracestore::Cost;

use super::{Change, CollateralCount, CountedTraces, Failure, ImpactAnswer, ModelSide, Subjects, noted};
use crate::access::Access;
use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::open_audit_record::Prepared;
use crate::overshare::{CollateralRequest, OvershareAnswer, by_of};
use crate::principal::Administrator;
use crate::query_input;
use crate::roles::{Checks, check_members, no_case_conflict, policies_detail};
use crate::service::Service;
use crate::validate;

/// Action in the audit log.
const POLICY_PREVIEW: &str = "policy.preview";
/// Default and maximum duration of a preview in seconds.
const SECONDS: i64 = 10;
const MOST_SECONDS: i64 = 60;
/// Share of the requested time for all queries to ClickHouse; the rest is for the answer.
const LOOKING_SHARE: f64 = 0.95;
/// Share of that for the comparison; the rest is for collateral access.
const COMPARING_SHARE: f64 = 0.85;
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
    pub overshare: Option<OvershareAnswer>,
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
    by: Option<CollateralRequest>,
}

impl Service {
    /// Computes the impact of storing a role with these policies.
    ///
    /// # Errors
    /// Those of [`Service::put_role`] for the policies, those of [`Service::query`] for the window and failures,
    /// [`ServiceError::NotFound`] for the deletion of a role that does not exist.
    pub async fn preview_policies(
        &self,
        admin: &Administrator<'_>,
        request: PolicyPreviewRequest,
    ) -> Result<PolicyPreview, ServiceError> {
        let begun = Instant::now();
        let role = request.role.as_str();
        let checked = self.check_preview(&request).await;
        let timeout = self.audit_denial(admin, POLICY_PREVIEW, Some(role), checked).await?;
        let prepare = || self.prepare_preview(admin, &request).boxed();
        let (access, plan, mut open_audit_record) =
            self.begin_read(admin, POLICY_PREVIEW, Some(role), prepare).await?;
        let Plan { before, after, window, by } = plan;
        let asked = self.asked(&access, Some(window), &[]);
        let timeout = timeout.mul_f64(LOOKING_SHARE);
        let deadline = begun + timeout;
        let change = Change { before: &before, after: &after, role: Some(role), window };
        let by = by.filter(|_| request.policies.is_some());
        let mut beside = by.as_ref().map(|by| CollateralCount { by, deadline, counted: None });
        let compared = async {
            let comparing = begun + timeout.mul_f64(COMPARING_SHARE);
            let mut people = self.people(&change, comparing).await?;
            let impact =
                self.impact_within(&access, &change, &mut people, comparing, beside.as_mut()).await?;
            Ok::<_, Failure>((people, impact))
        };
        let (people, mut impact) = match compared.await {
            Ok(compared) => compared,
            Err(failure) => return Err(open_audit_record.fail(failure.told_in_time(&asked)).await),
        };
        let overshare = match beside {
            Some(CollateralCount { by, counted, .. }) => {
                let told = match counted {
                    Some((groups, fraction)) => {
                        let (members, cost) = (people.members(), impact.cost);
                        self.told(groups, members, window, by, fraction, cost).map_err(Failure::from)
                    }
                    None => self.overshare_within(&access, window, &people, by, deadline).await,
                };
                match told {
                    Ok(mut overshare) => {
                        impact.notes.append(&mut overshare.notes);
                        Some(overshare)
                    }
                    // The comparison is returned without it.
                    Err(failure) => {
                        let failure = failure.told_in_time(&asked);
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
        let search = self.search_costs(&access, window, &people, deadline).await;
        open_audit_record.complete(Outcome::Success, None).await?;
        Ok(PolicyPreview { role: request.role, impact, overshare, search })
    }

    /// Measures the cost of the first page of a search by the first member, before and after, as far as there is time.
    /// Discards the results.
    async fn search_costs(
        &self,
        access: &Access,
        window: Window,
        people: &Subjects,
        deadline: Instant,
    ) -> SearchCosts {
        let from = window.from().max(window.to().saturating_sub(Window::DEFAULT_NANOS));
        let (Some(person), Ok(window)) = (people.compared.first(), Window::new(from, window.to())) else {
            return SearchCosts::default();
        };
        // The amount of data that a search reads reveals something about spans, too.
        if self.among() == CountedTraces::Readable {
            return SearchCosts::default();
        }
        let mut costs = [None, None];
        for (cost, side) in costs.iter_mut().zip([&person.before, &person.after]) {
            let left = deadline.saturating_duration_since(Instant::now()).min(SEARCH_TIMEOUT);
            let (limit, predicates) = (self.settings().limits.default_limit, side.granting_predicates());
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
            Some(policies) => check_members(&request.role, policies)?,
            None if request.role == ADMIN_ROLE => {
                let detail = "the role `admin` is built in and cannot be deleted".to_owned();
                return Err(ServiceError::Conflict { detail, errors: Vec::new() });
            }
            None => drop(validate::findable(&request.role, "role")?),
        }
        timeout(request.seconds)
    }

    async fn prepare_preview(
        &self,
        admin: &Administrator<'_>,
        request: &PolicyPreviewRequest,
    ) -> Result<Prepared<Plan>, ServiceError> {
        let window = query_input::first_window(request.from, request.to, self.now())?;
        let mut tx = self.db().begin_read().await?;
        let authority = self.admin_authority(&mut tx, admin).await?;
        let roles = tx.roles().await?;
        drop(tx);
        let access = self.access_even_if_broken(authority).await?;
        let model = access.authority.model.clone();
        let roles: BTreeMap<String, Vec<Policy>> =
            roles.into_iter().map(|role| (role.name, role.policies)).collect();
        let before = ModelSide { roles, model };
        let mut after = before.clone();
        match &request.policies {
            Some(policies) => {
                let (policies, model) = (policies.clone(), before.model.clone());
                let checks = self.analysis().run(move || Checks::of(policies, model)).await?;
                checks.checked?;
                no_case_conflict(&request.role, before.roles.keys())?;
                after.roles.insert(request.role.clone(), checks.policies);
            }
            None if after.roles.remove(&request.role).is_none() => {
                return Err(ServiceError::NotFound { what: "role" });
            }
            None => {}
        }
        let by = match &request.by {
            Some(by) => Some(by_of(by, &before.model, &access.binding)?),
            None => CollateralRequest::default_of(&access.binding),
        };
        let detail = json!({
            "from": window.from().to_string(),
            "to": window.to().to_string(),
            "policies": request.policies.as_deref().map(policies_detail),
            "by": request.by,
        });
        let detail = noted(&access, &detail);
        Ok(Prepared { access, plan: Plan { before, after, window, by }, detail })
    }
}

/// Returns the time-out of a preview.
pub(crate) fn timeout(seconds: Option<i64>) -> Result<Duration, ServiceError> {
    let seconds = seconds.unwrap_or(SECONDS);
    match u64::try_from(seconds) {
        Ok(whole) if (1..=MOST_SECONDS).contains(&seconds) => Ok(Duration::from_secs(whole)),
        _ => {
            let detail = format!("from 1 to {MOST_SECONDS} seconds");
            Err(ServiceError::refused("/seconds", "invalid_value", detail))
        }
    }
}
