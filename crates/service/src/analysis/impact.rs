//! Impact of a change of roles, before it is made: traces gained, lost and unchanged, for the role and for each user who
//! holds it.
//!
//! The service compares two results of the same query, before and after; it evaluates each user's whole access, as a read
//! would. The comparison does not grant access to spans: it returns counts, and ids only of traces that the caller's own
//! policies grant. Counts of other users' traces are for administrators only, are recorded in the audit log before ClickHouse
//! is queried, and can be switched off together with the samples of discovery, like policy advice.

mod answer;
mod comparison_batches;
mod preview;

use serde_json::json;
use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_clickhouse::{
    ClickHouseError, CollateralGrouping, CollateralQuery, Difference, Impact, ImpactRequest,
};

use crate::analysis::Analysis;
use crate::analysis::change::Change;
use crate::analysis::collateral_access::MAX_COLLATERAL_VALUES;
use crate::analysis::collateral_access::groups::MemberGroups;
use crate::analysis::counted_traces::{Counted, CountedTraces};
use crate::analysis::estimate::{estimate, sample_note};
use crate::analysis::subjects::Subjects;
use crate::core::{Access, Administrator, Outcome, PreparedRead, Result};

use comparison_batches::{Batch, batches};

pub use answer::{ImpactAnswer, UserImpact};
pub use preview::{PolicyPreview, SearchCosts};

/// Maximum number of trace ids in each list.
const SAMPLES: u32 = 10;
/// Maximum number of comparisons with which one statement also counts collateral access: ClickHouse keeps counts by value for
/// each comparison.
const MAX_COMPARISONS_WITH_COLLATERAL: usize = 16;
/// Share of the available time for a statement that counts both.
const COLLATERAL_TIME_SHARE: f64 = 0.7;
/// Share of the available time for each statement but the first and the last.
const INTERMEDIATE_TIME_SHARE: f64 = 0.7;
/// Share of it for the first and the last one. The tables are read first, and `deadline` ends the statement without its results.
const LAST_TIME_SHARE: f64 = 0.95;
/// Maximum number of users that are listed.
const USERS_LISTED: usize = 200;

impl Analysis {
    /// Computes the impact of a change of the access model on every user whose access it may affect. Recorded before
    /// ClickHouse is queried, with `descriptions` of its parts. `timeout` is for the whole evaluation.
    ///
    /// # Errors
    /// Those of [`Traces::begin_query`](crate::Traces::begin_query); a broken policy of the administrator's own only hides ids
    /// from them.
    pub(crate) async fn compute_impact(
        &self,
        admin: &Administrator<'_>,
        change: &Change<'_>,
        descriptions: Vec<&str>,
        timeout: Duration,
    ) -> Result<ImpactAnswer> {
        let prepare = || async {
            let mut tx = self.core.db.begin_read().await?;
            let authority = self.core.admin_authority(&mut tx, admin).await?;
            drop(tx);
            let access = self.core.access_even_if_broken(authority).await?;
            let detail = access.detail([("changes", json!(descriptions))]);
            Ok(PreparedRead { access, plan: (), detail })
        };
        let (access, (), mut record) = self.core.begin_read(admin, "model.plan", None, prepare).await?;
        record.set_query_with_timeout(&access, change.window);
        let deadline = Instant::now() + timeout;
        let compared = async {
            let mut subjects = self.subjects(change, deadline).await?;
            self.impact_within(&access, change, &mut subjects, deadline, None).await
        };
        let impact = record.check(compared.await).await?;
        record.complete(Outcome::Success, None).await?;
        Ok(impact)
    }

