//! The crates that a change touches: by git, against the point where the branch left `main`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{process, workspace};

/// What changed, and what must be tested for it.
pub struct Changes {
    /// The commit that the files are compared with.
    base: String,
    files: usize,
    /// Packages with changes and the packages that depend on them.
    pub packages: BTreeSet<String>,
}

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, files, packages } = self;
        let base = base.get(..12).unwrap_or(base);
        let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
        write!(out, "{files} files changed since {base}; testing {}", packages.join(", "))
    }
}

/// Compares the working tree, with files that git does not know yet, with the merge base of `HEAD` and the main branch.
///
/// # Errors
/// When git or cargo fails.
pub fn since_main() -> Result<Changes> {
    let git = |arguments: &[&str]| {
        process::capture_output(Command::new("git").current_dir(workspace::root()).args(arguments))
    };
    let base = ["origin/main", "main", "HEAD"]
        .iter()
        .find_map(|branch| git(&["merge-base", "HEAD", branch]).ok())
        .context("cannot find the commit to compare with: is this a git repository with a commit?")?;
    let base = base.trim().to_owned();
    let mut files = git(&["diff", "--name-only", &base])?;
    files.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    let files: Vec<&str> = files.lines().collect();
    let packages = affected(&workspace::metadata()?, &files);
    Ok(Changes { base, files: files.len(), packages })
}

/// Returns the packages that these files belong to, with all packages that depend on them. Files of no package, such as the
/// workspace's manifest, belong to all; so does no change at all.
fn affected(metadata: &Value, files: &[&str]) -> BTreeSet<String> {
    let root = metadata.get("workspace_root").and_then(Value::as_str).unwrap_or_default();
    let packages = metadata.get("packages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut directories = BTreeMap::new();
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let name = package.get("name").and_then(Value::as_str).unwrap_or_default();
        let manifest = package.get("manifest_path").and_then(Value::as_str).unwrap_or_default();
        let directory = manifest.strip_prefix(root).and_then(|path| path.strip_suffix("Cargo.toml"));
        directories.insert(directory.unwrap_or_default().trim_start_matches('/'), name);
        for dependency in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            users
                .entry(dependency.get("name").and_then(Value::as_str).unwrap_or_default())
                .or_default()
                .push(name);
        }
    }
    let owner = |file: &str| directories.iter().find(|(at, _)| file.starts_with(**at)).map(|(_, name)| *name);
    let is_build_input = |file: &str| file.ends_with(".toml") || file.ends_with(".lock");
    let mut open: Vec<&str> = files.iter().filter_map(|file| owner(file)).collect();
    if files.is_empty() || files.iter().any(|file| owner(file).is_none() && is_build_input(file)) {
        open = directories.into_values().collect();
    }
    let mut affected = BTreeSet::new();
    while let Some(name) = open.pop() {
        if affected.insert(name.to_owned()) {
            open.extend(users.get(name).into_iter().flatten());
        }
    }
    affected
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_crates_and_their_users_are_tested() {
        let package = |directory: &str, name: &str, dependencies: &[&str]| {
            let dependencies: Vec<Value> = dependencies.iter().map(|name| json!({"name": name})).collect();
            json!({
                "name": name, "manifest_path": format!("/w/{directory}/Cargo.toml"), "dependencies": dependencies,
            })
        };
        let metadata = json!({"workspace_root": "/w", "packages": [
            package("crates/model", "model", &["serde"]),
            package("crates/policy", "policy", &["model"]),
            package("crates/rest", "rest", &["policy"]),
            package("crates/policy-tools", "policy-tools", &[]),
        ]});
        let of = |files: &[&str]| affected(&metadata, files).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&["crates/policy/src/lib.rs"]), ["policy", "rest"]);
        assert_eq!(of(&["crates/policy-tools/Cargo.toml"]), ["policy-tools"]);
        assert_eq!(of(&["docs/api.md"]), [""; 0]);
        assert_eq!(of(&["docs/api.md", "Cargo.lock"]).len(), 4);
        assert_eq!(of(&[]).len(), 4);
    }
}
