//! Users who can see one trace, and the policies that grant it. For administrators; the answer reveals nothing of the trace's
//! content.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_appdb::{Role, User};
use tracewarden_clickhouse::{ChangedField, ClickHouseError, MatchingSpans};
use tracewarden_model::TraceIdNotations;
use tracewarden_policy::{AppliedPolicy, BrokenPolicy, PolicySource};
use utoipa::ToSchema;

use crate::ExplainVerdict;
use crate::analysis::Analysis;
use crate::core::{
    Access, Administrator, Outcome, PreparedRead, Result, TRACES_EXPLAIN, UserBatches, attribute_bytes,
    take_batch,
};
use crate::policies::{Block, PolicyInputs, PolicyMatches, UserPolicies, match_policies};
use crate::traces::trace_not_found;

/// Maximum number of users who are evaluated.
const USERS_MAX: usize = 10_000;
/// Maximum number of users whose policies are evaluated together.
const BATCH_USERS: usize = 200;
/// Maximum size of the cached results for policies that depend on their user, in predicate nodes as written; above it, the
/// cache is cleared.
const CACHE_MAX_SIZE: u64 = 200_000;
/// Time-out for the whole evaluation.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A policy that grants a user access to a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpeningPolicy)]
pub struct GrantingPolicy {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
}

/// A user who can read the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Viewer {
    /// User name.
    pub username: String,
    /// Every policy that grants the user access.
    pub policies: Vec<GrantingPolicy>,
}

/// A user who can read no trace because a policy cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BrokenAccess)]
pub struct PolicyFailure {
    /// User name.
    pub username: String,
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// Why the policy cannot be applied.
    #[schema(examples("references a field that is no longer usable in policies"))]
    pub reason: &'static str,
}

/// The users who can read a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TraceViewers)]
pub struct Viewers {
    /// The trace.
    pub trace_id: String,
    /// Number of spans in the trace.
    pub spans: u64,
    /// Whether the caller may read the trace.
    pub details: bool,
    /// The users who can read the trace, by name.
    pub viewers: Vec<Viewer>,
    /// Number of users who were evaluated.
    pub users: u64,
    /// Number of users who are not disabled; larger than `users` if there are more than 10,000, or if time ran out.
    pub total_users: u64,
    /// Users who can read no trace because of a policy, by name.
    pub broken: Vec<PolicyFailure>,
    /// Users who have a policy that grants access, but can read nothing until they change the password, by name.
    pub must_change_password: Vec<String>,
    /// Users who have a policy that grants access, but whose sessions and API keys are rejected while access is suspended, by name.
    pub suspended: Vec<String>,
    /// Whether users, roles or the access model changed during the evaluation: parts of the response may be from before a change
    /// and others from after it.
    pub changed_meanwhile: bool,
}

struct Plan {
    total_users: u64,
    roles: HashMap<String, Role>,
    /// Last audit record that the snapshot of roles and model includes.
    seen: u64,
}

impl Analysis {
    /// Returns the users who can see a trace, of all enabled ones.
    ///
    /// # Errors
    /// `ServiceError::TraceNotFound` when the trace is absent, or the administrator may not read it and the operator has
    /// disabled counts of such traces; and those of [`Traces::begin_query`](crate::Traces::begin_query).
    pub async fn viewers(&self, admin: &Administrator<'_>, trace_id: &str) -> Result<Viewers> {
        let (started, target) = (Instant::now(), TraceIdNotations::recorded(trace_id));
        let prepare = || async {
            let mut tx = self.core.db.begin_read().await?;
            let authority = self.core.admin_authority(&mut tx, admin).await?;
            let roles = tx.roles().await?;
            let roles = roles.into_iter().map(|role| (role.name.clone(), role)).collect();
            let total_users = tx.enabled_users(None).await?;
            let (seen, _) = tx.audit_head().await?;
            drop(tx);
            let access = self.core.access_even_if_broken(authority).await?;
            let detail = access.detail([("explained", json!({ "viewers": total_users }))]);
            Ok(PreparedRead { access, plan: Plan { total_users, roles, seen }, detail })
        };
        let (access, plan, mut record) =
            self.core.begin_read(admin, TRACES_EXPLAIN, Some(&target), prepare).await?;
        let selection = record.check(access.find(trace_id).await).await?;
        let found = selection.as_ref().and_then(|selection| selection.trace_ids().next());
        let viewers = if found.is_some() || self.core.settings.discovery_samples {
            let trace_id = found.unwrap_or(trace_id);
            record.check(self.evaluate_users(&access, trace_id, plan, found.is_some()).await).await?
        } else {
            None
        };
        let Some(viewers) = viewers else { return Err(trace_not_found(record, started).await) };
        record.set_found_trace(&viewers.trace_id);
        record.complete(Outcome::Success, None).await?;
        Ok(viewers)
    }

