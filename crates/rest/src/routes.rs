//! Declaration of routes. A route of the API exists only through [`Routes::add`], which requires its [`Access`]. So no route
//! lacks an access decision, and the OpenAPI document always agrees with the code.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Uri, header};
use tracewarden_service::{
    Credential, Identity, Outcome, Principal, RejectedCall, RequestInfo, Secret, ServiceError, Transport,
    resembles_api_key,
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::accept::{self, Representation};
use crate::access::{Access, CredentialKind, ReadOnlyRoute};
use crate::app::App;
use crate::body::{self, BodyLimit};
use crate::body_memory;
use crate::code::Code;
use crate::cross_site::bearer_token;
use crate::nested_interface::{DeniedTool, NestedInterface};
use crate::operations;
use crate::problem::Problem;
use crate::protected_resource::challenge;
use crate::query::Parameters;

/// Id of the user for whom the client sends the request.
const EXPECTED_USER: HeaderName = HeaderName::from_static("tracewarden-user");

/// Routes with their access rules.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    app: App,
}

/// The checks before a route's handler.
#[derive(Clone)]
struct RouteGuard {
    app: App,
    access: Access,
    offered: &'static [Representation],
    body_limit: BodyLimit,
    /// `None` if any query is accepted.
    parameters: Option<Parameters>,
}

impl Routes {
    pub(crate) fn new(app: App, document: utoipa::openapi::OpenApi) -> Self {
        Self { router: OpenApiRouter::with_openapi(document), app }
    }

    /// Declares routes that respond with JSON.
    pub(crate) fn add(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_with_representations(access, &[Representation::Json], routes)
    }

    /// Declares routes that respond with one of several representations.
    pub(crate) fn add_with_representations(
        self,
        access: Access,
        offered: &'static [Representation],
        routes: UtoipaMethodRouter<App>,
    ) -> Self {
        let body_limit = if access == Access::Public { BodyLimit::AnonymousJson } else { BodyLimit::Json };
        self.add_guarded(access, offered, body_limit, true, routes)
    }

    /// Declares routes for health checks. Any query is accepted, because load balancers add their own parameters.
    pub(crate) fn add_probe(self, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_guarded(Access::Public, &[Representation::Json], BodyLimit::AnonymousJson, false, routes)
    }

    /// Declares routes that accept a model file and respond with JSON.
    pub(crate) fn add_model_file_route(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_guarded(access, &[Representation::Json], BodyLimit::ModelFile, true, routes)
    }

    fn add_guarded(
        self,
        access: Access,
        offered: &'static [Representation],
        body_limit: BodyLimit,
        strict_query: bool,
        (schemas, mut paths, methods): UtoipaMethodRouter<App>,
    ) -> Self {
        let mut declared = Parameters::default();
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations::by_method(item) {
                declared.declare(method, operation);
                operations::document(method, path, operation, access, body_limit, strict_query);
            }
        }
        let parameters = strict_query.then_some(declared);
        let guard = RouteGuard { app: self.app.clone(), access, offered, body_limit, parameters };
        let methods = methods.route_layer(middleware::from_fn_with_state(guard, guard_route));
        Self { router: self.router.routes((schemas, paths, methods)), app: self.app }
    }

    /// Declares paths of the web application: accessible to all clients, and not operations of the API.
    pub(crate) fn add_web<H, T>(self, paths: &[&str], handler: H) -> Self
    where
        H: Handler<T, App> + Clone,
        T: 'static,
    {
        let add = |router: OpenApiRouter<App>, path: &&str| router.route(path, get(handler.clone()));
        Self { router: paths.iter().fold(self.router, add), app: self.app }
    }

    /// Declares a path of a protocol that identity providers and browsers speak: accessible to all clients, with any query, and not
    /// an operation of the API.
    pub(crate) fn add_protocol(self, path: &str, body_limit: BodyLimit, methods: MethodRouter<App>) -> Self {
        let guard = RouteGuard {
            app: self.app.clone(),
            access: Access::Public,
            offered: &[Representation::Json],
            body_limit,
            parameters: None,
        };
        let methods = methods.route_layer(middleware::from_fn_with_state(guard, guard_route));
        Self { router: self.router.route(path, methods), app: self.app }
    }

    /// Declares the path of another interface: it requires an API key and is not an operation of the API.
    pub(crate) fn add_nested_interface(self, nested_interface: NestedInterface) -> Self {
        let guard = RouteGuard {
            app: self.app.clone(),
            access: Access::Principal(CredentialKind::Key),
            offered: &[],
            body_limit: BodyLimit::Json,
            parameters: None,
        };
        let path = nested_interface.path;
        let service = self.app.service.clone();
        let handle = any(move |request: Request| {
            let (nested_interface, service) = (nested_interface.clone(), service.clone());
            async move {
                let principal = request.extensions().get::<Arc<Principal>>().cloned();
                let response = nested_interface.handle(request).await;
                let denied = response.extensions().get::<DeniedTool>();
                if let (Some(DeniedTool(tool)), Some(principal)) = (denied, principal) {
                    let code = Code::InsufficientScope.as_str();
                    let core = service.core();
                    core.record_rejected_tool_call(&principal, Some(*tool), code, Outcome::Denied).await;
                }
                response
            }
        });
        let handle = handle.layer(middleware::from_fn_with_state(guard, guard_route));
        // Clients are configured by hand, with and without a trailing slash.
        let router = self.router.route(path, handle.clone()).route(&format!("{path}/"), handle);
        Self { router, app: self.app }
    }

    /// Returns the router and the OpenAPI document that describes it.
    pub(crate) fn finish(self) -> (axum::Router<App>, utoipa::openapi::OpenApi) {
        self.router.split_for_parts()
    }
}

