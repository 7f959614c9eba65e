//! Sign-in with identity providers, and the mappings of their claims to roles and attributes.

mod access_token;
mod attempt;
mod link;
mod logout;
mod mapped;
mod mapping;
mod people;
mod refresh;
mod sign_in;

pub use access_token::ProtectedResource;
pub use mapped::MappedPerson;
pub(crate) use mapped::{changed_people, remap};
pub use mapping::{MappingAnswer, MappingEvaluation, MappingWarning, ProviderInfo, UnmappedExpression};
pub(crate) use mapping::{check_mappings, grants_admin};
pub use sign_in::{AuthorizationResponse, ProviderRedirect, ProviderSignIn, SignInMethods, SignInProvider};

use std::sync::Arc;

use tracewarden_identity::Provider;

use crate::core::{Core, Result, ServiceError};

/// Identity providers.
#[derive(Clone)]
pub struct Identities {
    pub(crate) core: Arc<Core>,
}

impl Identities {
    fn provider(&self, name: &str) -> Result<&Provider> {
        let unknown = ServiceError::NotFound { what: "identity provider" };
        self.core.settings.providers.get(name).ok_or(unknown)
    }
}
