//! Builds the programs that commands and tests start.

use std::path::PathBuf;

use anyhow::Result;

use crate::{process, workspace};

/// Packages of the service and the local store.
pub const PACKAGES: &[&str] = &["tracewarden", "tracewarden-localstore"];

/// Profile of cargo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Builds in half the time, and is what tests use.
    Dev,
    /// For measurements.
    Release,
}

/// Builds these packages, and returns the directory of their programs.
///
/// # Errors
/// When cargo fails; it has printed why.
pub fn build(profile: Profile, packages: &[&str]) -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.arg("build").args(packages.iter().flat_map(|package| ["--package", package]));
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    process::run(&mut cargo)?;
    directory(profile)
}

/// Returns the directory of built programs.
///
/// # Errors
/// When cargo fails.
pub fn directory(profile: Profile) -> Result<PathBuf> {
    Ok(workspace::target_directory()?.join(match profile {
        Profile::Dev => "debug",
        Profile::Release => "release",
    }))
}