/// Authenticates and authorises the caller and checks the request, before the body is read and the handler runs.
async fn guard_route(State(guard): State<RouteGuard>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let caller = match guard.authenticate(&mut head).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let request_line = RequestLine::from_head(&head);
    let body_memory = match guard.prepare(&mut head, &body) {
        Ok(kib) => body_memory::body_memory(caller_id(&head), kib).await,
        Err(problem) => Err(problem),
    };
    let mut response = match body_memory {
        Ok(_permit) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    };
    if guard.access.tool().is_some() {
        response.extensions_mut().insert(ReadOnlyRoute);
    }
    if caller.as_ref().is_some_and(|caller| caller.is_admin())
        && let Some(problem) = response.extensions_mut().get_mut::<Problem>()
    {
        problem.append_administrator_detail();
    }
    if let (Some(caller), Some(problem)) = (caller, response.extensions().get::<Problem>()) {
        guard.audit_unreadable(&request_line, &caller, problem).await;
    }
    response
}

/// Returns the user under whom large bodies are counted. All anonymous clients count as one.
fn caller_id(head: &Parts) -> &str {
    let principal = head.extensions.get::<Arc<Principal>>().map(|principal| principal.user_id());
    let account = || head.extensions.get::<Arc<Identity>>().map(|identity| identity.user_id());
    principal.or_else(account).unwrap_or_default()
}

/// Rejects a request of a client that expects another user. A cookie belongs to the browser: after a sign-in in another window,
/// a page would otherwise show data of one user as that of another, or save what one user wrote as another.
fn check_expected_user(headers: &HeaderMap, identity: &Identity) -> Result<(), Problem> {
    let id = identity.user_id().as_bytes();
    if headers.get_all(EXPECTED_USER).iter().all(|expected| expected.as_bytes() == id) {
        return Ok(());
    }
    Err(Problem::new(Code::UserMismatch, "the credential is of another user than `Tracewarden-User` names"))
}

/// Description of a call for audit records.
struct RequestLine {
    method: Method,
    route: Option<MatchedPath>,
    uri: Uri,
}

impl RequestLine {
    fn from_head(head: &Parts) -> Self {
        let route = head.extensions.get::<MatchedPath>().cloned();
        Self { method: head.method.clone(), route, uri: head.uri.clone() }
    }

    fn rejected_call(&self, access: Access) -> RejectedCall<'_> {
        RejectedCall {
            session_only: access.session_only(),
            tool: access.tool(),
            method: self.method.as_str(),
            route: self.route.as_ref().map(MatchedPath::as_str),
            path: self.uri.path(),
        }
    }
}

impl RouteGuard {
    /// Whether another interface handles the requests, and parses them itself.
    fn is_nested(&self) -> bool {
        self.access == Access::Principal(CredentialKind::Key)
    }

    /// Authenticates and authorises the caller. Returns the principal, if the route requires a user or an administrator.
    async fn authenticate(&self, head: &mut Parts) -> Result<Option<Arc<Principal>>, Problem> {
        if self.is_nested()
            && let Some(info) = head.extensions.get_mut::<RequestInfo>()
        {
            info.via = Transport::Mcp;
        }
        let info = head.extensions.get::<RequestInfo>().cloned();
        let info = info.ok_or_else(|| Problem::new(Code::Internal, "the request was not prepared"))?;
        if self.access == Access::Public {
            return Ok(None);
        }
        let via = info.via;
        let credential = self.credential(&head.headers);
        let has_token = matches!(credential, Ok(Credential::AccessToken(_)));
        let Some(challenge) = challenge(&self.app, via, has_token) else {
            return self.admit(head, credential?, info).await;
        };
        head.extensions.insert(challenge.clone());
        let admitted = match credential {
            Ok(credential) => self.admit(head, credential, info).await,
            Err(problem) => Err(problem),
        };
        admitted.map_err(|problem| challenge.add_to(problem))
    }

