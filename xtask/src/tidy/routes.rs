//! Routes of the API are declared in one place, which demands who may call them and describes them: a route beside it
//! would be one without a gate, in no document and in no table.

use super::Source;

/// The one place.
const DECLARATIONS: &str = "crates/rest/src/routes.rs";

/// What answers on the service's listener, and nothing else.
const OF_THE_SERVICE: [&str; 3] = ["crates/rest/src/", "crates/mcp/src/", "crates/tracewarden/src/"];

/// Another listener.
const METRICS: &str = "crates/tracewarden/src/metrics.rs";

/// What makes a path of the API answer, whichever router it is called on.
const DECLARING: &[&str] =
    &[".route(", ".routes(", ".route_service(", ".nest(", ".nest_service(", ".merge(", ".fallback("];

pub fn violations(sources: &[Source]) -> Vec<String> {
    let declares = |source: &&Source| {
        OF_THE_SERVICE.iter().any(|directory| source.path.starts_with(directory))
            && ![DECLARATIONS, METRICS].contains(&source.path.as_str())
    };
    sources.iter().filter(declares).flat_map(declared).collect()
}

fn declared(source: &Source) -> Vec<String> {
    // Tests may build routers of their own; they stand at the end of a file.
    let program = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (index, line) in program.lines().enumerate() {
        for word in DECLARING.iter().filter(|word| line.contains(**word)) {
            found.push(format!(
                "{}:{}: `{word}…)`; declare routes with `Routes::add`, which demands who may call them",
                source.path,
                index + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn a_route_beside_the_declarations_is_found() {
        let found = |path: &str, text: &str| violations(&[source(path, text)]).len();
        for word in DECLARING {
            assert_eq!(
                found("crates/rest/src/lib.rs", &format!("router\n    {word}\"/x\", y)")),
                1,
                "{word}"
            );
        }
        assert_eq!(found(DECLARATIONS, ".route(path, methods)"), 0);
        assert_eq!(found("crates/rest/src/edge.rs", "#[cfg(test)]\nmod tests { r.route(\"/x\", y) }"), 0);
        assert_eq!(found("crates/rest/src/lib.rs", "#[cfg(test)]\nmod fuzz;\nr.route(\"/x\", y)"), 1);
        assert_eq!(found("crates/mcp/src/interface.rs", "r.route(\"/x\", y)"), 1);
        assert_eq!(found(METRICS, "r.route(\"/metrics\", y)"), 0);
        assert_eq!(found("crates/localstore/src/http/mod.rs", ".route(\"/\", y)"), 0);
    }
}
