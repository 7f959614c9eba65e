//! The declaration of routes. A route of the API exists only through [`Routes::add`], which demands who may call it: no
//! route can be without that decision, and the OpenAPI document tells the same as the code does.

use std::ops::Deref;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::request::Parts;
use http::{HeaderMap, Method, Uri, header};
use tracewarden_service::{
    Credential, Identity, Principal, RefusedCall, RequestInfo, Secret, ServiceError, SessionOnly, Tool,
    Transport,
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::App;
use crate::accept::{self, Representation};
use crate::body::{self, Takes};
use crate::code::Code;
use crate::cross_site::key_in;
use crate::mount::Mount;
use crate::operations;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::room;

/// Who may call a route: everything about it that does not depend on what the request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody.
    Public,
    /// Any user, even while the password must be changed first.
    Account(By),
    /// Any user.
    Principal(By),
    /// An administrator.
    Administrator(By),
}

/// With which credentials a route can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A session or an API key. A narrowed one sees its owner's account, and no more.
    Any,
    /// A session or an API key; a narrowed one, unless it is limited to other tools: the route is what REST has for it.
    Tool(Tool),
    /// A session alone: what a stolen key must not be able to do.
    Session(SessionOnly),
    /// An API key alone, narrowed or not: what is done with it decides whether it is good for that. A cookie, which browsers
    /// send by themselves, does not count.
    Key,
}

impl Access {
    /// As the OpenAPI document spells who may call.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Account(_) => "account",
            Self::Principal(_) => "user",
            Self::Administrator(_) => "administrator",
        }
    }

    /// The tool that this is the route of, if any.
    pub(crate) fn tool(self) -> Option<Tool> {
        match self {
            Self::Account(By::Tool(tool)) | Self::Principal(By::Tool(tool)) => Some(tool),
            _ => None,
        }
    }

    /// Whether it gives out traces.
    fn reads_traces(self) -> bool {
        self.tool().is_some_and(|tool| tool.action().is_some())
    }

    /// What only a session may do here, if anything.
    pub(crate) fn session_only(self) -> Option<SessionOnly> {
        match self {
            Self::Account(By::Session(what))
            | Self::Principal(By::Session(what))
            | Self::Administrator(By::Session(what)) => Some(what),
            _ => None,
        }
    }
}

/// Routes with their access decided.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    app: App,
}

/// Marks an answer to a request that changes nothing, whatever its method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadsOnly;

/// What stands before a route's handler.
#[derive(Clone)]
struct Gate {
    app: App,
    access: Access,
    offered: &'static [Representation],
    takes: Takes,
    /// `None` where any query is taken.
    parameters: Option<Parameters>,
}

impl Routes {
    pub(crate) fn new(app: App, document: utoipa::openapi::OpenApi) -> Self {
        Self { router: OpenApiRouter::with_openapi(document), app }
    }

    /// Declares routes that answer with JSON.
    pub(crate) fn add(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_offering(access, &[Representation::Json], routes)
    }

    /// Declares routes that answer with one of several representations.
    pub(crate) fn add_offering(
        self,
        access: Access,
        offered: &'static [Representation],
        routes: UtoipaMethodRouter<App>,
    ) -> Self {
        let takes = if access == Access::Public { Takes::LittleJson } else { Takes::Json };
        self.add_gated(access, offered, takes, true, routes)
    }

    /// Declares routes for probes. Any query is taken: load balancers add parameters of their own.
    pub(crate) fn add_probe(self, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_gated(Access::Public, &[Representation::Json], Takes::LittleJson, false, routes)
    }

    /// Declares routes that take a model file and answer with JSON.
    pub(crate) fn add_taking_model_file(self, access: Access, routes: UtoipaMethodRouter<App>) -> Self {
        self.add_gated(access, &[Representation::Json], Takes::ModelFile, true, routes)
    }

