//! Measures the processor time of checking policies and authorising callers, in the release profile.

use std::process::Command;

use anyhow::Result;

use crate::{process, workspace};

/// Runs the benchmark of the policy crate, which prints a table.
pub fn run() -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["bench", "-p", "tracewarden-policy", "--bench", "policies"]).current_dir(workspace::root());
    let table = process::capture_output(&mut cargo)?;
    Ok(format!(
        "## Policies\n\nA policy is checked when it is saved, and once by each process that applies it, \
         which then caches it. Authorising a\ncaller compiles the policies that are not cached, and \
         translates all of the caller's policies, in every request.\n\n{}",
        table.trim_start()
    ))
}
