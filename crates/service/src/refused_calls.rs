//! Calls that are refused before a use case begins, as the transport's gate sees them.

use serde_json::json;

use crate::error::ServiceError;
use crate::principal::Identity;
use crate::service::Service;

/// What only a session may do: a stolen key must not be able to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOnly {
    /// Signing out.
    Logout,
    /// Changing one's own password.
    ChangePassword,
    /// Making a key.
    CreateApiKey,
    /// Beginning a preview.
    BeginPreview,
    /// Ending a preview.
    EndPreview,
}

impl SessionOnly {
    /// As the audit log spells it.
    pub(crate) const fn action(self) -> &'static str {
        match self {
            Self::Logout => "logout",
            Self::ChangePassword => "password.change",
            Self::CreateApiKey => "api_key.create",
            Self::BeginPreview => "preview.begin",
            Self::EndPreview => "preview.end",
        }
    }
}

/// What was called, for the record of a refusal.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCall<'a> {
    /// What only a session may do here, when that is why the call was refused; administration otherwise.
    pub what: Option<SessionOnly>,
    /// Method.
    pub method: &'a str,
    /// The pattern that the path has matched.
    pub route: Option<&'a str>,
    /// The path.
    pub path: &'a str,
}

impl Service {
    /// Records that a known caller asked for what they may not do: for administration, with a key for what only a
    /// session may do, or with one for what is outside its tools. The refusal stands whether or not its record can be written.
    pub async fn note_refused_call(&self, identity: &Identity, error: &ServiceError, call: RefusedCall<'_>) {
        let action = match (call.what, error) {
            (Some(what), _) => what.action(),
            (None, ServiceError::OutsideTools) => "api_key.use",
            (None, _) => "administration",
        };
        let detail = json!({ "code": error.code(), "method": call.method, "route": call.route });
        self.record_refusal(identity, action, error, Some(call.path), detail).await;
    }
}
