//! A Python virtual environment with pinned packages, kept in the user's cache directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::python_licences;
use crate::{cache, debian, process};

/// The packages in `python-requirements.txt` and all their dependencies, each with the hashes of its files.
const REQUIREMENTS: &str = include_str!("../../python-requirements.lock");

/// Returns the interpreter of the virtual environment, which is built if it is absent or the package list has changed.
pub fn ensure() -> Result<PathBuf> {
    let version = version()?;
    let directory = cache::directory("python")?;
    let _lock = cache::Lock::acquire(&directory)?;
    let (environment, stamp) = (directory.join("venv"), directory.join("stamp"));
    let python = environment.join("bin/python");
    // A virtual environment depends on the interpreter as well as on the package list.
    let wanted = format!("{version}\n{REQUIREMENTS}");
    if fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) && python.exists() {
        return Ok(python);
    }
    eprintln!("building a Python environment with the packages that the tests use");
    ensure_venv_module(&version)?;
    for old in [&environment, &stamp] {
        let removed = if old.is_dir() { fs::remove_dir_all(old) } else { fs::remove_file(old) };
        if let Err(error) = removed.or_else(|error| if old.exists() { Err(error) } else { Ok(()) }) {
            return Err(error).with_context(|| format!("cannot remove `{}`", old.display()));
        }
    }
    build(&environment, &python)?;
    python_licences::check(&python)?;
    // Written last, so that an interrupted installation is repeated.
    fs::write(&stamp, wanted).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(python)
}

fn build(environment: &Path, python: &Path) -> Result<()> {
    process::capture_output(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    let list = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
    fs::write(list.path(), REQUIREMENTS).context("cannot write a temporary file")?;
    let mut pip = Command::new(python);
    // With required hashes, pip also rejects packages that are not in the list.
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"])
        .arg("--requirement")
        .arg(list.path());
    process::capture_output(&mut pip).context(
        "cannot install the Python packages; check the network and pip's configuration (`pip config list`)",
    )?;
    Ok(())
}

fn version() -> Result<String> {
    if !process::is_installed("python3") {
        bail!("python3 is not installed; install it (Debian: `apt-get install python3 python3-venv`)");
    }
    let print = "import sys; print('%d.%d' % sys.version_info[:2])";
    Ok(process::capture_output(Command::new("python3").args(["-c", print]))?.trim().to_owned())
}

/// On Debian the module is a separate package, without which `python3 -m venv` fails halfway.
fn ensure_venv_module(version: &str) -> Result<()> {
    debian::ensure("python3 has no `venv` module", &format!("python{version}-venv"), || {
        process::capture_output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTED: &str = include_str!("../../python-requirements.txt");

    #[test]
    fn every_requirement_is_pinned_exactly() {
        let lines = REQUESTED.lines().filter(|line| !line.starts_with('#'));
        let pinned: Vec<(&str, &str)> = lines.map(|line| line.split_once("==").unwrap()).collect();
        assert!(pinned.len() >= 3);
        for (name, version) in pinned {
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{name}");
            // The lock lists what extras add as packages of their own.
            let name = name.split('[').next().unwrap();
            let listed = format!("\n{name}=={version} ");
            assert!(
                format!("\n{REQUIREMENTS}").contains(&listed),
                "the lock does not contain {name}=={version}"
            );
        }
    }

    #[test]
    fn the_lock_pins_and_hashes_everything() {
        // Joins the lines of each package.
        let joined = REQUIREMENTS.replace("\\\n", "");
        for line in joined.lines() {
            let (name, rest) = line.split_once("==").unwrap();
            assert!(!name.contains(' ') && rest.contains("--hash=sha256:"), "{line}");
        }
    }
}
