//! Who can see one trace, and by which policies. For administrators; it tells nothing of what the trace holds.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_appdb::{Role, User};
use tracewarden_policy::{AppliedPolicy, BrokenPolicy, PolicySource};
use tracewarden_tracestore::StoreError;

use crate::access::Access;
use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::explain::{Applied, AppliedTo, ExplainVerdict, FoundSatisfied, satisfied};
use crate::pending::Prepared;
use crate::principal::Administrator;
use crate::service::Service;
use crate::tools::TRACES_EXPLAIN;
use crate::traces::trace_not_found;
use crate::user_walk::{UserWalk, attribute_bytes, bunch};

/// Most users who are looked at.
const USERS_MAX: usize = 10_000;
/// Users whose policies are asked about together.
const USERS_AT_ONCE: usize = 200;
/// What is known of policies that depend on their user may weigh so much, in nodes as written, before it is forgotten.
const KNOWN_MAX: u64 = 200_000;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A policy that opens the trace to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningPolicy {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
}

/// A user who can see the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// Name.
    pub username: String,
    /// Every policy that opens it to them.
    pub policies: Vec<OpeningPolicy>,
}

/// A user who can read no trace, because of a policy that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenFor {
    /// Name.
    pub username: String,
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// Why the policy cannot be applied, in words.
    pub reason: &'static str,
}

/// Who can see a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewers {
    /// The trace.
    pub trace_id: String,
    /// Its spans.
    pub spans: u64,
    /// Whether the asker may read it.
    pub details: bool,
    /// By name.
    pub viewers: Vec<Viewer>,
    /// Users who were looked at.
    pub users: u64,
    /// Users who are not disabled.
    pub total_users: u64,
    /// By name.
    pub broken: Vec<BrokenFor>,
    /// Users to whom a policy opens it, and who can read nothing before they change the password; by name.
    pub must_change_password: Vec<String>,
    /// Whether users, roles or the access model were changed meanwhile, so that the answer may not be of one state.
    pub changed_meanwhile: bool,
}

struct Plan {
    total_users: u64,
    roles: HashMap<String, Role>,
    /// The last audit record that the snapshot of roles and model has seen.
    seen: u64,
}

impl Service {
    /// Who can see a trace, of all users who are not disabled.
    ///
    /// # Errors
    /// [`ServiceError::TraceNotFound`] when the trace is absent, or the administrator may not read it and the operator lets
    /// nobody count; and those of [`Service::query`].
    pub async fn viewers(&self, admin: &Administrator<'_>, trace_id: &str) -> Result<Viewers, ServiceError> {
        let begun = Instant::now();
        let prepare = || {
            let prepared = async move {
                let mut tx = self.db().begin_read().await?;
                let authority = self.admin_authority(&mut tx, admin).await?;
                let roles = tx.roles().await?;
                let roles = roles.into_iter().map(|role| (role.name.clone(), role)).collect();
                let total_users = tx.enabled_users(None).await?;
                let (seen, _) = tx.audit_head().await?;
                drop(tx);
                let access = self.access_even_if_broken(authority).await?;
                let mut detail = access.basis.clone();
                if let Value::Object(members) = &mut detail {
                    members.insert("explained".to_owned(), json!({ "viewers": total_users }));
                }
                Ok(Prepared { access, plan: Plan { total_users, roles, seen }, detail })
            };
            prepared.boxed()
        };
        let (access, plan, mut pending) =
            self.begin_read(admin, TRACES_EXPLAIN, Some(trace_id), prepare).await?;
        let asked = self.asked(&access, None, &[]);
        let found = match access.find(trace_id).await {
            Ok(None) if !self.may_look_at_traces() => Ok(None),
            Ok(selection) => {
                let found = selection.as_ref().and_then(|selection| selection.trace_ids().next());
                self.seen_by(&access, found.unwrap_or(trace_id), plan, found.is_some()).await
            }
            Err(error) => Err(error.into()),
        };
        match found {
            Ok(Some(viewers)) => {
                pending.found(&viewers.trace_id);
                pending.complete(Outcome::Success, None).await?;
                Ok(viewers)
            }
            Ok(None) => Err(trace_not_found(pending, begun).await),
            Err(failure) => Err(pending.fail(failure.told(&asked)).await),
        }
    }