    /// Evaluates some users at a time, until the time is over. `None` if there is no such trace.
    async fn evaluate_users(
        &self,
        access: &Access,
        trace_id: &str,
        plan: Plan,
        details: bool,
    ) -> Result<Option<Viewers>> {
        let deadline = Instant::now() + TIMEOUT;
        let Plan { total_users, roles, seen: record } = plan;
        let roles = Arc::new(roles);
        let trace_id = trace_id.to_owned();
        let mut seen = Viewers { trace_id, details, total_users, ..Viewers::default() };
        let mut user_batches = UserBatches::new(None, USERS_MAX);
        let mut cached = PolicyCache::default();
        // The existence of the trace is checked even if there are no users.
        let mut first = true;
        'all: while first || Instant::now() < deadline {
            let batch = user_batches.next(&self.core.db).await?;
            if batch.is_none() && !first {
                break;
            }
            let mut left = batch.unwrap_or_default();
            while first || !left.is_empty() {
                let policies = |role: &String| roles.get(role).map_or(0, |role| role.policies.len());
                let some = take_batch(&mut left, BATCH_USERS, |user| {
                    attribute_bytes(&user.attributes).saturating_mul(user.roles.iter().map(policies).sum())
                });
                match self.evaluate_batch(access, some, &roles, &mut cached, &mut seen, deadline).await? {
                    BatchOutcome::Evaluated => {}
                    BatchOutcome::TraceNotFound => return Ok(None),
                    BatchOutcome::TimedOut if first => {
                        let detail = "timed out before any user was evaluated".to_owned();
                        return Err(ClickHouseError::Timeout(detail).into());
                    }
                    BatchOutcome::TimedOut => break 'all,
                }
                first = false;
            }
        }
        seen.changed_meanwhile = self.core.db.begin_read().await?.access_changed_since(record).await?;
        Ok(Some(seen))
    }

    /// Evaluates these users, and adds the results to `seen`.
    async fn evaluate_batch(
        &self,
        access: &Access,
        users: Vec<User>,
        roles: &Arc<HashMap<String, Role>>,
        cached: &mut PolicyCache,
        seen: &mut Viewers,
        deadline: Instant,
    ) -> Result<BatchOutcome> {
        let first = seen.users == 0 && cached.results.is_empty();
        let (roles, model, compiled) =
            (Arc::clone(roles), access.authority.model.clone(), Arc::clone(&self.core.compiled));
        let blocks: Vec<Option<Block>> = users.iter().map(|user| Block::of(user, &self.core)).collect();
        let work = move || {
            let apply = |(user, block): (User, Option<Block>)| {
                let user_roles = user.roles.iter().filter_map(|name| roles.get(name)).cloned().collect();
                UserPolicies::new(PolicyInputs::user(&user, block, user_roles, model.clone()), &compiled)
            };
            users.into_iter().zip(blocks).map(apply).collect::<Vec<UserPolicies>>()
        };
        let Ok(applied) = timeout_at(deadline, self.core.permits.analysis.run(work)).await else {
            return Ok(BatchOutcome::TimedOut);
        };
        let applied = applied?;
        let new = cached.missing(&applied);
        if first || !new.is_empty() {
            let uncached: Vec<Result<AppliedPolicy, BrokenPolicy>> = new.iter().cloned().map(Ok).collect();
            let uncached: Vec<_> = uncached.iter().collect();
            let Ok(found) =
                timeout_at(deadline, match_policies(access, None, &seen.trace_id, &uncached)).await
            else {
                return Ok(BatchOutcome::TimedOut);
            };
            let Some(found) = found? else { return Ok(BatchOutcome::TraceNotFound) };
            seen.trace_id.clone_from(&found.trace_id);
            seen.spans = seen.spans.max(found.spans);
            cached.insert(new, found);
        }
        for applied in &applied {
            seen.users += 1;
            cached.add_user(applied, seen);
        }
        cached.clear_if_large();
        Ok(BatchOutcome::Evaluated)
    }
}