    /// Runs the comparison; the caller has recorded the request.
    async fn impact_within(
        &self,
        access: &Access,
        change: &Change<'_>,
        subjects: &mut Subjects,
        deadline: Instant,
        mut collateral_count: Option<&mut CollateralCount<'_>>,
    ) -> Result<ImpactAnswer> {
        let mut answer = ImpactAnswer {
            counted: Counted::new(change.window, self.counted_traces()),
            traces: change.role.map(|_| Difference::default()),
            members: 0,
            members_compared: 0,
            users: Vec::new(),
        };
        if change.replaces_table() {
            answer.traces = None;
            answer.note("another table would be bound, so gained and lost traces are not counted");
            return Ok(answer);
        }
        if change.binding_after().is_some() && answer.counted.counted_traces == CountedTraces::Readable {
            answer.note(
                "only traces that you may read with the current binding are counted; traces that only the new \
                 binding reads are missing",
            );
        }
        answer.members = subjects.members;
        subjects.append_notes(&mut answer.counted.notes);
        let mut collateral_error = None;
        let comparison = async {
            let _permit = self.preview_permit(deadline).await?;
            loop {
                let collateral_count_now = collateral_count.as_deref_mut();
                let compared =
                    self.compare(access, change, subjects, deadline, collateral_count_now, &mut answer);
                match compared.await {
                    // Users whose access depends on a changed field can read nothing; compare again without their access.
                    Err(ClickHouseError::FieldsChanged(changed)) if subjects.remove_access(&changed) => {}
                    // The column of the collateral counts may be missing; the comparison can still be made.
                    Err(
                        error @ (ClickHouseError::UnknownColumn { .. }
                        | ClickHouseError::FieldsChanged(_)
                        | ClickHouseError::TableChanged(_)
                        | ClickHouseError::Exception { .. }),
                    ) if collateral_count.take().is_some() => {
                        tracing::info!(%error, "collateral access is counted separately from the comparison");
                        collateral_error = Some(error);
                    }
                    // The error of the collateral count is the cause, not that no time was left afterwards.
                    Err(ClickHouseError::Timeout(_)) if collateral_error.is_some() => {
                        return collateral_error.take().map_or(Ok(()), Err);
                    }
                    comparison => return comparison,
                }
            }
        };
        comparison.await?;
        answer.counted.sampled = answer.counted.fraction < 1.0;
        subjects.append_changed_notes(&mut answer.counted.notes);
        answer.users.sort_by(|one, other| one.rank().cmp(&other.rank()));
        if answer.users.len() > USERS_LISTED {
            answer.note(format!("{} more users are not listed", answer.users.len() - USERS_LISTED));
            answer.users.truncate(USERS_LISTED);
        }
        Ok(answer)
    }

