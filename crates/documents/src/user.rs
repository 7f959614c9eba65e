//! A user in a file or a request.

use serde::{Deserialize, Serialize};
use tracewarden_model::Caller;
use tracewarden_service::Attributes;
use utoipa::ToSchema;

/// A user for whom a policy is evaluated; the user need not exist.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluatedUser {
    /// `user.username`.
    #[schema(examples("ada"))]
    username: String,
    /// `user.roles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, examples(json!(["payments"])))]
    roles: Vec<String>,
    /// `user.attributes`.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    #[schema(required = false, examples(json!({"team": "payments"})))]
    attributes: Attributes,
}

impl From<EvaluatedUser> for Caller {
    fn from(user: EvaluatedUser) -> Self {
        let EvaluatedUser { username, roles, attributes } = user;
        Self { username, roles: roles.into_iter().collect(), attributes: attributes.0 }
    }
}