enum BatchOutcome {
    Evaluated,
    TraceNotFound,
    TimedOut,
}

/// Cached results of policies: most users share most of them.
#[derive(Default)]
struct PolicyCache {
    results: HashMap<AppliedPolicy, Option<MatchingSpans>>,
    changed: Vec<ChangedField>,
    /// Size of the cached policies, in predicate nodes as written.
    size: u64,
}

impl PolicyCache {
    /// Returns the distinct policies that have no cached result.
    fn missing(&self, applied: &[UserPolicies]) -> Vec<AppliedPolicy> {
        let policies = applied.iter().flat_map(UserPolicies::all).filter_map(|policy| policy.as_ref().ok());
        let missing: HashSet<&AppliedPolicy> =
            policies.filter(|policy| !self.results.contains_key(*policy)).collect();
        missing.into_iter().cloned().collect()
    }

    fn insert(&mut self, uncached: Vec<AppliedPolicy>, found: PolicyMatches) {
        self.changed.extend(found.changed);
        for (policy, found) in uncached.into_iter().zip(found.results) {
            self.size = self.size.saturating_add(policy.predicate.size());
            self.results.insert(policy, found);
        }
    }

    /// Clears the cache when it contains many policies with their users' attributes; they are evaluated again for another
    /// user with the same policies.
    fn clear_if_large(&mut self) {
        if self.size > CACHE_MAX_SIZE {
            self.results.clear();
            self.size = 0;
        }
    }

    /// Decides about one user as a read does.
    fn add_user(&self, applied: &UserPolicies, seen: &mut Viewers) {
        let results: Vec<_> =
            applied.all().map(|policy| self.results.get(policy.as_ref().ok()?).cloned().flatten()).collect();
        let (trace_id, changed) = (seen.trace_id.clone(), self.changed.clone());
        let found = PolicyMatches { trace_id, spans: seen.spans, results, changed };
        let decision = applied.decide(&found);
        let username = applied.inputs.caller.username.clone();
        match (decision.verdict, decision.source) {
            (ExplainVerdict::Granted, _) => {
                let granting = applied
                    .inputs
                    .stored_policies()
                    .zip(&found.results)
                    .filter(|(_, found)| found.as_ref().is_some_and(|found| found.spans > 0));
                let policies = granting.map(|((role, policy), _)| GrantingPolicy {
                    role: role.name.clone(),
                    title: policy.title.clone(),
                });
                seen.viewers.push(Viewer { username, policies: policies.collect() });
            }
            (ExplainVerdict::Broken, Some(PolicySource::Role { role, title })) => {
                let reason = decision.reason.unwrap_or("cannot be applied");
                seen.broken.push(PolicyFailure { username, role, title, reason });
            }
            (verdict @ (ExplainVerdict::PasswordChangeRequired | ExplainVerdict::Suspended), _)
                if applied.decide_by_policies(&found).verdict == ExplainVerdict::Granted =>
            {
                let is_suspended = verdict == ExplainVerdict::Suspended;
                let list = if is_suspended { &mut seen.suspended } else { &mut seen.must_change_password };
                list.push(username);
            }
            _ => {}
        }
    }
}
