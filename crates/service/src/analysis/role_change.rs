//! A change of one role, as the preview and the collateral access of a role evaluate it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use tracewarden_appdb::{ModelState, Policy};
use tracewarden_clickhouse::CollateralGrouping;
use tracewarden_model::{Timestamp, Window};
use utoipa::ToSchema;

use crate::access::{CheckedPolicies, check_case_conflict, policies_detail};
use crate::analysis::Analysis;
use crate::analysis::change::Change;
use crate::analysis::collateral_access::group_by::parse_group_by;
use crate::core::{Administrator, PreparedRead, Result, ServiceError, present, query_input};

/// A role, and the traces to evaluate.
#[serde_with::apply(Option => #[serde(default, deserialize_with = "present")])]
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CollateralAccessRequest)]
pub struct PolicyPreviewRequest {
    /// Name of the role.
    #[schema(examples("payments"))]
    pub role: String,
    // A preview without policies is of the deletion of the role.
    /// Policies of the role; the stored ones when absent.
    #[schema(nullable = false)]
    pub policies: Option<Vec<Policy>>,
    /// Field by whose values collateral access is counted: a marked field of type string or string_array, or a display column;
    /// the service column when absent.
    #[schema(nullable = false, examples("ServiceName"))]
    pub by: Option<String>,
    /// Start of the window; 24 hours before `to` when absent.
    #[schema(nullable = false)]
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    #[schema(nullable = false)]
    pub to: Option<Timestamp>,
    /// Time limit in seconds. If it is too short to evaluate all traces, a sample is evaluated.
    #[schema(nullable = false, minimum = 1, maximum = 60, default = 10)]
    pub seconds: Option<i64>,
}

/// Both sides of the change.
pub(super) struct RoleChange {
    pub(super) before: ModelState,
    pub(super) after: ModelState,
    pub(super) window: Window,
    /// `None` if no service column is bound, and the request names no field.
    pub(super) by: Option<CollateralGrouping>,
}

impl RoleChange {
    pub(super) fn change<'a>(&'a self, role: &'a str) -> Change<'a> {
        Change { before: &self.before, after: &self.after, role: Some(role), window: self.window }
    }
}

impl Analysis {
    /// Reads the roles and the model, and checks the policies. `deletes` says whether a request without policies means that the
    /// role is deleted.
    pub(super) async fn prepare_role_change(
        &self,
        admin: &Administrator<'_>,
        request: &PolicyPreviewRequest,
        deletes: bool,
    ) -> Result<PreparedRead<RoleChange>> {
        let window = query_input::first_window(request.from, request.to, self.core.now())?;
        let mut tx = self.core.db.begin_read().await?;
        let authority = self.core.admin_authority(&mut tx, admin).await?;
        let roles = tx.roles().await?;
        drop(tx);
        let access = self.core.access_even_if_broken(authority).await?;
        let model = access.authority.model.clone();
        let roles: BTreeMap<String, Vec<Policy>> =
            roles.into_iter().map(|role| (role.name, role.policies)).collect();
        let before = ModelState { roles, model, mappings: Default::default(), tests: String::new() };
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
            None if !before.roles.contains_key(&request.role) => {
                return Err(ServiceError::NotFound { what: "role" });
            }
            None if deletes => drop(after.roles.remove(&request.role)),
            None => {}
        }
        let by = match &request.by {
            Some(by) => Some(parse_group_by(by, &before.model, &access.binding)?),
            None => access.binding.display.service.clone().map(CollateralGrouping::Column),
        };
        let detail = access.detail([
            ("from", json!(window.from().to_string())),
            ("to", json!(window.to().to_string())),
            ("policies", json!(after.roles.get(&request.role).map(|policies| policies_detail(policies)))),
            ("by", json!(by.as_ref().map(CollateralGrouping::name))),
        ]);
        Ok(PreparedRead { access, plan: RoleChange { before, after, window, by }, detail })
    }
}
