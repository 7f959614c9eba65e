//! Licences, sources and bans of what the service is linked with: `deny.toml`, by cargo-deny. What its pages are made of is
//! looked at by `tidy`, with the same list of licences. And that the version of Rust that is promised can compile all of it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cache, process, workspace};

/// Of cargo-deny. With another version the same file may mean something else.
const VERSION: &str = "0.20.2";

/// Advisories are left out: what holds of a commit today must hold of it tomorrow, and without a network.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks the dependencies on all platforms; those of other ones are fetched for it.
pub fn check() -> Result<()> {
    let mut deny = Command::new(ensure()?);
    deny.current_dir(workspace::root()).args(["--locked", "check"]).args(CHECKS);
    process::run(&mut deny)?;
    let unmet = needing_newer(&workspace::metadata_of_all()?);
    ensure!(
        unmet.is_empty(),
        "`rust-version` in Cargo.toml, and what README.md says, is older than dependencies need: {}",
        unmet.join(", ")
    );
    Ok(())
}

/// Packages of others that need a newer Rust than the workspace says; a newer compiler, as the one here, would not say so.
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

/// Returns the program, building it into the user's cache when it is absent.
fn ensure() -> Result<PathBuf> {
    let directory = cache::directory("cargo-deny")?;
    let _lock = cache::Lock::acquire(&directory)?;
    let root = directory.join(VERSION);
    let program = root.join("bin/cargo-deny");
    // cargo puts it there when it is whole.
    if program.exists() {
        return Ok(program);
    }
    eprintln!("installing cargo-deny {VERSION}");
    let mut install = workspace::cargo();
    // Without optimisation it is compiled in a third of the time, and it runs for seconds.
    install.args(["install", "--quiet", "--locked", "--debug", "--version", VERSION, "--root"]);
    process::run(install.arg(&root).arg("cargo-deny"))
        .context("cannot install cargo-deny; check the network and cargo's configuration of registries")?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_needs_a_newer_compiler_is_named() {
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
