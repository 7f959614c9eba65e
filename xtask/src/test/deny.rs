//! Licences, sources and bans of what the service is linked with: `deny.toml`, by cargo-deny. What its pages are made of is
//! looked at by `tidy`, with the same list of licences.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, process, workspace};

/// Of cargo-deny. With another version the same file may mean something else.
const VERSION: &str = "0.20.2";

/// Advisories are left out: what holds of a commit today must hold of it tomorrow, and without a network.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks the dependencies on all platforms; those of other ones are fetched for it.
pub fn check() -> Result<()> {
    let mut deny = Command::new(ensure()?);
    deny.current_dir(workspace::root()).args(["--locked", "check"]).args(CHECKS);
    process::run(&mut deny)
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
