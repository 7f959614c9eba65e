//! Packages of programs for Node: the web application, and what the tests and the demo run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tracewarden_testkit::node;

use crate::{cache, process, workspace};

/// Directory of the official MCP client for TypeScript in the repository.
pub const MCP_CLIENTS: &str = "crates/tracewarden/tests/mcp/clients";

/// Returns npm, to be run in a directory.
pub fn command(directory: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(directory);
    npm
}

/// Ensures that the packages of the program in this directory of the repository are installed next to it. Returns the path of the
/// directory.
pub fn ensure_packages(program: &str) -> Result<PathBuf> {
    let directory = workspace::root().join(program);
    let _lock = cache::Lock::acquire(&cache::directory("node")?)?;
    if !node::is_installed(&directory) {
        eprintln!("installing the packages of {program}");
        process::run(command(&directory).args(["ci", "--no-audit", "--no-fund"])).with_context(|| {
            format!(
                "cannot install the packages of {program}; check Node, the network and npm's configuration \
                 (`npm config list`)"
            )
        })?;
    }
    Ok(directory)
}
