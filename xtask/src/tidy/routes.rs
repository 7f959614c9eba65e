//! Checks that API routes are declared in one place, which requires their authorisation and their description. A route declared
//! elsewhere would have no access check and would be missing from the documentation.

use super::Source;

/// The only file that may declare routes.
const DECLARATIONS: &str = "crates/rest/src/routes.rs";

/// Directories of the code that handles requests on the service's listener.
const SERVICE_SOURCES: [&str; 3] = ["crates/rest/src/", "crates/mcp/src/", "crates/tracewarden/src/"];

/// The metrics listener is separate.
const METRICS: &str = "crates/tracewarden/src/metrics.rs";

/// Methods that make a router respond to a path.
const DECLARING_METHODS: &[&str] = &[
    ".route(",
    ".routes(",
    ".route_service(",
    ".nest(",
    ".nest_service(",
    ".merge(",
    ".fallback(",
    ".fallback_service(",
    ".method_not_allowed_fallback(",
];

/// The MCP interface, which handles all its requests in one fallback. `Routes::add_nested_interface` declares its path, with the access
/// check.
const MCP_ROUTE: (&str, &str) = ("crates/mcp/src/interface.rs", ".fallback_service(");

/// Declares public paths, which need no access check.
const WEB: &str = "add_web";

pub fn violations(sources: &[Source]) -> Vec<String> {
    let answers =
        |source: &&Source| SERVICE_SOURCES.iter().any(|directory| source.path.starts_with(directory));
    let of_one = |source: &Source| [declared(source), public_paths(source)].concat();
    sources.iter().filter(answers).flat_map(of_one).collect()
}

/// Returns the source without its tests, which may build their own routers. Tests are at the end of a file.
fn program(source: &Source) -> &str {
    source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

fn declared(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    let mut found = Vec::new();
    if [DECLARATIONS, METRICS].contains(&path) {
        return found;
    }
    for (index, line) in program(source).lines().enumerate() {
        let declares = |method: &&&str| line.contains(**method) && (path, **method) != MCP_ROUTE;
        for method in DECLARING_METHODS.iter().filter(declares) {
            found.push(format!(
                "{}:{}: `{method}…)`; declare routes with `Routes::add`, which requires an access rule",
                source.path,
                index + 1
            ));
        }
    }
    found
}

/// Returns uses of [`WEB`] for anything other than the web application.
fn public_paths(source: &Source) -> Vec<String> {
    let program = program(source);
    let mut found = Vec::new();
    for (at, _) in program.match_indices(WEB) {
        let (before, used) = program.split_at(at);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_use = !line.trim_start().starts_with("//") && !line.ends_with("fn ");
        if is_use && !is_of_web_application(used) {
            found.push(format!(
                "{}:{}: `{WEB}` is for the paths of the web application, written out in the call; declare \
                 routes with `Routes::add`, which requires an access rule",
                source.path,
                before.matches('\n').count() + 1
            ));
        }
    }
    found
}

/// Whether this is a call with literal paths that all belong to the web application. No API path begins with them.
fn is_of_web_application(used: &str) -> bool {
    let list = used.strip_prefix(WEB).and_then(|rest| rest.trim_start().strip_prefix('('));
    let list = list.and_then(|rest| rest.trim_start().strip_prefix("&[")?.split_once(']'));
    let Some((list, _)) = list else { return false };
    let mut paths = list.split(',').map(str::trim).filter(|path| !path.is_empty());
    paths.all(|path| ["\"/\"", "\"/ui\""].contains(&path) || path.starts_with("\"/ui/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn a_route_outside_the_declarations_is_found() {
        let found = |path: &str, text: &str| violations(&[source(path, text)]).len();
        for method in DECLARING_METHODS {
            assert_eq!(
                found("crates/rest/src/lib.rs", &format!("router\n    {method}\"/x\", y)")),
                1,
                "{method}"
            );
        }
        assert_eq!(found(DECLARATIONS, ".route(path, methods)"), 0);
        assert_eq!(
            found("crates/rest/src/middleware.rs", "#[cfg(test)]\nmod tests { r.route(\"/x\", y) }"),
            0
        );
        assert_eq!(found("crates/rest/src/lib.rs", "#[cfg(test)]\nmod fuzz;\nr.route(\"/x\", y)"), 1);
        let (path, method) = MCP_ROUTE;
        assert_eq!(found(path, &format!("Router::new(){method}answering)")), 0);
        assert_eq!(found("crates/mcp/src/lib.rs", &format!("Router::new(){method}answering)")), 1);
        assert_eq!(found(path, "r.route(\"/x\", y)"), 1);
        assert_eq!(found(path, "r.method_not_allowed_fallback(y)"), 1);
        assert_eq!(found(METRICS, "r.route(\"/metrics\", y)"), 0);
        assert_eq!(found("crates/localstore/src/http/mod.rs", ".route(\"/\", y)"), 0);
    }

    #[test]
    fn public_paths_belong_to_the_web_application() {
        let found = |path: &str, text: &str| violations(&[source(path, text)]).len();
        for allowed in [
            "routes.add_web(&[\"/\", \"/ui\"], redirect).add_web(&[\"/ui/\", \"/ui/{*path}\"], get)",
            "routes\n    .add_web(\n        &[\n            \"/\",\n            \"/ui/x\",\n        ],\n        get,\n    )",
            "/// Besides, [`Routes::add_web`] declares.",
            "pub(crate) fn add_web<H, T>(self, paths: &[&str], handler: H) -> Self",
        ] {
            assert_eq!(found("crates/rest/src/lib.rs", allowed), 0, "{allowed}");
        }
        for refused in [
            ".add_web(&[\"/users\"], get)",
            ".add_web(&[\"/ui/\", \"/uid\"], get)",
            ".add_web(\n    &[\n        \"/ui/\",\n        \"/{*path}\",\n    ],\n    get,\n)",
            ".add_web(PATHS, get)",
            ".add_web(&[PATH], get)",
            ".add_web::<_, ()>(&[\"/ui\"], get)",
            "let declare = Routes::add_web;",
        ] {
            for path in ["crates/rest/src/lib.rs", DECLARATIONS, "crates/mcp/src/lib.rs"] {
                assert_eq!(found(path, refused), 1, "{path}: {refused}");
            }
        }
        let found_violations = violations(&[source("crates/rest/src/lib.rs", "a\n  .add_web(PATHS, get)")]);
        assert!(
            found_violations[0].starts_with("crates/rest/src/lib.rs:2: `add_web`"),
            "{found_violations:?}"
        );
    }
}
