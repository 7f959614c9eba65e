//! Users, roles, API keys, sessions, sign-in and previews: who may see what.

mod api_keys;
mod break_glass;
mod change_password;
pub(crate) mod identity;
pub(crate) mod preview;
mod read_only_list;
mod roles;
mod service_accounts;
mod service_keys;
mod sessions;
mod sign_in;
pub(crate) mod sign_in_throttle;
mod user_change;
mod user_credentials;
mod user_info;
mod users;

pub use api_keys::{CreatedApiKey, NewApiKey};
pub use break_glass::BreakGlassRequest;
pub use identity::{
    AuthorizationResponse, Identities, MappedPerson, MappingAnswer, MappingEvaluation, MappingWarning,
    ProtectedResource, ProviderInfo, ProviderRedirect, ProviderSignIn, SignInMethods, SignInProvider,
    UnmappedExpression,
};
pub(crate) use identity::{changed_people, check_mappings, grants_admin, remap};
pub use preview::PreviewRequest;
pub(crate) use roles::{
    CheckedPolicies, case_conflict, check_case_conflict, check_deletion, check_role_input, compile_policies,
    policies_detail,
};
pub use roles::{PolicyCheck, RoleDetail, Roles, StoredRole};
pub use service_accounts::{ServiceInfo, ServiceOwner};
pub use service_keys::ApiKeyOfUser;
pub use sessions::SessionInfo;
pub use sign_in::{PasswordCredentials, SignInAnswer};
pub use user_change::UserChange;
pub use user_info::{AssignedAccess, UserInfo, UserProvider};
pub(crate) use users::refuse_without_password;
pub use users::{CreatedUser, NewUser, UserAccess, UserPage, Users};

use std::sync::Arc;

use crate::core::Core;

/// The caller's own sessions, keys, password and preview.
#[derive(Clone)]
pub struct Account {
    pub(crate) core: Arc<Core>,
}
