//! Collateral access: spans that users with a role see beyond those that its policies name. A span that satisfies a policy
//! grants access to its whole trace, including the spans of other services. The amount is measured by the values of one
//! field, usually the service name. It is counted for each member separately, and reported for the members with the most
//! collateral access.
//!
//! Like the preview of a change, this counts data that the caller may not read; see `impact.rs` for what the answer may
//! contain.

mod group_by;
mod groups;

use futures::FutureExt as _;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tracewarden_appdb::Policy;
use tracewarden_clickhouse::{ClickHouseError, CollateralQuery, Cost, ImpactRequest, SharedValue};
use tracewarden_model::{Timestamp, Window};

use crate::access::{CheckedPolicies, check_case_conflict, check_role_input, policies_detail};
use crate::analysis::Analysis;
use crate::analysis::change::{Change, ModelSide};
use crate::analysis::counted_traces::CountedTraces;
use crate::analysis::estimate::{add_costs, estimate};
use crate::analysis::failure::Failure;
use crate::analysis::request::{timeout, with_decision_inputs};
use crate::analysis::subjects::Subjects;
use crate::core::{
    Access, Administrator, FieldError, Outcome, PreparedRead, ServiceError, query_input, validate,
};
pub(crate) use group_by::{CollateralGroupBy, parse_group_by};
pub(crate) use groups::MemberGroups;

/// Action in the audit log.
const POLICY_COLLATERAL_ACCESS: &str = "policy.collateral_access";
/// Maximum number of values in an answer.
pub(crate) const MAX_COLLATERAL_VALUES: u32 = 100;

/// Request for collateral access.
#[derive(Debug, Clone, Default)]
pub struct CollateralRequest {
    /// Name of the role.
    pub role: String,
    /// Policies of the role; the stored ones when absent.
    pub policies: Option<Vec<Policy>>,
    /// A marked field or a display column; the column of service names when absent.
    pub by: Option<String>,
    /// Start of the window; 24 hours before `to` when absent.
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    pub to: Option<Timestamp>,
    /// Maximum duration in seconds.
    pub seconds: Option<i64>,
}

/// Accessible values, and those that are accessible only because traces are shown whole. If the policies require different
/// things of each member, the answer is for the members with the most collateral access. For a sample, counts of traces are
/// estimates for the whole window, and counts of values are those of the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct CollateralAnswer {
    /// Name of the field, as requested.
    pub by: String,
    /// Time window.
    pub window: Window,
    /// The set of traces that was counted.
    pub counted_traces: CountedTraces,
    /// Share of the traces that was read: 1 if the counts are exact. If several statements read different shares, the
    /// smallest.
    pub fraction: f64,
    /// Number of enabled users who have the role.
    pub members: u64,
    /// Number of these members for whom collateral access was counted.
    pub members_counted: u64,
    /// Number of members to whom the answer applies: the policies require the same for all of them.
    pub members_reported: u64,
    /// Number of counted members with any collateral access.
    pub members_with_collateral: u64,
    /// Number of traces to which the policies grant access.
    pub traces: u64,
    /// Number of distinct values in these traces.
    pub distinct: u64,
    /// Number of these values that no span has that satisfies a policy.
    pub only_shared: u64,
    /// Most frequent values by trace; only from traces that the caller may read.
    pub values: Vec<SharedValue>,
    /// Number of distinct values that are not listed.
    pub hidden_values: u64,
    /// Cost of the statements.
    pub cost: Cost,
    /// Notes on omitted results and their reasons, for the user.
    pub notes: Vec<String>,
}

struct Plan {
    before: ModelSide,
    after: ModelSide,
    window: Window,
    by: CollateralGroupBy,
}

impl Analysis {
    /// Counts the collateral access of a role's members.
    ///
    /// # Errors
    /// Those of [`Self::preview_policies`]; `unknown_field` for the field to count by.
    pub async fn collateral_access(
        &self,
        admin: &Administrator<'_>,
        request: CollateralRequest,
    ) -> Result<CollateralAnswer, ServiceError> {
        let role = request.role.as_str();
        let checked = match &request.policies {
            Some(policies) => check_role_input(role, policies),
            None => validate::lookup_name(role, "role").map(drop),
        };
        let checked = checked.and_then(|()| timeout(request.seconds));
        let timeout = self.core.audit_denial(admin, POLICY_COLLATERAL_ACCESS, Some(role), checked).await?;
        let prepare = || self.prepare_collateral_access(admin, &request).boxed();
        let (access, plan, mut open_audit_record) =
            self.core.begin_read(admin, POLICY_COLLATERAL_ACCESS, Some(role), prepare).await?;
        let Plan { before, after, window, by } = plan;
        let query_context = self.core.query_context(&access, Some(window), &[]);
        let change = Change { before: &before, after: &after, role: Some(role), window };
        let deadline = Instant::now() + timeout;
        let counted = async {
            let mut subjects = self.subjects(&change, deadline).await?;
            let mut notes = Vec::new();
            subjects.append_notes(&mut notes);
            loop {
                match self.count_collateral_access(&access, window, &subjects, &by, deadline).await {
                    // Users whose access depends on a changed field can read nothing; count again without their access.
                    Err(Failure::Store(ClickHouseError::FieldsChanged(changed)))
                        if subjects.remove_access(&changed) => {}
                    collateral_answer => {
                        let mut answer = collateral_answer?;
                        subjects.append_changed_notes(&mut notes);
                        notes.append(&mut answer.notes);
                        return Ok::<_, Failure>(CollateralAnswer { notes, ..answer });
                    }
                }
            }
        };
        match counted.await {
            Ok(answer) => {
                open_audit_record.complete(Outcome::Success, None).await?;
                Ok(answer)
            }
            Err(failure) => {
                Err(open_audit_record.fail(failure.into_error_for_chosen_timeout(&query_context)).await)
            }
        }
    }

