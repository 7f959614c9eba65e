//! Roles and their policies.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{ADMIN_ROLE, Policy, Role, WriteTx};
use tracewarden_clickhouse::display_sql;
use tracewarden_model::{AccessModel, ClaimsMapping, Timestamp};
use tracewarden_policy::{self as policy, CheckedPolicy, Diagnostic, role_warnings};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::access::read_only_list::read_only_texts;
use crate::core::{
    Administrator, Core, FieldError, IfMatch, Result, ServiceError, blocking, no_change_detail,
    stored_caller, validate, with_members,
};
use crate::policies::{AdviceRequest, CHECK_TIMEOUT, ROLE_TIMEOUT};

const POLICIES_MAX: usize = 100;
const TITLE_MAX_CHARS: usize = 200;
const DESCRIPTION_MAX_CHARS: usize = 4_000;

/// A stored policy with warnings.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoredPolicy {
    /// Title.
    pub title: String,
    /// The CEL expression; a trace is readable when the expression is true for any of its spans.
    pub expression: String,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Warnings about possible mistakes.
    pub warnings: Vec<Diagnostic>,
}

/// A stored role.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoredRole {
    /// Name.
    pub name: String,
    /// Its policies, each with warnings.
    pub policies: Vec<StoredPolicy>,
    /// Increases with each change and is never reused; the `ETag` of the role.
    pub revision: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Whether the role is new.
    #[serde(skip)]
    pub created: bool,
}

impl StoredRole {
    fn new(role: Role, warnings: Vec<Vec<Diagnostic>>, created: bool) -> Self {
        let policies = role.policies.into_iter().zip(warnings).map(|(policy, warnings)| {
            let Policy { title, expression, description } = policy;
            StoredPolicy { title, expression, description, warnings }
        });
        Self {
            name: role.name,
            policies: policies.collect(),
            revision: role.revision,
            updated_at: role.updated_at,
            created,
        }
    }
}

/// A role with its members.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RoleDetail {
    /// The role.
    #[serde(flatten)]
    pub role: Role,
    /// Names of the users who have it, sorted.
    #[schema(schema_with = members_schema)]
    pub members: Vec<String>,
}

fn members_schema() -> RefOr<Schema> {
    read_only_texts("Names of the users who have it.")
}

/// Result of checking an expression.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = CheckResult)]
pub struct PolicyCheck {
    /// Whether the expression is valid in a role.
    pub valid: bool,
    /// The errors, if it is not valid.
    pub errors: Vec<Diagnostic>,
    /// Fields that the expression reads.
    pub fields: Vec<String>,
    /// Warnings about possible mistakes in a valid expression.
    pub warnings: Vec<Diagnostic>,
    /// The compiled SQL; null when the expression is not valid.
    #[schema(required = true)]
    pub predicate: Option<String>,
    /// Number of recent traces that the expression was tested on; absent when this was not requested or not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recent_traces: Option<u64>,
}

/// Roles.
#[derive(Clone)]
pub struct Roles {
    pub(crate) core: Arc<Core>,
}