    /// Asks about some users at a time, until there is no time left. `None` when there is no such trace.
    async fn seen_by(
        &self,
        access: &Access,
        trace_id: &str,
        plan: Plan,
        details: bool,
    ) -> Result<Option<Viewers>, crate::impact::Failure> {
        let deadline = Instant::now() + PATIENCE;
        let Plan { total_users, roles, seen: record } = plan;
        let roles = Arc::new(roles);
        let mut seen = Viewers {
            trace_id: trace_id.to_owned(),
            spans: 0,
            details,
            viewers: Vec::new(),
            users: 0,
            total_users,
            broken: Vec::new(),
            must_change_password: Vec::new(),
            changed_meanwhile: false,
        };
        let mut walk = UserWalk::over(None, USERS_MAX);
        let mut known = Known::default();
        // Whether there is the trace is asked also when there is nobody to ask about.
        let mut first = true;
        while first || Instant::now() < deadline {
            let piece = walk.next(self.db()).await?;
            if piece.is_none() && !first {
                break;
            }
            let mut left = piece.unwrap_or_default();
            while first || !left.is_empty() {
                let policies = |role: &String| roles.get(role).map_or(0, |role| role.policies.len());
                let some = bunch(&mut left, USERS_AT_ONCE, |user| {
                    attribute_bytes(user).saturating_mul(user.roles.iter().map(policies).sum())
                });
                match self.ask_about(access, some, &roles, &mut known, &mut seen, deadline).await? {
                    Asked::Yes => {}
                    Asked::NoTrace => return Ok(None),
                    Asked::NoTime if first => return Err(no_time()),
                    Asked::NoTime => return self.with_change(seen, record).await,
                }
                first = false;
            }
        }
        self.with_change(seen, record).await
    }

    /// The answer, with whether what it rests on was changed while it was made.
    async fn with_change(
        &self,
        mut seen: Viewers,
        record: u64,
    ) -> Result<Option<Viewers>, crate::impact::Failure> {
        seen.changed_meanwhile = self.db().begin_read().await?.access_changed_since(record).await?;
        Ok(Some(seen))
    }

    /// Asks about these users, and adds them to what is seen.
    async fn ask_about(
        &self,
        access: &Access,
        users: Vec<User>,
        roles: &Arc<HashMap<String, Role>>,
        known: &mut Known,
        seen: &mut Viewers,
        deadline: Instant,
    ) -> Result<Asked, crate::impact::Failure> {
        let first = seen.users == 0 && known.by_hash.is_empty();
        let (roles, model, compiled) = (Arc::clone(roles), access.authority.model.clone(), self.compiled());
        let work = move || {
            let apply = |user: User| {
                let held = user.roles.iter().filter_map(|name| roles.get(name)).cloned().collect();
                Applied::new(AppliedTo::user(&user, held, model.clone()), &compiled)
            };
            users.into_iter().map(apply).collect::<Vec<Applied>>()
        };
        let Ok(applied) = timeout_at(deadline, self.examining().run(work)).await else {
            return Ok(Asked::NoTime);
        };
        let applied = applied?;
        let new = known.missing(&applied);
        if first || !new.is_empty() {
            let asked: Vec<Result<AppliedPolicy, BrokenPolicy>> = new.iter().cloned().map(Ok).collect();
            let asked: Vec<_> = asked.iter().collect();
            let Ok(found) = timeout_at(deadline, satisfied(access, None, &seen.trace_id, &asked)).await
            else {
                return Ok(Asked::NoTime);
            };
            let Some(found) = found? else { return Ok(Asked::NoTrace) };
            seen.trace_id.clone_from(&found.trace_id);
            seen.spans = seen.spans.max(found.spans);
            known.learn(new, found);
        }
        for applied in &applied {
            seen.users += 1;
            known.tell(applied, seen);
        }
        known.forget_if_large();
        Ok(Asked::Yes)
    }
}

