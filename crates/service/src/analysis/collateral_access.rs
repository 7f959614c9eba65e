//! Collateral access: spans that users with a role see beyond those that its policies name. A span that satisfies a policy
//! grants access to its whole trace, including the spans of other services. The amount is measured by the values of one
//! field, usually the service name. It is counted for each member separately, and reported for the members with the most
//! collateral access.
//!
//! Like the preview of a change, this counts data that the caller may not read; see `impact.rs` for what the answer may
//! contain.

pub(super) mod group_by;
pub(super) mod groups;

use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use tracewarden_clickhouse::{
    ClickHouseError, CollateralGrouping, CollateralQuery, Cost, ImpactRequest, SharedValue,
};
use tracewarden_model::Window;
use utoipa::ToSchema;

use crate::access::check_role_input;
use crate::analysis::change::Change;
use crate::analysis::collateral_access::groups::MemberGroups;
use crate::analysis::counted_traces::{Counted, CountedTraces};
use crate::analysis::estimate::estimate;
use crate::analysis::role_change::PolicyPreviewRequest;
use crate::analysis::subjects::Subjects;
use crate::analysis::{Analysis, timeout};
use crate::core::{Access, Administrator, Outcome, PreparedRead, Result, ServiceError, validate};

const POLICY_COLLATERAL_ACCESS: &str = "policy.collateral_access";
pub(crate) const MAX_COLLATERAL_VALUES: u32 = 100;

/// A value that becomes visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SharedValue)]
pub struct CollateralValue {
    /// The value, or an element of an array.
    pub value: String,
    /// Number of traces that the policies grant access to and that have a span with this value.
    pub traces: u64,
    /// Number of these traces in which a span with this value is a matching span.
    pub matching_traces: u64,
    /// Whether `matching_traces` is 0: the value is visible only because access is to whole traces.
    pub only_shared: bool,
}

/// Collateral access: values that policies make visible without naming them, because a matching span grants access to its whole
/// trace.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = CollateralAccess)]
pub struct CollateralAnswer {
    /// The traces that were counted.
    #[serde(flatten)]
    pub counted: Counted,
    /// The field.
    #[schema(examples("ServiceName"))]
    pub by: String,
    /// Number of users who have the role and are not disabled. If there are none, the counts are for a hypothetical user with
    /// this role only and no attributes.
    pub members: u64,
    /// Number of members who were evaluated, each with their own attributes; if not all, `notes` give the reason.
    pub members_counted: u64,
    /// Number of members to whom the counts and values apply: those members with the same effective policies who have the most
    /// values that are visible by collateral access only.
    pub members_listed: u64,
    /// Number of evaluated members who have any value that is visible by collateral access only; for a sample, as far as the
    /// sample shows it.
    pub members_with_collateral_access: u64,
    /// Number of traces that the policies grant access to.
    pub traces: u64,
    /// Number of different values in these traces.
    pub distinct: u64,
    /// Number of these values that no matching span has, including hidden ones.
    pub only_shared: u64,
    /// Values of traces that the caller may read, at most 100; the values that most traces have come first.
    pub values: Vec<CollateralValue>,
    /// Number of different values that are not listed: the caller may read no trace with them, or no filter could use them.
    pub hidden_values: u64,
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
    ) -> Result<CollateralAnswer> {
        let started = Instant::now();
        let role = request.role.as_str();
        let checked = match &request.policies {
            Some(policies) => check_role_input(role, policies),
            None => validate::lookup_name(role, "role").map(drop),
        };
        let checked = checked.and_then(|()| timeout(request.seconds));
        let timeout = self.core.audit_denial(admin, POLICY_COLLATERAL_ACCESS, Some(role), checked).await?;
        let prepare = || async {
            let prepared = self.prepare_role_change(admin, &request, false).await?;
            let PreparedRead { access, plan, detail } = prepared;
            let no_column = "no service column is bound; set `by` to the field to count by";
            let by = plan.by.clone().ok_or_else(|| ServiceError::invalid("/by", no_column))?;
            Ok(PreparedRead { access, plan: (plan, by), detail })
        };
        let (access, (plan, by), mut record) =
            self.core.begin_read(admin, POLICY_COLLATERAL_ACCESS, Some(role), prepare).await?;
        record.set_query_with_timeout(&access, plan.window);
        let answer = self.count_members(&access, &plan.change(role), &by, started + timeout).await;
        let answer = record.check(answer).await?;
        record.complete(Outcome::Success, None).await?;
        Ok(answer)
    }

    async fn count_members(
        &self,
        access: &Access,
        change: &Change<'_>,
        by: &CollateralGrouping,
        deadline: Instant,
    ) -> Result<CollateralAnswer> {
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
                    notes.append(&mut answer.counted.notes);
                    answer.counted.notes = notes;
                    return Ok(answer);
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
        by: &CollateralGrouping,
        deadline: Instant,
    ) -> Result<CollateralAnswer> {
        let _permit = self.preview_permit(deadline).await?;
        let (mut groups, mut fraction, mut cost) = (MemberGroups::of(subjects), 1.0_f64, Cost::default());
        let batches = groups.batches();
        for (at, batch) in batches.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = u32::try_from(batches.len() - at).unwrap_or(u32::MAX).clamp(1, 2);
            let request = ImpactRequest {
                binding: &access.binding,
                binding_after: None,
                predicates: &batch.predicates,
                comparisons: &[],
                collateral: Some(CollateralQuery {
                    predicate_sets: &batch.predicate_sets,
                    by,
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
            cost = cost.plus(found.cost);
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
        by: &CollateralGrouping,
        fraction: f64,
        cost: Cost,
    ) -> Result<CollateralAnswer, ClickHouseError> {
        let nothing = || ClickHouseError::IncompleteResponse("nothing was counted".to_owned());
        let highest = groups.highest.take().ok_or_else(nothing)?;
        let mut counted = Counted::new(window, self.counted_traces());
        (counted.sampled, counted.fraction, counted.cost) = (fraction < 1.0, fraction, cost);
        groups.append_notes(&highest, members, &mut counted.notes);
        let scale = |traces: u64| estimate(traces, highest.fraction);
        let value = |found: SharedValue| {
            let matching_traces = scale(found.matching_traces);
            CollateralValue {
                value: found.value,
                traces: scale(found.traces),
                matching_traces,
                only_shared: matching_traces == 0,
            }
        };
        Ok(CollateralAnswer {
            counted,
            by: by.name(),
            members,
            members_counted: groups.counted,
            members_listed: highest.members,
            members_with_collateral_access: groups.collateral,
            traces: scale(highest.collateral.traces),
            distinct: highest.collateral.distinct,
            only_shared: highest.collateral.only_shared,
            values: highest.collateral.values.into_iter().map(value).collect(),
            hidden_values: highest.collateral.hidden_values,
        })
    }
}
