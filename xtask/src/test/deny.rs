//! Checks licences, sources and bans of the service's dependencies against `deny.toml` with cargo-deny, and that the minimum Rust
//! version can compile all of them. `tidy` checks the packages of the web application against the same list of licences.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::cargo_tool::DENY;
use crate::{process, workspace};

/// Advisories are not checked: the result for a commit must not change over time, and must not need a network.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks the dependencies of all platforms; those of other platforms are downloaded.
pub fn check() -> Result<()> {
    let mut deny = Command::new(DENY.ensure()?);
    deny.current_dir(workspace::root()).args(["--locked", "check"]).args(CHECKS);
    process::run(&mut deny)?;
    let unmet = needing_newer(&workspace::metadata_of_all()?);
    ensure!(
        unmet.is_empty(),
        "`rust-version` in Cargo.toml and README.md is older than dependencies need: {}",
        unmet.join(", ")
    );
    Ok(())
}

/// Returns third-party packages that need a newer Rust than the workspace declares. The installed compiler may be newer and would
/// not report them.
fn needing_newer(metadata: &Value) -> Vec<String> {
    let packages = || metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let text = |package: &Value, member: &str| package.get(member).and_then(Value::as_str).map(str::to_owned);
    let version = |text: &str| -> Vec<u64> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let is_own = |package: &Value| package.get("source").is_none_or(Value::is_null);
    let promised =
        packages().filter(|package| is_own(package)).filter_map(|own| text(own, "rust_version")).min();
    let promised = promised.as_deref().map(version).unwrap_or_default();
    let needing = packages().filter(|package| !is_own(package)).filter_map(|package| {
        let needed = text(package, "rust_version")?;
        let is_newer = version(&needed).into_iter().take(2).gt(promised.iter().copied().take(2));
        is_newer.then(|| format!("{} needs {needed}", text(package, "name").unwrap_or_default()))
    });
    needing.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dependencies_that_need_a_newer_compiler_are_named() {
        let package = |name: &str, source: Option<&str>, needed: Option<&str>| json!({ "name": name, "source": source, "rust_version": needed });
        let others = Some("registry+https://example.com");
        let metadata = json!({ "packages": [
            package("own", None, Some("1.94")),
            package("old", others, Some("1.94.1")),
            package("unsaid", others, None),
            package("older", others, Some("1.9.0")),
            package("new", others, Some("1.100.0")),
        ]});
        assert_eq!(needing_newer(&metadata), ["new needs 1.100.0"]);
        assert!(!needing_newer(&json!({ "packages": [package("new", others, Some("1.100"))] })).is_empty());
    }
}