    async fn admit(
        &self,
        head: &mut Parts,
        credential: Credential,
        info: RequestInfo,
    ) -> Result<Option<Arc<Principal>>, Problem> {
        let identity = match &credential {
            Credential::AccessToken(token) => self.app.service.identities().identify(token, info).await?,
            stored => self.app.service.core().identify(stored, info).await?,
        };
        tracing::Span::current().record("user_id", identity.user_id());
        check_expected_user(&head.headers, &identity)?;
        if let Err(error) = self.authorize(&identity) {
            return Err(self.refuse(head, &identity, error).await);
        }
        if matches!(self.access, Access::Account(_)) {
            head.extensions.insert(Arc::new(identity));
            return Ok(None);
        }
        let principal = Arc::new(identity.into_principal()?);
        head.extensions.insert(Arc::clone(&principal));
        Ok(Some(principal))
    }

    /// Returns the credential of the request. An API key takes precedence over a cookie, because it was sent deliberately, and
    /// then must be valid. Other authentication schemes are for a proxy in front of the service, and browsers send them by
    /// themselves.
    fn credential(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        let key_only = self.is_nested();
        let accepts_tokens = self.app.service.identities().protected_resource(Transport::Rest).is_some();
        let none = || {
            let token = if accepts_tokens { "an API key or an access token" } else { "an API key" };
            let detail = if key_only {
                format!(
                    "send {token} as `Authorization: Bearer …`; keys are made in the web application, under your account"
                )
            } else {
                format!("sign in, or send {token} as `Authorization: Bearer …`")
            };
            Problem::new(Code::Unauthenticated, detail)
        };
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        if let Some(value) = sent.next() {
            if sent.next().is_some() || !value.as_bytes().contains(&b' ') {
                return Err(none());
            }
            if let Some(token) = bearer_token(value).map(str::trim) {
                // Also a damaged key, which must not be sent to a provider.
                let is_key = resembles_api_key(token) || !accepts_tokens;
                let token = Secret::from(token);
                return Ok(if is_key { Credential::ApiKey(token) } else { Credential::AccessToken(token) });
            }
        }
        let token = self.app.middleware.cookie().read(headers).filter(|_| !key_only).ok_or_else(none)?;
        Ok(Credential::Session(Secret::from(token)))
    }

    /// Checks of a request before its handler runs. Returns the memory that its body needs, in KiB.
    fn prepare(&self, head: &mut Parts, body: &Body) -> Result<usize, Problem> {
        if let Some(parameters) = &self.parameters {
            parameters.check(&head.method, &head.uri)?;
        }
        if !self.is_nested() {
            let representation = accept::negotiate(&head.headers, self.offered)?;
            head.extensions.insert(representation);
            head.extensions.insert(self.body_limit);
            body::check_content_type(&head.method, &head.headers, body, self.body_limit)?;
        }
        Ok(body_memory::required_kib(body, self.body_limit))
    }

    /// Checks whether an authenticated caller may call the route. The service repeats these checks; here they run before any part
    /// of the request is read, and in the same order for all routes.
    fn authorize(&self, identity: &Identity) -> Result<(), ServiceError> {
        if !matches!(self.access, Access::Public | Access::Account(_)) {
            identity.require_no_pending_password_change()?;
        }
        if matches!(self.access, Access::Administrator(_)) {
            identity.require_admin_role()?;
        }
        identity.require_any_tool()?;
        // The holder of a key may always see whose account it belongs to.
        if !matches!(
            self.access,
            Access::Public | Access::Account(CredentialKind::Any) | Access::Principal(CredentialKind::Key)
        ) {
            identity.require_tool(self.access.tool())?;
        }
        if self.access.session_only().is_some() {
            identity.require_session()?;
        }
        Ok(())
    }

    /// Rejects an authenticated caller. The attempt is recorded for traces and administration, and for API keys also when the
    /// operation requires a session or another tool.
    async fn refuse(&self, head: &Parts, identity: &Identity, error: ServiceError) -> Problem {
        let reads = self.access.reads_traces() || self.is_nested();
        let is_audited = reads || matches!(self.access, Access::Administrator(_));
        if is_audited || is_audited_refusal(&error) {
            let request_line = RequestLine::from_head(head);
            self.app
                .service
                .core()
                .record_rejected_call(identity, &error, request_line.rejected_call(self.access))
                .await;
        }
        error.into()
    }

    /// Records a request that the service never received because it could not be read: a request for traces, or a change by an
    /// administrator. The service records its own rejections.
    async fn audit_unreadable(&self, request_line: &RequestLine, caller: &Identity, problem: &Problem) {
        let is_audited = if self.is_nested() {
            // The interface has no record of a request that it could not read.
            request_line.method == Method::POST
        } else {
            let changes = matches!(self.access, Access::Administrator(_)) && !request_line.method.is_safe();
            let is_unreadable =
                !problem.is_reported_by_service() && problem.code().status().is_client_error();
            is_unreadable && (changes || self.access.reads_traces())
        };
        if is_audited {
            let (code, call) = (problem.code().as_str(), request_line.rejected_call(self.access));
            self.app.service.core().record_unparsable_call(caller, code, call).await;
        }
    }
}

/// Whether a refusal of any operation is recorded: the holder of a stolen credential tries what it permits.
fn is_audited_refusal(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::SessionRequired
            | ServiceError::ToolNotPermitted
            | ServiceError::InsufficientScope { .. }
    )
}