    /// Queries ClickHouse for some users at a time, until all are compared or the time is over.
    async fn compare(
        &self,
        access: &Access,
        change: &Change<'_>,
        subjects: &Subjects,
        deadline: Instant,
        mut collateral_count: Option<&mut CollateralCount<'_>>,
        answer: &mut ImpactAnswer,
    ) -> Result<(), ClickHouseError> {
        (answer.users, answer.members_compared, answer.counted.fraction) = (Vec::new(), 0, 1.0);
        let mut sampled = None;
        let store = access.store.metered();
        let batches: Vec<Batch<'_>> = batches(subjects, answer.traces.is_some());
        let batch_count = batches.len();
        let has_role = batches.iter().any(|batch| batch.role.is_some());
        if let Some(collateral_count) = &mut collateral_count {
            collateral_count.counted = None;
        }
        for (at, batch) in batches.into_iter().enumerate() {
            // A second read of the spans to count collateral access would double the time.
            let is_one = batch_count == 1 && batch.comparisons.len() <= MAX_COMPARISONS_WITH_COLLATERAL;
            let mut combined =
                collateral_count.as_deref_mut().filter(|_| is_one).and_then(|collateral_count| {
                    let groups = MemberGroups::of(subjects);
                    let predicate_sets =
                        groups.to_predicate_sets(|predicate| batch.predicates.get_index_of(predicate))?;
                    Some((collateral_count, groups, predicate_sets))
                });
            let collateral = combined.as_ref().map(|(collateral_count, _, predicate_sets)| CollateralQuery {
                predicate_sets,
                by: collateral_count.by,
                limit: MAX_COLLATERAL_VALUES,
            });
            let deadline =
                combined.as_ref().map_or(deadline, |(collateral_count, ..)| collateral_count.deadline);
            let left = deadline.saturating_duration_since(Instant::now());
            let is_last = at.saturating_add(1) == batch_count;
            let predicates: Vec<_> = batch.predicates.iter().cloned().collect();
            let comparisons: Vec<_> = batch.comparisons.iter().cloned().collect();
            let request = ImpactRequest {
                binding: &access.binding,
                binding_after: change.binding_after(),
                predicates: &predicates,
                comparisons: &comparisons,
                collateral,
                window: change.window,
                readable: &access.scope,
                only_readable: answer.counted.counted_traces == CountedTraces::Readable,
                referenced_fields: &subjects.referenced_fields,
                samples: SAMPLES,
                timeout: match (collateral.is_some(), is_last) {
                    (true, _) => left.mul_f64(COLLATERAL_TIME_SHARE),
                    // Without the first batch, there is no answer.
                    (false, _) if is_last || at == 0 => left.mul_f64(LAST_TIME_SHARE),
                    (false, _) => left.mul_f64(INTERMEDIATE_TIME_SHARE),
                },
            };
            let mut found = timeout_at(deadline, store.impact(request)).await;
            let shared = match &mut found {
                Ok(Ok(impact)) => Some((std::mem::take(&mut impact.collateral_values), impact.fraction)),
                _ => None,
            };
            // Counting collateral access may exceed the limits; the comparison alone takes less.
            let is_limited = match &found {
                Ok(Ok(impact)) => impact.fraction < 1.0,
                Ok(Err(error)) => error.is_over_limit(),
                Err(_) => false,
            };
            if collateral.is_some() && is_limited {
                let timeout = deadline.saturating_duration_since(Instant::now());
                let alone = ImpactRequest { collateral: None, timeout, ..request };
                let alone = timeout_at(deadline, store.impact(alone)).await;
                let fraction = |found: &Result<Result<Impact, ClickHouseError>, _>| match found {
                    Ok(Ok(impact)) => impact.fraction,
                    _ => 0.0,
                };
                if fraction(&alone) > fraction(&found) {
                    found = alone;
                }
            }
            let impact = match found {
                Ok(Ok(impact)) => impact,
                Ok(Err(ClickHouseError::Timeout(_) | ClickHouseError::Memory(_))) | Err(_) if at > 0 => {
                    let left_out = subjects.compared().saturating_sub(answer.members_compared);
                    answer.note(format!("timed out before {left_out} of the users were compared"));
                    break;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let detail = "timed out before anything was compared".to_owned();
                    return Err(ClickHouseError::Timeout(detail));
                }
            };
            if impact.fraction < answer.counted.fraction {
                answer.counted.fraction = impact.fraction;
                sampled = Some(impact.traces);
            }
            if let (Some((collateral_count, mut groups, _)), Some((shared, fraction))) =
                (combined.take(), shared)
            {
                groups.add_results(shared, fraction);
                collateral_count.counted = Some((groups, fraction));
            }
            let change_at = |index: usize| {
                impact.compared.get(index).map(|found| scale_difference(found, impact.fraction))
            };
            if let (Some(index), Some(traces)) = (batch.role, &mut answer.traces) {
                *traces = change_at(index).unwrap_or_default();
            }
            for (subject, index) in &batch.subjects {
                let change = change_at(*index).unwrap_or_default();
                answer.users.push(UserImpact { username: subject.username.clone(), change });
            }
            answer.members_compared += batch.subjects.len() as u64;
        }
        if !has_role && answer.traces.take().is_some() {
            answer.note(
                "the traces that the role grants in isolation are not counted: its members have too many \
                 policies for one query",
            );
        }
        if let Some(traces) = sampled {
            answer.note(sample_note(traces, answer.counted.fraction));
        }
        answer.counted.cost = answer.counted.cost.plus(store.cost());
        Ok(())
    }
}

/// Collateral access by the role's policies after the change, if the statement that compares can also count it.
struct CollateralCount<'a> {
    by: &'a CollateralGrouping,
    /// Deadline for both.
    deadline: Instant,
    /// The counts and the share of the traces that they cover; `None` if they were not made.
    counted: Option<(MemberGroups, f64)>,
}

fn scale_difference(found: &Difference, fraction: f64) -> Difference {
    Difference {
        gained: estimate(found.gained, fraction),
        lost: estimate(found.lost, fraction),
        unchanged: estimate(found.unchanged, fraction),
        ..found.clone()
    }
}
