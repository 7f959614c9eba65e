//! The declaration of routes. A route exists only through [`Routes::add`], which demands who may call it: no route can
//! be without that decision, and the OpenAPI document tells the same as the code does.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::header;
use http::request::Parts;
use tracewarden_service::{Credential, Identity, Principal, RequestInfo, Secret};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::App;
use crate::accept::{self, Representation};
use crate::code::Code;
use crate::problem::{PROBLEM_JSON, Problem};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody.
    Public,
    /// Whoever has a valid session or key, even while the password must be changed first.
    Account,
    /// Whoever has a valid session or key.
    Principal,
    /// An administrator.
    Administrator,
}

/// Routes with their access decided.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    app: App,
}

/// What stands before a route's handler.
#[derive(Clone)]
struct Gate {
    app: App,
    access: Access,
    offered: &'static [Representation],
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
        (schemas, mut paths, methods): UtoipaMethodRouter<App>,
    ) -> Self {
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                operation.operation_id = Some(operation_id(method, path));
                document(operation, access);
            }
        }
        let gate = Gate { app: self.app.clone(), access, offered };
        let methods = methods.route_layer(middleware::from_fn_with_state(gate, pass));
        Self { router: self.router.routes((schemas, paths, methods)), app: self.app }
    }

    /// The router and the document that describes it.
    pub(crate) fn finish(self) -> (axum::Router<App>, utoipa::openapi::OpenApi) {
        self.router.split_for_parts()
    }
}

/// Decides before the handler runs and before the body is read: who calls, whether they may, whether they can be
/// answered.
async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    match gate.admit(&mut request).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// All operations of a path with their methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)]
        .into_iter()
        .filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

/// A name for generated clients; unique, since method and path are.
fn operation_id(method: &str, path: &str) -> String {
    let words =
        path.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// Writes into the document what the gate does.
fn document(operation: &mut Operation, access: Access) {
    let none: [&str; 0] = [];
    operation.security = Some(match access {
        Access::Public => Vec::new(),
        _ => vec![SecurityRequirement::new("session", none), SecurityRequirement::new("api_key", none)],
    });
    let refusals: &[(&str, &str)] = match access {
        Access::Public => &[],
        Access::Account => &[("401", "No valid session or key")],
        Access::Principal => {
            &[("401", "No valid session or key"), ("403", "The password must be changed first")]
        }
        Access::Administrator => &[("401", "No valid session or key"), ("403", "Not an administrator")],
    };
    for (status, description) in refusals.iter().chain(&[("default", "Any other problem")]) {
        let problem = ResponseBuilder::new()
            .description(*description)
            .content(PROBLEM_JSON, Content::new(Some(Ref::from_schema_name("ProblemDetails"))))
            .build();
        operation.responses.responses.entry((*status).to_owned()).or_insert(problem.into());
    }
}

impl Gate {
    async fn admit(&self, request: &mut Request) -> Result<(), Problem> {
        let info = request.extensions().get::<RequestInfo>().cloned();
        let info = info.ok_or_else(|| Problem::new(Code::Internal, "the request was not prepared"))?;
        match self.access {
            Access::Public => {}
            Access::Account => {
                let credential = credential(&self.app, request)?;
                let identity = self.app.service.identify(&credential, info).await?;
                request.extensions_mut().insert(Arc::new(identity));
            }
            Access::Principal | Access::Administrator => {
                let credential = credential(&self.app, request)?;
                let principal = self.app.service.authenticate(&credential, info).await?;
                if self.access == Access::Administrator && principal.require_admin().is_err() {
                    let method = request.method().as_str();
                    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
                    let target = request.uri().path();
                    let refused = self.app.service.refuse_administration(&principal, method, route, target);
                    return Err(refused.await.into());
                }
                request.extensions_mut().insert(Arc::new(principal));
            }
        }
        let representation = accept::negotiate(request.headers(), self.offered)?;
        request.extensions_mut().insert(representation);
        Ok(())
    }
}

/// What the request carries to show who calls. A key wins over a cookie, since somebody put it there on purpose; then it
/// also has to be valid.
fn credential(app: &App, request: &Request) -> Result<Credential, Problem> {
    let none =
        || Problem::new(Code::Unauthenticated, "sign in, or send an API key as `Authorization: Bearer …`");
    let mut sent = request.headers().get_all(header::AUTHORIZATION).iter();
    if let Some(value) = sent.next() {
        let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(none)?;
        if sent.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") {
            return Err(none());
        }
        return Ok(Credential::ApiKey(Secret::from(key.trim())));
    }
    let token = app.edge.cookie().read(request.headers()).ok_or_else(none)?;
    Ok(Credential::Session(Secret::from(token)))
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
