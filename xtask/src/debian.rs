//! System packages: installed if that needs no confirmation, otherwise named in the error.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// Ensures that `present` holds. On Debian as root, installs `package` if necessary.
pub fn ensure(what: &str, package: &str, present: impl Fn() -> bool) -> Result<()> {
    if present() {
        return Ok(());
    }
    let debian = Path::new("/etc/debian_version").exists();
    if debian && rustix::process::geteuid().is_root() {
        eprintln!("installing {package}");
        install(package)?;
    }
    if !present() {
        bail!("{}", missing(what, package, debian));
    }
    Ok(())
}

fn install(package: &str) -> Result<()> {
    let apt = |arguments: &[&str]| {
        process::capture_output(
            Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments),
        )
        .map(drop)
    };
    let install: &[&str] = &["install", "--yes", "--no-install-recommends", package];
    // The package lists may be absent, as in a fresh container, or outdated.
    apt(install).or_else(|_| apt(&["update"]).and_then(|()| apt(install)))
}

fn missing(what: &str, package: &str, debian: bool) -> String {
    if debian {
        format!("{what}; install it with `apt-get install {package}` and run the command again")
    } else {
        format!("{what}; install your system's package for it and run the command again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_exact_package() {
        let what = "python3 has no `venv` module";
        assert!(missing(what, "python3.11-venv", true).contains("apt-get install python3.11-venv"));
        assert!(!missing(what, "python3.11-venv", false).contains("apt-get"));
    }

    #[test]
    fn present_packages_are_not_installed() {
        ensure("nothing", "no-such-package", || true).unwrap();
    }
}
