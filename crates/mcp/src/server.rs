//! The MCP server: one instance for each request, without state that outlives it.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool as ToolDefinition,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tracewarden_service::{Outcome, Principal, Service, Tool, ToolCall};
use tracing::Instrument as _;

use crate::bounded_json::{Bounds, Json};
use crate::catalogue;
use crate::client_name::{ClientName, SessionIdSlot, full_name};
use crate::coercion::{coerce, did_you_mean};
use crate::failure::Failure;
use crate::instructions::instructions;
use crate::span_text::one_line;
use crate::tools::{self, Context};

/// Handles the messages of one HTTP request.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) service: Service,
    /// Base URL under which users reach the service, without a trailing slash.
    pub(crate) origin: Arc<str>,
}

/// Supported revisions of the protocol. The revision before these has batches, each of which would be many reads in
/// one request; no other revision has them.
const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

fn request(context: &RequestContext<RoleServer>) -> Result<&Parts, ErrorData> {
    context.extensions.get::<Parts>().ok_or_else(|| ErrorData::internal_error("no request", None))
}

/// Returns the caller that the authentication middleware found.
fn caller(parts: &Parts) -> Result<Arc<Principal>, ErrorData> {
    parts
        .extensions
        .get::<Arc<Principal>>()
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("no caller", None))
}

impl Server {
    fn config(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info =
            Implementation::new("tracewarden", env!("CARGO_PKG_VERSION")).with_title("Tracewarden");
        config
    }

    /// Returns the configuration with instructions for one caller at one time.
    fn caller_config(&self, principal: &Principal) -> ServerConfig {
        let mut config = self.config();
        config.instructions = Some(instructions(self.service.core().now(), principal.username()));
        config
    }

    /// Calls a tool if the caller may call it. The use case records its own failures; others are recorded here.
    async fn call(&self, principal: &Principal, tool: Tool, sent: Json) -> Result<CallToolResult, Failure> {
        let result = match principal.require_tool(Some(tool)) {
            Ok(()) => self.run(principal, tool, sent).await,
            Err(error) => Err(Failure::from(error).mark_denied()),
        };
        let for_caller = |failure: Failure| {
            if principal.is_admin() { failure.with_administrator_detail() } else { failure }
        };
        let result = result.map_err(for_caller);
        if let Err(failure) = &result
            && let Some(outcome) = failure.unrecorded
        {
            let core = self.service.core();
            core.record_rejected_tool_call(principal, Some(tool), failure.code, outcome).await;
        }
        result
    }

    async fn run(&self, principal: &Principal, tool: Tool, sent: Json) -> Result<CallToolResult, Failure> {
        let sent = &Value::Object(coerce(&catalogue::tool_definition(tool).input_schema, sent)?);
        let context = &Context { service: &self.service, principal, origin: &self.origin, tool, sent };
        (tools::definition(tool).start)(context)?.await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.config()
    }

    async fn initialize(
        &self,
        sent: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let parts = request(&context)?;
        if let Some(slot) = parts.extensions.get::<SessionIdSlot>() {
            // Set once per request.
            let _ = slot.0.set(full_name(&sent.client_info));
        }
        let negotiated = self.negotiate_initialize(&sent)?;
        let mut caller_config = self.caller_config(caller(parts)?.as_ref());
        caller_config.protocol_version = negotiated.protocol_version;
        Ok(caller_config)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let caller_config = self.caller_config(caller(request(&context)?)?.as_ref());
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, caller_config))
    }

    /// Lists the tools that the caller's API key allows.
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(request(&context)?)?;
        let allowed = Tool::ALL.into_iter().filter(|tool| caller.require_tool(Some(*tool)).is_ok());
        Ok(ListToolsResult::with_all_items(allowed.map(catalogue::tool_definition).collect()))
    }

    /// Lists the revisions in which a client need not initialise a session, or at least not one that must be kept.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&VERSIONS)
    }

    /// Handles requests that the library could not parse as a known request.
    async fn on_custom_request(
        &self,
        sent: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if sent.method != "tools/call" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, one_line(&sent.method, 100), None));
        }
        let params = sent.params.unwrap_or_default();
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        let tool = Tool::parse(&name);
        // Some clients send an object as JSON text, or an empty list for no arguments.
        if tool.is_some() && (arguments.is_string() || arguments.as_array().is_some_and(Vec::is_empty)) {
            let mut result = self.dispatch(&name, &arguments, &context).await?;
            result.result_type = None;
            let result = serde_json::to_value(result);
            return result.map(CustomResult).map_err(|_| ErrorData::internal_error("no result", None));
        }
        let principal =
            caller(request(&context)?)?.with_tool_call(ToolCall { tool: name, arguments, client: None });
        self.service
            .core()
            .record_rejected_tool_call(&principal, tool, "invalid_request", Outcome::Failed)
            .await;
        let detail = "a call has a `name`, and `arguments` that are an object";
        Err(ErrorData::invalid_params(detail, None))
    }

    fn get_tool(&self, name: &str) -> Option<ToolDefinition> {
        Tool::parse(name).map(catalogue::tool_definition)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        self.dispatch(&params.name, &arguments, &context).await.map(Into::into)
    }
}

impl Server {
    async fn dispatch(
        &self,
        name: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let parts = request(context)?;
        let sent = Json::read(&arguments.to_string(), Bounds::NONE).unwrap_or(Json::Null);
        let carried = || parts.extensions.get::<ClientName>().map(|name| name.0.clone());
        let client = context.meta.client_info().as_ref().map(full_name).or_else(carried);
        let principal = caller(parts)?.with_tool_call(ToolCall {
            tool: name.to_owned(),
            arguments: arguments.clone(),
            client,
        });
        let Some(tool) = Tool::parse(name) else {
            return Err(self.no_such_tool(&principal, name).await);
        };
        let info = principal.request_info();
        let span = tracing::info_span!("tool", name = tool.name(), request_id = %info.request_id, user_id = principal.user_id());
        let call = catch_panic(self.call(&principal, tool, sent)).instrument(span);
        tokio::select! {
            // The client disconnected: it needs no response, and dropping the call cancels its ClickHouse queries.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            result = call => Ok(result),
        }
    }

    async fn no_such_tool(&self, principal: &Principal, name: &str) -> ErrorData {
        self.service.core().record_rejected_tool_call(principal, None, "unknown_tool", Outcome::Failed).await;
        let known = Tool::ALL.map(Tool::name);
        let suggestion = did_you_mean(name, known);
        let name = one_line(name, 100);
        let detail = format!("no tool `{name}`{suggestion} There are {}", known.join(", "));
        ErrorData::invalid_params(detail, None)
    }
}

/// Returns the result of a call, also after a panic. Without this the client would wait, because the task that panics
/// is not the one that responds.
async fn catch_panic(call: impl Future<Output = Result<CallToolResult, Failure>>) -> CallToolResult {
    let ended = AssertUnwindSafe(call).catch_unwind().await;
    let result = ended.unwrap_or_else(|_| Err(Failure::internal("a tool panicked")));
    result.unwrap_or_else(|failure| failure.result())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_without_details() {
        let result = catch_panic(async { panic!("with a secret") }).await;
        assert_eq!(result.is_error, Some(true));
        let text = serde_json::to_string(&result).unwrap();
        assert!(text.contains("error internal: something went wrong") && !text.contains("secret"), "{text}");
    }
}