    fn add_gated(
        self,
        access: Access,
        offered: &'static [Representation],
        takes: Takes,
        strict_query: bool,
        (schemas, mut paths, methods): UtoipaMethodRouter<App>,
    ) -> Self {
        let mut declared = Parameters::default();
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations::of(item) {
                declared.declare(method, operation);
                operations::document(method, path, operation, access, takes, strict_query);
            }
        }
        let parameters = strict_query.then_some(declared);
        let gate = Gate { app: self.app.clone(), access, offered, takes, parameters };
        let methods = methods.route_layer(middleware::from_fn_with_state(gate, pass));
        Self { router: self.router.routes((schemas, paths, methods)), app: self.app }
    }

    /// Declares paths of the web application: read by anybody, and no operation of the API.
    pub(crate) fn add_web<H, T>(self, paths: &[&str], handler: H) -> Self
    where
        H: Handler<T, App> + Clone,
        T: 'static,
    {
        let add = |router: OpenApiRouter<App>, path: &&str| router.route(path, get(handler.clone()));
        Self { router: paths.iter().fold(self.router, add), app: self.app }
    }

    /// Declares the path of another interface: no operation of the API, and called with API keys.
    pub(crate) fn add_mount(self, mount: Mount) -> Self {
        let gate = Gate {
            app: self.app.clone(),
            access: Access::Principal(By::Key),
            offered: &[],
            takes: Takes::Json,
            parameters: None,
        };
        let path = mount.path;
        let answer = any(move |request: Request| mount.clone().answer(request));
        let answer = answer.layer(middleware::from_fn_with_state(gate, pass_to_interface));
        // Clients are configured by hand, with and without a slash at the end.
        let router = self.router.route(path, answer.clone()).route(&format!("{path}/"), answer);
        Self { router, app: self.app }
    }

    /// The router and the document that describes it.
    pub(crate) fn finish(self) -> (axum::Router<App>, utoipa::openapi::OpenApi) {
        self.router.split_for_parts()
    }
}

/// Decides before the handler runs and before the body is read: who calls, whether they may, whether they can be
/// answered.
async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let caller = match gate.admit(&mut head).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let called = Called::of(&head);
    let room = match gate.prepare(&mut head, &body) {
        Ok(kib) => room::room(user_of(&head), kib).await,
        Err(problem) => Err(problem),
    };
    let mut response = match room {
        Ok(_room) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    };
    if gate.access.tool().is_some() {
        response.extensions_mut().insert(ReadsOnly);
    }
    if caller.as_ref().is_some_and(|caller| caller.is_admin())
        && let Some(problem) = response.extensions_mut().get_mut::<Problem>()
    {
        problem.tell_administrator();
    }
    if let (Some(caller), Some(problem)) = (caller, response.extensions().get::<Problem>()) {
        gate.note_unreadable(&called, &caller, problem).await;
    }
    response
}

/// Under whom large bodies are counted: whom the gate has let in. Strangers are all one.
fn user_of(head: &Parts) -> &str {
    let principal = head.extensions.get::<Arc<Principal>>().map(|principal| principal.user_id());
    let account = || head.extensions.get::<Arc<Identity>>().map(|identity| identity.user_id());
    principal.or_else(account).unwrap_or_default()
}

/// Decides who calls an interface, which says itself what it can read.
async fn pass_to_interface(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if let Some(info) = request.extensions_mut().get_mut::<RequestInfo>() {
        info.via = Transport::Mcp;
    }
    let (mut head, body) = request.into_parts();
    let caller = match gate.admit(&mut head).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let called = Called::of(&head);
    let kib = room::kept_kib(&body, gate.takes);
    let response = match room::room(user_of(&head), kib).await {
        Ok(_room) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    };
    // What the interface did not get to read, it did not record.
    if called.method == Method::POST
        && let (Some(caller), Some(problem)) = (caller, response.extensions().get::<Problem>())
    {
        let code = problem.code().as_str();
        gate.app.service.note_unreadable_call(&caller, code, called.refused(gate.access)).await;
    }
    response
}

/// What was called, as its record tells.
struct Called {
    method: Method,
    route: Option<MatchedPath>,
    uri: Uri,
}

impl Called {
    fn of(head: &Parts) -> Self {
        let route = head.extensions.get::<MatchedPath>().cloned();
        Self { method: head.method.clone(), route, uri: head.uri.clone() }
    }

    fn refused(&self, access: Access) -> RefusedCall<'_> {
        RefusedCall {
            session_only: access.session_only(),
            tool: access.tool(),
            method: self.method.as_str(),
            route: self.route.as_ref().map(MatchedPath::as_str),
            path: self.uri.path(),
        }
    }
}

