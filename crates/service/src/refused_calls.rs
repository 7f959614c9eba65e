//! Calls that are refused before a use case begins, as the transport's gate sees them.

use serde_json::{Value, json};

use crate::audit::{AuditContext, Event, Outcome};
use crate::error::ServiceError;
use crate::principal::{Identity, Principal, Transport};
use crate::service::Service;
use crate::tools::Tool;

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
    /// What only a session may do here, if anything.
    pub session_only: Option<SessionOnly>,
    /// The tool that the route is REST's form of, if any.
    pub tool: Option<Tool>,
    /// Method.
    pub method: &'a str,
    /// The pattern that the path has matched.
    pub route: Option<&'a str>,
    /// The path.
    pub path: &'a str,
}

impl RefusedCall<'_> {
    /// What the route is for, as far as its record goes: a read of traces, else administration.
    fn action(&self) -> &'static str {
        self.tool.and_then(Tool::action).unwrap_or("administration")
    }

    fn detail(&self, code: &str) -> Value {
        json!({ "code": code, "method": self.method, "route": self.route })
    }
}

impl Service {
    /// Records a call of a tool that no use case records: one that reads no traces. Nothing is answered when this fails.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn note_tool_call(&self, principal: &Principal, tool: Tool) -> Result<(), ServiceError> {
        let action = Tool::call_action(Some(tool));
        let event = Event { action, outcome: Outcome::Success, target: None, detail: json!({}) };
        self.record_alone(&AuditContext::of(principal), &event).await
    }

    /// Records a call of a tool that was refused before any use case saw it: of a tool that is not one or not the key's, or
    /// with arguments that cannot be read. Like [`Service::note_refused_call`].
    pub async fn note_refused_tool_call(
        &self,
        principal: &Principal,
        tool: Option<Tool>,
        code: &'static str,
        outcome: Outcome,
    ) {
        let action = if outcome == Outcome::Denied { "api_key.use" } else { Tool::call_action(tool) };
        let event = Event { action, outcome, target: None, detail: json!({ "code": code }) };
        self.record_if_possible(principal, event).await;
    }

    /// Records that a known caller asked for what they may not do: for administration, for traces, or with a key for
    /// what only a session may do or what is outside its tools. The refusal stands whether or not its record can be
    /// written.
    pub async fn note_refused_call(&self, identity: &Identity, error: &ServiceError, call: RefusedCall<'_>) {
        let action = match (error, call.session_only) {
            (ServiceError::SessionRequired, Some(what)) => what.action(),
            (ServiceError::OutsideTools, _) => "api_key.use",
            _ if identity.info.via == Transport::Mcp => Tool::call_action(None),
            _ => call.action(),
        };
        self.record_refusal(identity, action, error, Some(call.path), call.detail(error.code())).await;
    }

    /// Records that a caller who may do it asked for traces or for a change, in a request that could not be read; `code`
    /// is the answer's. Like [`Service::note_refused_call`].
    pub async fn note_unreadable_call(&self, identity: &Identity, code: &str, call: RefusedCall<'_>) {
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