impl Roles {
    /// Creates or replaces a role; takes effect with each holder's next request. Identical policies make no change.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with `policy_invalid` and the position in the text, or for invalid members;
    /// [`ServiceError::PreconditionFailed`] when `if_match` does not hold.
    pub async fn put_role(
        &self,
        admin: &Administrator<'_>,
        name: &str,
        policies: Vec<Policy>,
        if_match: Option<IfMatch>,
    ) -> Result<StoredRole> {
        let result = async {
            check_role_input(name, &policies)?;
            let (mut tx, checks) = self.begin_with_checked_policies(admin, policies).await?;
            let stored = tx.role(name).await?;
            IfMatch::check_any(if_match, stored.as_ref().map(|role| role.revision))?;
            if stored.is_none()
                && let Some(other) = tx.role_spellings(&[name]).await?.pop_first()
            {
                return Err(case_conflict(name, &other));
            }
            let CheckedPolicies { policies, model, checked } = checks;
            let (checked, warnings) = checked?;
            let advice_request = |model| AdviceRequest {
                role: Some(name.to_owned()),
                policies: checked,
                model,
                recent_traces: true,
                timeout: ROLE_TIMEOUT,
            };
            if let Some(role) = stored.as_ref().filter(|role| role.policies == policies) {
                let detail = no_change_detail(tx.change_number().await?);
                let detail = with_members(detail, [("revision", json!(role.revision))]);
                self.core.commit_change(tx, admin, "role.put", Some(name), detail).await?;
                return Ok((StoredRole::new(role.clone(), warnings, false), advice_request(model)));
            }
            let revision = tx.put_role(name, &policies, self.core.now()).await?;
            let change = self.core.new_change(admin, "role.put", Some(name), model.version);
            let version = tx.record_change(&change, &[(name, Some(&policies))], None).await?;
            let detail = json!({
                "version": version,
                "revision": { "before": stored.as_ref().map(|role| role.revision), "after": revision },
                "created": stored.is_none(),
                "policies": {
                    "before": stored.as_ref().map(|role| policies_detail(&role.policies)),
                    "after": policies_detail(&policies),
                },
            });
            let role =
                tx.role(name).await?.ok_or_else(|| ServiceError::internal("the role no longer exists"))?;
            self.core.commit_change(tx, admin, "role.put", Some(name), detail).await?;
            Ok((StoredRole::new(role, warnings, stored.is_none()), advice_request(model)))
        };
        let (mut stored, advice_request) =
            self.core.audit_denial(admin, "role.put", Some(name), result.await).await?;
        // The change is in effect from here on, with or without advice.
        let advice = self.core.policy_advice(admin, advice_request).await;
        for (policy, more) in stored.policies.iter_mut().zip(advice.warnings) {
            merge_warnings(&mut policy.warnings, more);
        }
        Ok(stored)
    }

    /// Begins a change with policies that were checked under the access model in the transaction: a policy that does not
    /// compile must never be stored. They are checked before the transaction, because all other writers wait for its end, and
    /// again within it only if the model has changed since.
    async fn begin_with_checked_policies(
        &self,
        admin: &Administrator<'_>,
        policies: Vec<Policy>,
    ) -> Result<(WriteTx, CheckedPolicies)> {
        let model = self.core.db.access_model().await?;
        let checks =
            self.core.permits.model_checks.run(move || CheckedPolicies::new(policies, model)).await?;
        let mut tx = self.core.begin_change(admin).await?;
        let model = tx.access_model().await?;
        if model == checks.model {
            return Ok((tx, checks));
        }
        // Bypasses the queue: only one change at a time gets here, and queued tasks may wait for it.
        let checks = blocking(move || CheckedPolicies::new(checks.policies, model)).await?;
        Ok((tx, checks))
    }

    /// Returns all roles by name.
    pub async fn list(&self, _admin: &Administrator<'_>) -> Result<Vec<Role>> {
        Ok(self.core.db.begin_read().await?.roles().await?)
    }

    /// Returns one role.
    pub async fn role(&self, _admin: &Administrator<'_>, name: &str) -> Result<RoleDetail> {
        let name = validate::lookup_name(name, "role")?;
        let mut tx = self.core.db.begin_read().await?;
        let role = tx.role(name).await?.ok_or(ServiceError::NotFound { what: "role" })?;
        let members = tx.members_of_roles(&[name]).await?.remove(name).unwrap_or_default();
        Ok(RoleDetail { role, members })
    }

