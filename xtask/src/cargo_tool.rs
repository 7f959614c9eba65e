//! Tools from crates.io that development commands run. A missing one is built into the user's cache directory.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{cache, process, workspace};

/// A program that `cargo install` provides.
pub struct CargoTool {
    /// Names of package and program.
    pub name: &'static str,
    /// Exact version: another one may interpret its configuration differently.
    pub version: &'static str,
    /// How long the build takes, for the message.
    pub build_time: &'static str,
}

pub const NEXTEST: CargoTool =
    CargoTool { name: "cargo-nextest", version: "0.9.143", build_time: "some 4 minutes on two cores" };

pub const DENY: CargoTool =
    CargoTool { name: "cargo-deny", version: "0.20.2", build_time: "some 90 seconds on two cores" };

pub const CYCLONEDX: CargoTool =
    CargoTool { name: "cargo-cyclonedx", version: "0.5.9", build_time: "some 60 seconds on two cores" };

impl CargoTool {
    /// Returns the program in the cache directory, which is built if it is absent.
    ///
    /// # Errors
    /// When it cannot be downloaded or built; the message has the command.
    pub fn ensure(&self) -> Result<PathBuf> {
        let Self { name, version, build_time } = self;
        let directory = cache::directory(name)?;
        let _lock = cache::Lock::acquire(&directory)?;
        let root = directory.join(version);
        let program = root.join("bin").join(name);
        // cargo installs the program only after a complete build.
        if program.exists() {
            return Ok(program);
        }
        eprintln!("installing {name} {version}, which takes {build_time}");
        let mut install = workspace::cargo();
        // An unoptimised build takes a third of the time, and the program itself does little work.
        install.args(["install", "--quiet", "--locked", "--debug", "--version", version, "--root"]);
        process::run(install.arg(&root).arg(name)).with_context(|| {
            format!(
                "cannot install {name}; check the network and cargo's configuration of registries, or run \
                 `cargo install --locked {name}@{version}`"
            )
        })?;
        Ok(program)
    }

    /// Returns the installed program of any version, or else [`CargoTool::ensure`].
    ///
    /// # Errors
    /// As [`CargoTool::ensure`].
    pub fn installed_or_ensure(&self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::var_os("CARGO_HOME").map(|home| PathBuf::from(home).join("bin"));
        let directories = std::env::split_paths::<OsStr>(&path).chain(home);
        let found = directories.map(|directory| directory.join(self.name)).find(|program| program.is_file());
        found.map_or_else(|| self.ensure(), Ok)
    }
}