impl Gate {
    /// Lets the caller in, or not; a user or an administrator is given back.
    async fn admit(&self, head: &mut Parts) -> Result<Option<Arc<Principal>>, Problem> {
        let info = head.extensions.get::<RequestInfo>().cloned();
        let info = info.ok_or_else(|| Problem::new(Code::Internal, "the request was not prepared"))?;
        if self.access == Access::Public {
            return Ok(None);
        }
        let credential = self.credential(&head.headers)?;
        let identity = self.app.service.identify(&credential, info).await?;
        tracing::Span::current().record("user_id", identity.user_id());
        if let Err(error) = self.allow(&identity) {
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

    /// What the request carries to show who calls. A key wins over a cookie, since somebody put it there on purpose; then
    /// it also has to be valid. What is of another scheme is for a proxy in front, and browsers attach it by themselves.
    fn credential(&self, headers: &HeaderMap) -> Result<Credential, Problem> {
        let by_key = self.access == Access::Principal(By::Key);
        let none = || {
            Problem::new(
                Code::Unauthenticated,
                if by_key {
                    "send an API key as `Authorization: Bearer …`; keys are made in the web application, under your account"
                } else {
                    "sign in, or send an API key as `Authorization: Bearer …`"
                },
            )
        };
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        if let Some(value) = sent.next() {
            if sent.next().is_some() || !value.as_bytes().contains(&b' ') {
                return Err(none());
            }
            if let Some(key) = key_in(value) {
                return Ok(Credential::ApiKey(Secret::from(key.trim())));
            }
        }
        let token = self.app.edge.cookie().read(headers).filter(|_| !by_key).ok_or_else(none)?;
        Ok(Credential::Session(Secret::from(token)))
    }

    /// What can be refused of any request before its handler looks at it; and how much room its body needs, in KiB.
    fn prepare(&self, head: &mut Parts, body: &Body) -> Result<usize, Problem> {
        if let Some(parameters) = &self.parameters {
            parameters.check(&head.method, &head.uri)?;
        }
        let representation = accept::negotiate(&head.headers, self.offered)?;
        head.extensions.insert(representation);
        head.extensions.insert(self.takes);
        body::refuse_other_notations(&head.method, &head.headers, body, self.takes)?;
        Ok(room::kept_kib(body, self.takes))
    }

    /// Whether a known caller may call. The use cases ask the same again; here it is asked before anything of the request
    /// is read, and in one order for all routes.
    fn allow(&self, identity: &Identity) -> Result<(), ServiceError> {
        if !matches!(self.access, Access::Public | Access::Account(_)) {
            identity.require_settled_password()?;
        }
        if matches!(self.access, Access::Administrator(_)) {
            identity.require_admin_role()?;
        }
        // Whoever has a key may see whose it is.
        if !matches!(self.access, Access::Public | Access::Account(By::Any) | Access::Principal(By::Key)) {
            identity.require_tool(self.access.tool())?;
        }
        if self.access.session_only().is_some() {
            identity.require_own_session()?;
        }
        Ok(())
    }

    /// Refuses a known caller. It is recorded where it is of interest who tried: traces, administration, and with a key
    /// what only a session may do or what is outside its tools.
    async fn refuse(&self, head: &Parts, identity: &Identity, error: ServiceError) -> Problem {
        let reads = self.access.reads_traces() || self.access == Access::Principal(By::Key);
        let of_interest = reads || matches!(self.access, Access::Administrator(_));
        if of_interest || matches!(error, ServiceError::SessionRequired | ServiceError::OutsideTools) {
            let called = Called::of(head);
            self.app.service.note_refused_call(identity, &error, called.refused(self.access)).await;
        }
        error.into()
    }

    /// Records a request that no use case got to see, because it could not be read: one for traces or for a change by
    /// an administrator. Use cases record what they refuse themselves.
    async fn note_unreadable(&self, called: &Called, caller: &Identity, problem: &Problem) {
        let changes = matches!(self.access, Access::Administrator(_)) && !called.method.is_safe();
        let unread = !problem.is_of_service() && problem.code().status().is_client_error();
        if unread && (changes || self.access.reads_traces()) {
            let (code, call) = (problem.code().as_str(), called.refused(self.access));
            self.app.service.note_unreadable_call(caller, code, call).await;
        }
    }
}

/// The caller of a route that answers also while the password must be changed first.
pub(crate) struct Account(Arc<Identity>);

/// The caller.
pub(crate) struct Caller(Arc<Principal>);

impl Deref for Account {
    type Target = Identity;
    fn deref(&self) -> &Identity {
        &self.0
    }
}

impl Deref for Caller {
    type Target = Principal;
    fn deref(&self) -> &Principal {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Representation {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        extension(parts)
    }
}

/// What the gate found out. A handler that asks for more than its route's access class gives fails closed.
fn extension<T: Clone + Send + Sync + 'static>(parts: &Parts) -> Result<T, Problem> {
    let found = parts.extensions.get::<T>().cloned();
    found.ok_or_else(|| Problem::new(Code::Internal, "the route does not say who may call it"))
}
