//! Collateral access: spans that users with a role see beyond those that its policies name. A span that satisfies a policy
//! grants access to its whole trace, including the spans of other services. The amount is measured by the values of one
//! field, usually the service name. It is counted for each member separately, and reported for the members with the most
//! collateral access.
//!
//! Like the preview of a change, this counts data that the caller may not read; see `impact.rs` for what the answer may
//! contain.

pub(super) mod group_by;
pub(super) mod groups;

use futures::FutureExt as _;
use tokio::time::{Instant, timeout_at};
use tracewarden_clickhouse::{ClickHouseError, CollateralQuery, Cost, ImpactRequest, SharedValue};
use tracewarden_model::Window;

use crate::access::check_role_input;
use crate::analysis::change::Change;
use crate::analysis::collateral_access::group_by::CollateralGroupBy;
use crate::analysis::collateral_access::groups::MemberGroups;
use crate::analysis::counted_traces::CountedTraces;
use crate::analysis::estimate::{add_costs, estimate};
use crate::analysis::role_change::PolicyPreviewRequest;
use crate::analysis::subjects::Subjects;
use crate::analysis::{Analysis, timeout};
use crate::core::{Access, Administrator, Outcome, PreparedRead, ServiceError, validate};

const POLICY_COLLATERAL_ACCESS: &str = "policy.collateral_access";
pub(crate) const MAX_COLLATERAL_VALUES: u32 = 100;

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

impl Analysis {
    /// Counts the collateral access of a role's members.
    ///
    /// # Errors
    /// Those of [`Self::preview_policies`]; `unknown_field` for the field to count by.
    pub async fn collateral_access(
        &self,
        admin: &Administrator<'_>,
        request: PolicyPreviewRequest,
    ) -> Result<CollateralAnswer, ServiceError> {
        let role = request.role.as_str();
        let checked = match &request.policies {
            Some(policies) => check_role_input(role, policies),
            None => validate::lookup_name(role, "role").map(drop),
        };
        let checked = checked.and_then(|()| timeout(request.seconds));
        let timeout = self.core.audit_denial(admin, POLICY_COLLATERAL_ACCESS, Some(role), checked).await?;
        let prepare = || {
            let prepared = async {
                let prepared = self.prepare_role_change(admin, &request, false).await?;
                let PreparedRead { access, plan, detail } = prepared;
                let no_column = "no service column is bound; set `by` to the field to count by";
                let by = plan.by.clone();
                let by = by.ok_or_else(|| ServiceError::invalid("/by", no_column))?;
                Ok(PreparedRead { access, plan: (plan, by), detail })
            };
            prepared.boxed()
        };
        let (access, (plan, by), mut record) =
            self.core.begin_read(admin, POLICY_COLLATERAL_ACCESS, Some(role), prepare).await?;
        record.set_query_with_timeout(&access, plan.window);
        let answer = self.count_members(&access, &plan.change(role), &by, Instant::now() + timeout).await;
        let answer = record.check(answer).await?;
        record.complete(Outcome::Success, None).await?;
        Ok(answer)
    }

    async fn count_members(
        &self,
        access: &Access,
        change: &Change<'_>,
        by: &CollateralGroupBy,
        deadline: Instant,
    ) -> Result<CollateralAnswer, ServiceError> {
        let mut subjects = self.subjects(change, deadline).await?;
        let mut notes = Vec::new();
        subjects.append_notes(&mut notes);
        loop {
            match self.count_collateral_access(access, change.window, &subjects, by, deadline).await {
                // Users whose access depends on a changed field can read nothing; count again without their access.
                Err(ServiceError::SchemaChanged {
                    source: ClickHouseError::FieldsChanged(changed), ..
                }) if subjects.remove_access(&changed) => {}
                collateral_answer => {
                    let mut answer = collateral_answer?;
                    subjects.append_changed_notes(&mut notes);
                    notes.append(&mut answer.notes);
                    return Ok(CollateralAnswer { notes, ..answer });
                }
            }
        }
    }

    /// Counts the collateral access by the role's policies after a change; the caller has recorded the request.
    pub(crate) async fn count_collateral_access(
        &self,
        access: &Access,
        window: Window,
        subjects: &Subjects,
        by: &CollateralGroupBy,
        deadline: Instant,
    ) -> Result<CollateralAnswer, ServiceError> {
        let _permit = self.preview_permit(deadline).await?;
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
                    let detail = "timed out before anything was counted".to_owned();
                    return Err(ClickHouseError::Timeout(detail).into());
                }
            };
            fraction = fraction.min(found.fraction);
            cost = add_costs(cost, found.cost);
            groups.add_results(found.collateral_values, found.fraction);
        }
        Ok(self.collateral_answer(groups, subjects.members, window, by, fraction, cost)?)
    }

    /// Builds the answer from the counts of groups with this many members in total.
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
        let highest = groups.highest.take().ok_or_else(nothing)?;
        let mut notes = Vec::new();
        groups.append_notes(&highest, members, &mut notes);
        let scale = |traces: u64| estimate(traces, highest.fraction);
        let values = highest.collateral.values.into_iter().map(|value| SharedValue {
            traces: scale(value.traces),
            matching_traces: scale(value.matching_traces),
            ..value
        });
        Ok(CollateralAnswer {
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
        })
    }
}
