//! Where the workspace is, and what cargo says about it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The workspace's root directory.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The cargo that runs this command, so that a chosen toolchain stays chosen.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// `cargo metadata` for the members of the workspace, without resolving their dependencies.
pub fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    serde_json::from_str(&process::output_of(&mut command)?)
        .context("`cargo metadata` answered something else than JSON")
}

/// The same for every package that any of them is built with, on any platform.
pub fn metadata_of_all() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    serde_json::from_str(&process::output_of(&mut command)?)
        .context("`cargo metadata` answered something else than JSON")
}

/// The directory that cargo builds into.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata.get("target_directory").and_then(Value::as_str);
    Ok(PathBuf::from(directory.context("`cargo metadata` names no target directory")?))
}
