//! The Chromium browser. It comes from the system's packages and is updated with them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::debian;

/// Names of the executable; Debian's comes first.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// Environment variable with the path of another executable.
const OVERRIDE: &str = "CHROMIUM";

/// Returns the path of the executable.
pub fn ensure() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        return Ok(PathBuf::from(path));
    }
    debian::ensure("Chromium is not installed", "chromium", || find().is_some())?;
    find().context("Chromium is not installed")
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates =
        NAMES.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file())
}
