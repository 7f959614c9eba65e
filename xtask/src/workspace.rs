//! Location of the workspace, and cargo's metadata about it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// Returns the workspace's root directory.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns the cargo that runs this command, so that a selected toolchain is kept.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Returns `cargo metadata` of the workspace's members, without their dependencies.
pub fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    serde_json::from_str(&process::capture_output(&mut command)?)
        .context("the output of `cargo metadata` is not JSON")
}

/// Returns `cargo metadata` of all packages that the members are built with, on any platform.
pub fn metadata_of_all() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    serde_json::from_str(&process::capture_output(&mut command)?)
        .context("the output of `cargo metadata` is not JSON")
}

/// Returns cargo's target directory.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata.get("target_directory").and_then(Value::as_str);
    Ok(PathBuf::from(directory.context("`cargo metadata` names no target directory")?))
}
