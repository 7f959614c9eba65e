//! The parts of the OpenAPI document that are common to all operations: the required access, and the errors that the access
//! checks, the extractors of parameters and bodies, and the middleware return. A handler documents its own responses only.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::Response;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, ObjectBuilder, Ref, RefOr, Type};

use crate::access::{Access, CredentialKind};
use crate::body::BodyLimit;
use crate::problem::PROBLEM_JSON;

/// Extension with the required access, in more detail than `security` gives.
const X_ACCESS: &str = "x-access";

/// Extension with the tool that the operation corresponds to: an API key that is limited to tools needs this one.
const X_TOOL: &str = "x-tool";

/// Returns all operations of a path with their methods.
pub(crate) fn by_method(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)]
        .into_iter()
        .filter_map(|(method, operation)| operation.as_mut().map(|operation| (method, operation)))
}

/// Completes the description of an operation.
pub(crate) fn document(
    method: &str,
    path: &str,
    operation: &mut Operation,
    access: Access,
    body_limit: BodyLimit,
    strict_query: bool,
) {
    operation.operation_id = Some(operation_id(method, path));
    operation.security = Some(security(access));
    let extensions = operation.extensions.get_or_insert_default();
    extensions.insert(X_ACCESS.to_owned(), access.as_str().into());
    if let Some(tool) = access.tool() {
        extensions.insert(X_TOOL.to_owned(), tool.name().into());
    }
    let problems = common_problems((method, path), operation, access, body_limit, strict_query);
    for (status, description) in problems.into_iter().chain(clickhouse_problems(operation)) {
        let response = operation.responses.responses.entry(status.to_owned());
        if let RefOr::T(response) = response.or_insert_with(|| Response::default().into()) {
            let own = std::mem::take(&mut response.description);
            response.description =
                if own.is_empty() { description.to_owned() } else { format!("{own}; {description}") };
        }
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            complete(status, response);
        }
    }
}

/// Returns an operation id for generated clients; it is unique, because method and path are.
fn operation_id(method: &str, path: &str) -> String {
    let words =
        path.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn security(access: Access) -> Vec<SecurityRequirement> {
    let none: [&str; 0] = [];
    let session = SecurityRequirement::new("session", none);
    match access {
        Access::Public => Vec::new(),
        _ if access.session_only().is_some() => vec![session],
        _ => vec![session, SecurityRequirement::new("api_key", none)],
    }
}

/// Returns the errors that follow from the method, the path, the access and the body limit.
fn common_problems(
    (method, path): (&str, &str),
    operation: &Operation,
    access: Access,
    body_limit: BodyLimit,
    strict_query: bool,
) -> Vec<(&'static str, &'static str)> {
    let mut problems = vec![
        ("406", "`not_acceptable`: no media type in `Accept` is available here"),
        ("500", "`internal`: an internal error of the service"),
    ];
    if strict_query {
        problems.push(("400", "`invalid_request`: a malformed or unknown parameter"));
    }
    if operation.request_body.is_some() {
        problems.extend([
            ("400", "`invalid_request`: a malformed body"),
            ("408", "`request_timeout`: the body did not arrive within 30 seconds"),
            match body_limit {
                BodyLimit::AnonymousJson | BodyLimit::Form => {
                    ("413", "`payload_too_large`: the body is above 16 KiB")
                }
                BodyLimit::Json => ("413", "`payload_too_large`: the body is above 1 MiB"),
                BodyLimit::ModelFile => ("413", "`payload_too_large`: the body is above 8 MiB"),
            },
        ]);
        if body_limit != BodyLimit::AnonymousJson {
            problems.push(("503", "`overloaded`: too many large requests are in progress"));
        }
    }
    if access != Access::Public {
        problems.push(("401", "`unauthenticated`: no valid session, key or access token"));
        problems.push((
            "403",
            "`sign_in_refused`: the person of the access token has no user here and gets none",
        ));
        problems.push(("502", "`identity_provider`: the keys to verify access tokens cannot be fetched"));
        problems
            .push(("412", "`user_mismatch`: the user is not the one whose id `Tracewarden-User` contains"));
        problems.push(("503", "`unavailable`: the application database cannot be reached"));
    }
    if matches!(access, Access::Principal(_) | Access::Administrator(_)) {
        problems.push(("403", "`password_change_required`: the password must be changed first"));
    }
    if matches!(access, Access::Administrator(_)) {
        problems.push(("403", "`forbidden`: not an administrator"));
    }
    if access.tool().is_some() {
        problems.push((
            "403",
            "`forbidden`, `insufficient_scope`: the API key or the access token is limited to other tools",
        ));
    } else if matches!(access, Access::Principal(_) | Access::Account(CredentialKind::Session(_))) {
        problems.push(("403", "`forbidden`: a scoped API key can only read traces"));
    }
    if access.session_only().is_some() {
        problems.push(("403", "`session_required`: an API key is not accepted"));
    }
    if path.contains("{username}") {
        problems.push(("404", "`not_found`: no such user"));
    }
    if method != "get" {
        problems.push(("403", "`cross_site`: a browser sent the request for another site"));
        problems.push(match body_limit {
            BodyLimit::AnonymousJson | BodyLimit::Json | BodyLimit::Form => {
                ("415", "`unsupported_media_type`: the `Content-Type` is not JSON")
            }
            BodyLimit::ModelFile => {
                ("415", "`unsupported_media_type`: the `Content-Type` is neither YAML nor JSON")
            }
        });
    }
    problems
}

/// Returns the errors of operations that query ClickHouse: those with a 504. Of these, the ones that evaluate policies on spans
/// name `query_memory` in it.
fn clickhouse_problems(operation: &Operation) -> Vec<(&'static str, &'static str)> {
    let Some(RefOr::T(timeout)) = operation.responses.responses.get("504") else { return Vec::new() };
    let mut problems = vec![
        ("502", "`clickhouse_error`: ClickHouse failed"),
        ("503", "`unavailable`: ClickHouse cannot be reached"),
    ];
    if timeout.description.contains("`query_memory`") {
        problems.extend([
            ("409", "`not_bound`: no table is bound as trace source"),
            ("409", "`schema_changed`: the type of a field that the decision uses has changed"),
            ("429", "`too_many_queries`: the user has reached the limit of concurrent queries"),
        ]);
    }
    problems
}

/// Adds the headers and the body that follow from the status alone.
fn complete(status: &str, response: &mut Response) {
    let mut header = |name: &str, kind: Type, description: &str| {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build();
        response.headers.entry(name.to_owned()).or_insert_with(|| header.into());
    };
    header("X-Request-Id", Type::String, "Identifies the request in the log and in the audit log");
    match status {
        "401" => header("WWW-Authenticate", Type::String, "`Bearer`"),
        "429" | "503" => header("Retry-After", Type::Integer, "Seconds to wait"),
        _ => {}
    }
    if status.starts_with(['4', '5']) && response.content.is_empty() {
        let problem = Content::new(Some(Ref::from_schema_name("ProblemDetails")));
        response.content.insert(PROBLEM_JSON.to_owned(), problem.into());
    }
}
