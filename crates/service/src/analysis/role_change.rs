//! A change of one role, as the preview and the collateral access of a role evaluate it.

use std::collections::BTreeMap;

use serde_json::json;
use tracewarden_appdb::Policy;
use tracewarden_model::{Timestamp, Window};

use crate::access::{CheckedPolicies, check_case_conflict, policies_detail};
use crate::analysis::Analysis;
use crate::analysis::change::{Change, ModelSide};
use crate::analysis::collateral_access::group_by::{CollateralGroupBy, parse_group_by};
use crate::core::{Administrator, PreparedRead, ServiceError, query_input};

/// Request for the preview of a role, or for its collateral access.
#[derive(Debug, Clone, Default)]
pub struct PolicyPreviewRequest {
    /// Name of the role. For a preview, it need not exist yet.
    pub role: String,
    /// Policies of the role after the change. When absent, a preview is of the deletion of the role, and collateral access is
    /// that of the stored policies.
    pub policies: Option<Vec<Policy>>,
    /// Start of the window; 24 hours before `to` when absent.
    pub from: Option<Timestamp>,
    /// End of the window, exclusive; now when absent.
    pub to: Option<Timestamp>,
    /// Maximum duration in seconds.
    pub seconds: Option<i64>,
    /// Marked field or display column by which collateral access is counted; the column of service names when absent.
    pub by: Option<String>,
}

/// Both sides of the change.
pub(super) struct RoleChange {
    pub(super) before: ModelSide,
    pub(super) after: ModelSide,
    pub(super) window: Window,
    /// `None` if no service column is bound, and the request names no field.
    pub(super) by: Option<CollateralGroupBy>,
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
    ) -> Result<PreparedRead<RoleChange>, ServiceError> {
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
            None if !before.roles.contains_key(&request.role) => {
                return Err(ServiceError::NotFound { what: "role" });
            }
            None if deletes => drop(after.roles.remove(&request.role)),
            None => {}
        }
        let by = match &request.by {
            Some(by) => Some(parse_group_by(by, &before.model, &access.binding)?),
            None => CollateralGroupBy::default_for(&access.binding),
        };
        let detail = access.detail([
            ("from", json!(window.from().to_string())),
            ("to", json!(window.to().to_string())),
            ("policies", json!(after.roles.get(&request.role).map(|policies| policies_detail(policies)))),
            ("by", json!(by.as_ref().map(CollateralGroupBy::name))),
        ]);
        Ok(PreparedRead { access, plan: RoleChange { before, after, window, by }, detail })
    }
}
