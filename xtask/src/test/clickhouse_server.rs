//! The ClickHouse server for tests: a library in a PyPI package, kept in the user's cache directory.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use tracewarden_testkit::clickhouse::{LIBRARY, PACKAGE, VERSION, library_in, version_of};

use crate::{cache, process};

/// A server to download.
pub struct Release {
    /// Name and version of the PyPI package.
    package: (&'static str, &'static str),
    /// Version that the server reports.
    pub version: &'static str,
    /// Hashes of the package's files for Linux on x86-64 and on arm64. The files for other systems contain no server.
    hashes: [&'static str; 2],
}

/// The server of the tests, of the oldest supported version.
const TESTED: Release = Release {
    package: PACKAGE,
    version: VERSION,
    hashes: [
        "c119f0830c12438a4e4b60b8370859ba50992e8b1b01a8c681e1c57eeb2dc82d",
        "605f121162b55bb3944af07c56a6f2290110b8f298c888047457c70105a0667b",
    ],
};

/// A server that is older than the oldest supported version.
pub const UNSUPPORTED: Release = Release {
    package: (PACKAGE.0, "3.6.0"),
    version: "25.5.2",
    hashes: [
        "0e45613df99ea35221693e353c47acb99b7d1ce0c2409e271c24c2ffc993159a",
        "52ebfedbe69222bb61cb862f8a2a76e4db647f58e01affb23a0f4b7b273acf77",
    ],
};

/// Disk space in MB for the package and its unpacked files.
const NEEDED_MB: u64 = 1_200;

/// Returns the path of the tested server's library, which is downloaded if necessary.
pub fn ensure() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY).filter(|path| !path.is_empty()).map(PathBuf::from) {
        TESTED.check(&path).with_context(|| format!("{LIBRARY} is wrong; correct it, or unset it"))?;
        return Ok(path);
    }
    TESTED.ensure()
}

impl Release {
    /// Returns the path of the server's library, which is downloaded if necessary.
    pub fn ensure(&self) -> Result<PathBuf> {
        let directory = cache::directory("clickhouse-server")?;
        let _lock = cache::Lock::acquire(&directory)?;
        let package = directory.join(self.package.1);
        let library = library_in(&package);
        // After a power failure, the file name may exist without its content.
        if library.is_file() && self.check(&library).is_ok() {
            return Ok(library);
        }
        let partial = directory.join("partial");
        remove(&partial)?;
        remove(&package)?;
        let fetched = self.fetch(&directory, &partial).and_then(|()| {
            self.check(&library_in(&partial))?;
            fs::rename(&partial, &package)
                .with_context(|| format!("cannot move the server to `{}`", package.display()))
        });
        remove(&partial)?;
        fetched.map(|()| library)
    }

    fn check(&self, library: &Path) -> Result<()> {
        let version = version_of(library).map_err(|error| anyhow!(error))?;
        if !version.starts_with(self.version) {
            bail!(
                "`{}` is a ClickHouse server {version}, and the tests need {}",
                library.display(),
                self.version
            );
        }
        Ok(())
    }

    /// Downloads the package. pip shows its progress on a terminal, and otherwise the size.
    fn fetch(&self, directory: &Path, target: &Path) -> Result<()> {
        let (package, version) = self.package;
        if let Ok(file_system) = rustix::fs::statvfs(directory) {
            let free = file_system.f_bavail.saturating_mul(file_system.f_frsize) / 1_000_000;
            if free < NEEDED_MB {
                bail!(
                    "`{}` has {free} MB free, and fetching the ClickHouse server takes {NEEDED_MB} MB; free some space, or \
                 set XDG_CACHE_HOME to a directory on a larger file system",
                    directory.display()
                );
            }
        }
        eprintln!("fetching the ClickHouse server that the tests use ({package} {version})");
        let mut list = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
        let hashes: String = self.hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        writeln!(list, "{package}=={version}{hashes}").context("cannot write a temporary file")?;
        let mut pip = Command::new("python3");
        // Do not install the dependencies, which only Python programs need, and keep no copy in pip's cache.
        pip.args(["-m", "pip", "install", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]);
        pip.args(["--disable-pip-version-check", "--root-user-action=ignore", "--no-warn-conflicts"]);
        pip.args(["--require-hashes", "--no-compile", "--target"]).arg(target);
        pip.arg("--requirement").arg(list.path());
        process::run(&mut pip).with_context(|| {
        format!(
            "cannot fetch the ClickHouse server; check the network and pip's configuration (`pip config list`), or \
             set {LIBRARY} to the path of its library (on Linux, x86-64 or arm64)"
        )
    })
    }
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`; remove it by hand", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_than_the_server_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = TESTED.check(file.path()).unwrap_err().to_string();
        assert!(error.contains("is not a ClickHouse server"), "{error}");
    }
}
