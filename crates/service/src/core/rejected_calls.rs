//! Records of calls that the transport rejects before a use case begins.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::core::audit_context::AuditContext;
use crate::core::audit_event::{Event, Outcome};
use crate::core::error::{Result, ServiceError};
use crate::core::principal::{Identity, Principal, Transport};
use crate::core::tools::Tool;

/// Actions that require a session: a stolen API key must not be able to do them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOnly {
    /// Sign out.
    SignOut,
    /// Change of one's own password.
    ChangePassword,
    /// Creation of an API key.
    CreateApiKey,
    /// Creation of an API key for a service account.
    CreateServiceKey,
    /// Decision that a user signs in with an identity provider.
    LinkUser,
    /// Decision that a user no longer does.
    UnlinkUser,
    /// Start of a preview.
    BeginPreview,
    /// End of a preview.
    EndPreview,
}

impl SessionOnly {
    pub(crate) const fn action(self) -> &'static str {
        match self {
            Self::SignOut => "logout",
            Self::ChangePassword => "password.change",
            Self::CreateApiKey => "api_key.create",
            Self::CreateServiceKey => "user.create_api_key",
            Self::LinkUser => "user.link",
            Self::UnlinkUser => "user.unlink",
            Self::BeginPreview => "preview.begin",
            Self::EndPreview => "preview.end",
        }
    }
}

/// The rejected call, for its audit record.
#[derive(Debug, Clone, Copy)]
pub struct RejectedCall<'a> {
    /// Action of this call that requires a session, if any.
    pub session_only: Option<SessionOnly>,
    /// Tool to which the REST route corresponds, if any.
    pub tool: Option<Tool>,
    /// HTTP method.
    pub method: &'a str,
    /// Route pattern that matched the path.
    pub route: Option<&'a str>,
    /// Path of the request.
    pub path: &'a str,
}

impl RejectedCall<'_> {
    /// Action for the record: a read of traces, otherwise administration.
    fn action(&self) -> &'static str {
        self.tool.and_then(Tool::action).unwrap_or("administration")
    }

    fn detail(&self, code: &str) -> Value {
        json!({ "code": code, "method": self.method, "route": self.route })
    }
}

impl Core {
    /// Records a call of a tool that no use case records, because it reads no traces. The call must not be answered if this
    /// fails.
    pub async fn record_tool_call(self: &Arc<Self>, principal: &Principal, tool: Tool) -> Result<()> {
        let action = Tool::call_action(Some(tool));
        let event = Event { action, outcome: Outcome::Success, target: None, detail: json!({}) };
        self.record(&AuditContext::new(principal), None, event).await
    }

    /// Records a tool call that was rejected before a use case: the tool is unknown or not permitted for the key, or the
    /// arguments cannot be parsed. Does not fail, like [`Self::record_rejected_call`].
    pub async fn record_rejected_tool_call(
        self: &Arc<Self>,
        principal: &Principal,
        tool: Option<Tool>,
        code: &'static str,
        outcome: Outcome,
    ) {
        let action = if outcome == Outcome::Denied { "api_key.use" } else { Tool::call_action(tool) };
        let event = Event { action, outcome, target: None, detail: json!({ "code": code }) };
        self.record_if_possible(principal, event).await;
    }

    /// Records a call that a known caller may not make: administration, traces, or with an API key an action that requires a
    /// session or is outside its tools. The call stays rejected even if the record cannot be written.
    pub async fn record_rejected_call(
        self: &Arc<Self>,
        identity: &Identity,
        error: &ServiceError,
        call: RejectedCall<'_>,
    ) {
        let action = match (error, call.session_only) {
            (ServiceError::SessionRequired, Some(what)) => what.action(),
            (ServiceError::ToolNotPermitted | ServiceError::InsufficientScope { .. }, _) => "api_key.use",
            _ if identity.info.via == Transport::Mcp => Tool::call_action(None),
            _ => call.action(),
        };
        self.record_rejection(identity, action, error, Some(call.path), call.detail(error.code())).await;
    }

    /// Records a request for traces or for a change that the caller may make, but that could not be parsed; `code` is that of
    /// the answer. Does not fail, like [`Self::record_rejected_call`].
    pub async fn record_unparsable_call(
        self: &Arc<Self>,
        identity: &Identity,
        code: &str,
        call: RejectedCall<'_>,
    ) {
        let action = match call.session_only {
            _ if identity.info.via == Transport::Mcp => Tool::call_action(None),
            Some(what) => what.action(),
            None => call.action(),
        };
        let detail = call.detail(code);
        let event = Event { action, outcome: Outcome::Failed, target: Some(call.path), detail };
        self.record_if_possible(identity, event).await;
    }
}