    /// Deletes a role and its assignments; takes effect with each holder's next request.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Conflict`] for the role `admin`, [`ServiceError::PreconditionFailed`] when
    /// `if_match` does not hold.
    pub async fn delete_role(
        &self,
        admin: &Administrator<'_>,
        name: &str,
        if_match: Option<IfMatch>,
    ) -> Result<()> {
        let result = async {
            check_deletion(name)?;
            let mut tx = self.core.begin_change(admin).await?;
            let role = tx.role(name).await?.ok_or(ServiceError::NotFound { what: "role" })?;
            IfMatch::check_any(if_match, Some(role.revision))?;
            let members = tx.members_of_roles(&[name]).await?.remove(name).unwrap_or_default();
            tx.delete_role(name).await?;
            let model_version = tx.access_model().await?.version;
            let change = self.core.new_change(admin, "role.delete", Some(name), model_version);
            let version = tx.record_change(&change, &[(name, None)], None).await?;
            let rules_removed = remove_rules(&mut tx, name, version).await?;
            let detail = json!({
                "version": version,
                "mapping_rules": rules_removed,
                "revision": role.revision,
                "members": members,
                "policies": policies_detail(&role.policies),
            });
            self.core.commit_change(tx, admin, "role.delete", Some(name), detail).await
        };
        self.core.audit_denial(admin, "role.delete", Some(name), result.await).await
    }

    /// Checks a policy without storing it. An invalid policy is a result here, not an error. With `recent_traces`, samples
    /// recent traces for advice; this is recorded, because it reveals something about spans. A policy that depends on the
    /// caller is not tested on traces, because no user is given.
    pub async fn check_policy(
        &self,
        admin: &Administrator<'_>,
        expression: &str,
        recent_traces: bool,
    ) -> Result<PolicyCheck> {
        let model = self.core.db.access_model().await?;
        let text = expression.to_owned();
        let caller = stored_caller(&admin.user);
        let analysed = self.core.permits.analysis.run(move || match policy::check(&text, &model) {
            Ok(checked) => {
                let check = PolicyCheck {
                    valid: true,
                    fields: checked.fields(),
                    warnings: checked.warnings().to_vec(),
                    predicate: checked.predicate(&caller).as_ref().map(display_sql),
                    ..PolicyCheck::default()
                };
                (check, Some(checked), model)
            }
            Err(errors) => (PolicyCheck { errors, ..PolicyCheck::default() }, None, model),
        });
        let (mut check, checked, model) = analysed.await?;
        let Some(checked) = checked else { return Ok(check) };
        let recent_traces = recent_traces && self.core.settings.discovery_samples;
        if recent_traces {
            let result = async {
                let tx = self.core.begin_change(admin).await?;
                let detail = json!({ "expression": expression });
                self.core.commit_change(tx, admin, "policy.check", None, detail).await
            };
            self.core.audit_denial(admin, "policy.check", None, result.await).await?;
        }
        let policies = vec![checked];
        let advice_request =
            AdviceRequest { role: None, policies, model, recent_traces, timeout: CHECK_TIMEOUT };
        let advice = self.core.policy_advice(admin, advice_request).await;
        check.recent_traces = advice.recent_traces;
        merge_warnings(&mut check.warnings, advice.warnings.into_iter().flatten());
        Ok(check)
    }
}

/// Removes the rules of mappings that give a role which was deleted with this change; returns their number.
async fn remove_rules(tx: &mut WriteTx, role: &str, change: u64) -> Result<usize> {
    let mut mappings = tx.identities().mappings(None).await?;
    let mut removed = 0;
    for mapping in mappings.values_mut() {
        let before = mapping.roles.len();
        mapping.roles.retain(|rule| rule.role != role);
        removed += before - mapping.roles.len();
    }
    if removed > 0 {
        mappings.retain(|_, mapping| *mapping != ClaimsMapping::default());
        tx.identities_mut().record_mappings(change, &mappings).await?;
    }
    Ok(removed)
}

/// Adds advice, sorted by position in the text.
fn merge_warnings(warnings: &mut Vec<Diagnostic>, more: impl IntoIterator<Item = Diagnostic>) {
    warnings.extend(more);
    warnings.sort_by_key(|warning| (warning.line, warning.column));
}

/// Checks that a role of this name may exist and may be deleted.
pub(crate) fn check_deletion(name: &str) -> Result<()> {
    if name == ADMIN_ROLE {
        let detail = "the role `admin` is built in and cannot be deleted";
        return Err(ServiceError::conflict(detail));
    }
    validate::lookup_name(name, "role").map(drop)
}