/// What came of asking about some users.
enum Asked {
    Yes,
    NoTrace,
    NoTime,
}

/// What is known of policies that were asked about: most users share most of them.
#[derive(Default)]
struct Known {
    by_hash: HashMap<u64, Vec<(AppliedPolicy, Option<tracewarden_tracestore::Satisfied>)>>,
    changed: Vec<tracewarden_tracestore::ChangedField>,
    /// What is held, in nodes as written.
    size: u64,
}

fn no_time() -> crate::impact::Failure {
    StoreError::Timeout("there was no time to look at anybody".to_owned()).into()
}

fn hash(policy: &AppliedPolicy) -> u64 {
    let mut hasher = DefaultHasher::new();
    policy.predicate.hash(&mut hasher);
    hasher.finish()
}

impl Known {
    fn of(&self, policy: &AppliedPolicy) -> Option<&Option<tracewarden_tracestore::Satisfied>> {
        let known = self.by_hash.get(&hash(policy))?;
        known.iter().find(|(known, _)| known == policy).map(|(_, found)| found)
    }

    /// The policies that are still to be asked about, each once.
    fn missing(&self, applied: &[Applied]) -> Vec<AppliedPolicy> {
        let mut missing: HashMap<u64, Vec<&AppliedPolicy>> = HashMap::new();
        for policy in applied.iter().flat_map(Applied::all).filter_map(|policy| policy.as_ref().ok()) {
            if self.of(policy).is_some() {
                continue;
            }
            let same = missing.entry(hash(policy)).or_default();
            if !same.contains(&policy) {
                same.push(policy);
            }
        }
        missing.into_values().flatten().cloned().collect()
    }

    fn learn(&mut self, asked: Vec<AppliedPolicy>, found: FoundSatisfied) {
        self.changed.extend(found.changed);
        for (policy, found) in asked.into_iter().zip(found.each) {
            self.size = self.size.saturating_add(policy.predicate.size());
            self.by_hash.entry(hash(&policy)).or_default().push((policy, found));
        }
    }

    /// Starts anew when policies that hold much of their users' attributes have come together: they are asked about again where
    /// another user has the same.
    fn forget_if_large(&mut self) {
        if self.size > KNOWN_MAX {
            self.by_hash.clear();
            self.size = 0;
        }
    }

    /// Decides about one user as reading does.
    fn tell(&self, applied: &Applied, seen: &mut Viewers) {
        let each: Vec<_> =
            applied.all().map(|policy| self.of(policy.as_ref().ok()?).cloned().flatten()).collect();
        let (trace_id, changed) = (seen.trace_id.clone(), self.changed.clone());
        let found = FoundSatisfied { trace_id, spans: seen.spans, each, changed };
        let decision = applied.decide(&found);
        let username = applied.to.caller.username.clone();
        match (decision.verdict, decision.source) {
            (ExplainVerdict::Opened, _) => {
                let opening = applied
                    .to
                    .stored_policies()
                    .zip(&found.each)
                    .filter(|(_, found)| found.as_ref().is_some_and(|found| found.spans > 0));
                let policies = opening.map(|((role, policy), _)| OpeningPolicy {
                    role: role.name.clone(),
                    title: policy.title.clone(),
                });
                seen.viewers.push(Viewer { username, policies: policies.collect() });
            }
            (ExplainVerdict::Broken, Some(PolicySource::Role { role, title })) => {
                let reason = decision.why.unwrap_or("cannot be applied");
                seen.broken.push(BrokenFor { username, role, title, reason });
            }
            (ExplainVerdict::PasswordChangeRequired, _)
                if applied.decide_by_policies(&found).verdict == ExplainVerdict::Opened =>
            {
                seen.must_change_password.push(username);
            }
            _ => {}
        }
    }
}