    async fn prepare_collateral_access(
        &self,
        admin: &Administrator<'_>,
        request: &CollateralRequest,
    ) -> Result<PreparedRead<Plan>, ServiceError> {
        let window = query_input::first_window(request.from, request.to, self.core.now())?;
        let mut tx = self.core.db.begin_read().await?;
        let authority = self.core.admin_authority(&mut tx, admin).await?;
        let stored = tx.role(&request.role).await?;
        let roles = tx.roles().await?;
        drop(tx);
        let access = self.core.access_even_if_broken(authority).await?;
        let model = access.authority.model.clone();
        let policies = match (&request.policies, stored) {
            (Some(policies), _) => {
                let (policies, model) = (policies.clone(), model.clone());
                let checks =
                    self.core.permits.analysis.run(move || CheckedPolicies::new(policies, model)).await?;
                checks.checked?;
                checks.policies
            }
            (None, Some(role)) => role.policies,
            (None, None) => return Err(ServiceError::NotFound { what: "role" }),
        };
        let by = match &request.by {
            Some(by) => parse_group_by(by, &model, &access.binding)?,
            None => CollateralGroupBy::default_for(&access.binding).ok_or_else(|| {
                let detail = "no service column is bound; set `by` to the field to count by";
                ServiceError::Refused(vec![FieldError::new("/by", "invalid_value", detail)])
            })?,
        };
        let detail = json!({
            "from": window.from().to_string(),
            "to": window.to().to_string(),
            "policies": policies_detail(&policies),
            "by": by.name(),
        });
        let detail = with_decision_inputs(&access, &detail);
        let roles = roles.into_iter().map(|role| (role.name, role.policies)).collect();
        let before = ModelSide { roles, model };
        let mut after = before.clone();
        check_case_conflict(&request.role, before.roles.keys())?;
        after.roles.insert(request.role.clone(), policies);
        Ok(PreparedRead { access, plan: Plan { before, after, window, by }, detail })
    }

    /// Counts the collateral access by the role's policies after a change; the caller has recorded the request.
    pub(crate) async fn count_collateral_access(
        &self,
        access: &Access,
        window: Window,
        subjects: &Subjects,
        by: &CollateralGroupBy,
        deadline: Instant,
    ) -> Result<CollateralAnswer, Failure> {
        let permit = timeout_at(deadline, self.core.permits.previews.wait()).await;
        let _permit =
            permit.map_err(|_| ClickHouseError::Timeout("other previews were running".to_owned()))?;
        let (mut groups, mut fraction, mut cost) = (MemberGroups::of(subjects), 1.0_f64, Cost::default());
        let batches = groups.batches();
        for (at, batch) in batches.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = u32::try_from(batches.len() - at).unwrap_or(u32::MAX).clamp(1, 2);
            let request = ImpactRequest {
                binding: &access.binding,
                predicates: &batch.predicates,
                comparisons: &[],
                collateral: Some(CollateralQuery {
                    predicate_sets: &batch.predicate_sets,
                    by: by.grouping(),
                    limit: MAX_COLLATERAL_VALUES,
                }),
                window,
                readable: &access.scope,
                only_readable: self.counted_traces() == CountedTraces::Readable,
                referenced_fields: &subjects.referenced_fields,
                samples: 0,
                timeout: left / share,
            };
            let found = match timeout_at(deadline, access.store.impact(request)).await {
                Ok(Ok(found)) => found,
                // The counts so far are used; a note gives the number of members without counts.
                Ok(Err(ClickHouseError::Timeout(_) | ClickHouseError::Memory(_))) | Err(_) if at > 0 => break,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => {
                    return Err(
                        ClickHouseError::Timeout("timed out before anything was counted".to_owned()).into()
                    );
                }
            };
            fraction = fraction.min(found.fraction);
            cost = add_costs(cost, found.cost);
            groups.add_results(found.collateral_values, found.fraction);
        }
        self.collateral_answer(groups, subjects.members(), window, by, fraction, cost).map_err(Failure::from)
    }

    /// Builds the answer from the counts of groups with this many members in total.
    ///
    /// # Errors
    /// When nothing was counted.
    pub(crate) fn collateral_answer(
        &self,
        mut groups: MemberGroups,
        members: u64,
        window: Window,
        by: &CollateralGroupBy,
        fraction: f64,
        cost: Cost,
    ) -> Result<CollateralAnswer, ClickHouseError> {
        let nothing = || ClickHouseError::IncompleteResponse("nothing was counted".to_owned());
        let highest = groups.highest().ok_or_else(nothing)?;
        let mut notes = Vec::new();
        groups.append_notes(&highest, members, &mut notes);
        let scale = |traces: u64| estimate(traces, highest.fraction);
        let values = highest.collateral.values.into_iter().map(|value| SharedValue {
            traces: scale(value.traces),
            matching_traces: scale(value.matching_traces),
            ..value
        });
        let answer = CollateralAnswer {
            by: by.name(),
            window,
            counted_traces: self.counted_traces(),
            fraction,
            members,
            members_counted: groups.counted,
            members_reported: highest.members,
            members_with_collateral: groups.collateral,
            traces: scale(highest.collateral.traces),
            distinct: highest.collateral.distinct,
            only_shared: highest.collateral.only_shared,
            values: values.collect(),
            hidden_values: highest.collateral.hidden_values,
            cost,
            notes,
        };
        Ok(answer)
    }
}