pub(crate) fn check_role_input(name: &str, policies: &[Policy]) -> Result<()> {
    let mut errors = Vec::new();
    if !validate::is_role_name(name) {
        let detail = "a role name has 1 to 64 of `A-Z a-z 0-9 . _ -` and begins with a letter or digit";
        errors.push(FieldError::invalid("", detail));
    }
    if policies.is_empty() && name != ADMIN_ROLE {
        errors.push(FieldError::invalid("/policies", "a role has at least one policy"));
    }
    if policies.len() > POLICIES_MAX {
        let detail = format!("a role has at most {POLICIES_MAX} policies");
        errors.push(FieldError::invalid("/policies", detail));
    }
    for (index, policy) in policies.iter().enumerate() {
        validate::title(&policy.title, &format!("/policies/{index}/title"), TITLE_MAX_CHARS, &mut errors);
        let description = policy.description.as_deref().unwrap_or_default();
        let pointer = format!("/policies/{index}/description");
        validate::text(description, &pointer, DESCRIPTION_MAX_CHARS, &mut errors);
        // The policy compiler limits the length.
        let pointer = format!("/policies/{index}/expression");
        validate::text(&policy.expression, &pointer, usize::MAX, &mut errors);
    }
    validate::no_errors(errors)
}

/// Rejects a new role whose name differs from that of an existing one only by case.
pub(crate) fn check_case_conflict<'a>(
    name: &str,
    existing: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    // At most one matches: the database contains no two such names.
    match existing.into_iter().find(|other| other.eq_ignore_ascii_case(name)) {
        Some(other) if other != name => Err(case_conflict(name, other)),
        _ => Ok(()),
    }
}

/// Returns the error for two roles whose names differ only by case and would be confused.
pub(crate) fn case_conflict(name: &str, other: &str) -> ServiceError {
    let detail = format!(
        "the role `{other}` exists, and the names of two roles must not differ only by case; use `{other}`, or another name than \
         `{name}`"
    );
    let errors = vec![FieldError::new("/name", "conflict", detail.as_str())];
    ServiceError::Conflict { detail, errors }
}

/// Formats the policies for the audit log, without their descriptions.
pub(crate) fn policies_detail(policies: &[Policy]) -> Value {
    policies.iter().map(|policy| json!({ "title": policy.title, "expression": policy.expression })).collect()
}

pub(crate) struct CheckedPolicies {
    pub(crate) policies: Vec<Policy>,
    pub(crate) model: AccessModel,
    /// The checked policies with their warnings, or the errors of all.
    pub(crate) checked: Result<(Vec<CheckedPolicy>, Vec<Vec<Diagnostic>>)>,
}

impl CheckedPolicies {
    /// Checks all policies. Blocks its thread.
    pub(crate) fn new(policies: Vec<Policy>, model: AccessModel) -> Self {
        let checked = compile_policies(&policies, &model);
        Self { policies, model, checked }
    }
}

pub(crate) fn compile_policies(
    policies: &[Policy],
    model: &AccessModel,
) -> Result<(Vec<CheckedPolicy>, Vec<Vec<Diagnostic>>)> {
    let mut checked = Vec::with_capacity(policies.len());
    let mut errors = Vec::new();
    for (index, stored) in policies.iter().enumerate() {
        match policy::check(&stored.expression, model) {
            Ok(policy) => checked.push(policy),
            Err(diagnostics) => {
                let pointer = format!("/policies/{index}/expression");
                errors
                    .extend(diagnostics.into_iter().map(|found| FieldError::policy(pointer.as_str(), found)));
            }
        }
    }
    if !errors.is_empty() {
        return Err(ServiceError::Refused(errors));
    }
    let titled: Vec<(&str, &CheckedPolicy)> =
        policies.iter().map(|policy| policy.title.as_str()).zip(&checked).collect();
    let warnings = role_warnings(&titled);
    Ok((checked, warnings))
}
