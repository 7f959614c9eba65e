//! Measures the processor time of checking policies and authorising callers, in the release profile.

use std::process::Command;

use anyhow::Result;

use crate::{process, workspace};

/// Runs the benchmark of the policy crate, which prints a table.
pub fn run() -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["bench", "-p", "tracewarden-policy", "--bench", "policies"]).current_dir(workspace::root());
    let table = process::output_of(&mut cargo)?;
    Ok(format!(
        "## Policies\n\nA policy is checked when it is saved, and once more by each process that applies it; then it is kept. \
         Authorising a\ncaller compiles what is not kept, and lowers all of their policies for them, in every request.\n\n{}",
        table.trim_start()
    ))
}
