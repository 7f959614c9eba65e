//! Checks that dependencies between the workspace's crates point in one direction.

use anyhow::{Context, Result};
use serde_json::Value;

/// Crates that each crate may depend on, for its code and its tests. An unlisted crate is a violation, so that new crates are
/// added here.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "tracewarden",
        &["rest", "mcp", "documents", "service", "appdb", "identity", "clickhouse", "policy", "model"],
    ),
    ("rest", &["documents", "service", "model"]),
    ("documents", &["service", "model"]),
    ("mcp", &["service", "model"]),
    ("service", &["appdb", "identity", "clickhouse", "policy", "model"]),
    ("clickhouse", &["policy", "model"]),
    ("policy", &["model"]),
    ("appdb", &["model"]),
    ("identity", &["model"]),
    ("model", &[]),
    ("localstore", &[]),
    ("sample-data", &[]),
    // Running a whole application in-process needs every part of it.
    (
        "testkit",
        &[
            "tracewarden",
            "rest",
            "mcp",
            "documents",
            "service",
            "appdb",
            "clickhouse",
            "policy",
            "model",
            "localstore",
        ],
    ),
    ("xtask", &["testkit", "sample-data"]),
];

/// Crates that only tests may depend on: the whole application is tested in the crate that assembles it, and the SQL of policies
/// in the crate that generates it, with generated policies and spans.
const ALLOWED_FOR_TESTS: &[(&str, &[&str])] = &[
    ("appdb", &["testkit"]),
    ("identity", &["testkit"]),
    ("service", &["testkit"]),
    ("tracewarden", &["localstore", "testkit", "sample-data"]),
    ("clickhouse", &["testkit"]),
    ("policy", &["testkit"]),
    ("localstore", &["testkit"]),
];

pub fn violations(metadata: &Value) -> Result<Vec<String>> {
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("`cargo metadata` lists no packages")?;
    Ok(packages.iter().flat_map(violations_of).collect())
}

fn violations_of(package: &Value) -> Vec<String> {
    let name = short(text(package, "name"));
    let Some(allowed) = listed(ALLOWED, name) else {
        return vec![format!(
            "crate `{name}`: not listed in xtask/src/tidy/dependencies.rs; decide what it may depend on"
        )];
    };
    let for_tests = listed(ALLOWED_FOR_TESTS, name).unwrap_or_default();
    let dependencies =
        package.get("dependencies").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    dependencies
        .iter()
        // Only workspace members are path dependencies.
        .filter(|dependency| dependency.get("path").is_some_and(Value::is_string))
        .filter_map(|dependency| {
            let other = short(text(dependency, "name"));
            let in_tests_only = text(dependency, "kind") == "dev";
            let fine = allowed.contains(&other) || (in_tests_only && for_tests.contains(&other));
            (!fine).then(|| format!("crate `{name}`: must not depend on `{other}` (see ARCHITECTURE.md)"))
        })
        .collect()
}

fn listed(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(listed, _)| *listed == name).map(|(_, others)| *others)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.strip_prefix("tracewarden-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(from: &str, to: &str, kind: Value) -> Vec<String> {
        let dependency = json!({"name": to, "kind": kind, "path": "/somewhere"});
        violations(&json!({"packages": [{"name": from, "dependencies": [dependency]}]})).unwrap()
    }

    #[test]
    fn dependencies_against_the_layers_are_found() {
        assert_eq!(check("tracewarden-policy", "tracewarden-clickhouse", Value::Null).len(), 1);
        assert_eq!(check("tracewarden-rest", "tracewarden-appdb", Value::Null).len(), 1);
        assert_eq!(check("tracewarden-model", "tracewarden-model", Value::Null).len(), 1);
        assert_eq!(check("tracewarden-localstore", "tracewarden-model", json!("build")).len(), 1);
        assert!(check("tracewarden-rest", "tracewarden-service", Value::Null).is_empty());
        assert!(check("tracewarden", "tracewarden-rest", Value::Null).is_empty());
    }

    #[test]
    fn the_test_kit_is_for_tests_only() {
        assert!(check("tracewarden-clickhouse", "tracewarden-testkit", json!("dev")).is_empty());
        assert_eq!(check("tracewarden-clickhouse", "tracewarden-testkit", Value::Null).len(), 1);
        assert!(check("tracewarden", "tracewarden-testkit", json!("dev")).is_empty());
        assert_eq!(check("tracewarden", "tracewarden-testkit", Value::Null).len(), 1);
        assert_eq!(check("tracewarden-rest", "tracewarden-testkit", json!("dev")).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_a_violation() {
        assert_eq!(
            violations(&json!({"packages": [{"name": "tracewarden-new", "dependencies": []}]}))
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn registry_crates_are_ignored() {
        let package = json!({"name": "tracewarden-model", "dependencies": [{"name": "jiff", "kind": null}]});
        assert!(violations(&json!({"packages": [package]})).unwrap().is_empty());
    }
}
