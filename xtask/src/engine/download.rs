//! Downloads the package with npm, which knows the user's registry, proxy and credentials.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::package::{Package, VERSION};
use super::{LIBRARY, OVERRIDE};
use crate::process::status_text;

/// Runs `npm pack` into `directory` and returns the tarball's path.
pub fn npm_pack(package: &Package, directory: &Path) -> Result<PathBuf> {
    // Use a separate npm cache: the tarball is too large to leave a second copy in the user's cache. npm reports no progress, so
    // the growth of this cache is shown instead.
    let cache = directory.join("npm-cache");
    let log = directory.join("npm.log");
    let mut npm = Command::new("npm");
    npm.arg("pack").arg(package.specification()).args(["--ignore-scripts", "--loglevel=error"]);
    npm.arg("--pack-destination").arg(directory).arg("--cache").arg(&cache);
    // npm writes its update notice and errors to standard error. Both are shown only if it fails.
    npm.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(create(&log)?);
    let child = npm.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "npm is not installed, and the engine is downloaded from the npm registry; install Node.js with \
             npm (Debian: `apt-get install npm`), or set {OVERRIDE} to the path of a {LIBRARY} {VERSION}"
        ),
        _ => anyhow::Error::from(error).context("cannot run npm"),
    })?;
    let status = watch(child, package, directory)?;
    if !status.success() {
        bail!("{}", explained(package, status, &fs::read_to_string(&log).unwrap_or_default()));
    }
    tarball_in(directory)
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot create `{}`", path.display()))
}

fn watch(mut child: Child, package: &Package, directory: &Path) -> Result<ExitStatus> {
    let bar = ProgressBar::new(package.tarball_bytes);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}")?;
    bar.set_style(style);
    bar.set_message("fetching the ClickHouse engine");
    if bar.is_hidden() {
        eprintln!("fetching the ClickHouse engine ({} MB)", package.tarball_bytes / 1_000_000);
    }
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for npm")? {
            break status;
        }
        let fetched = bytes_below(&directory.join("npm-cache")).min(package.tarball_bytes);
        bar.set_position(fetched);
        if fetched == package.tarball_bytes {
            bar.set_message("npm looks through the package ");
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    bar.finish_and_clear();
    Ok(status)
}

/// Returns the total size of the files below a directory. npm creates and removes files meanwhile; unreadable entries count as 0.
fn bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn tarball_in(directory: &Path) -> Result<PathBuf> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read `{}`", directory.display()))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .context("npm reported success but wrote no tarball; run the command again")
}

/// Builds the error message. It ends with npm's own output, which names the registry and the network error.
fn explained(package: &Package, status: ExitStatus, log: &str) -> String {
    let specification = package.specification();
    let advice = if log.contains("E404") {
        "the configured npm registry does not have this package; `npm config get registry` names it"
    } else if log.contains("ENOSPC") {
        "the disk is full; free some space, or set XDG_CACHE_HOME to a directory on a larger file system"
    } else if log.contains("E401") || log.contains("E403") {
        "the configured npm registry refused; check its credentials in .npmrc"
    } else if ["ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "ECONNRESET", "EAI_AGAIN"]
        .iter()
        .any(|code| log.contains(code))
    {
        "the npm registry cannot be reached; check the network and npm's `registry` and `proxy` settings, and run the \
         command again"
    } else {
        "run the command again"
    };
    format!("`npm pack {specification}` failed ({}): {advice}\n{}", status_text(status), log.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;
    use crate::engine::package::tests::tiny;

    #[test]
    fn failures_of_npm_come_with_advice() {
        let explain = |log: &str| explained(&tiny(b""), ExitStatus::from_raw(256), log);
        for (log, advice) in [
            ("npm error code E404", "npm config get registry"),
            ("npm error code ENOSPC", "disk is full"),
            ("npm error code ENOTFOUND", "check the network"),
            ("npm error code E401", "credentials"),
            ("npm error something new", "run the command again"),
        ] {
            let text = explain(log);
            assert!(text.contains(advice) && text.contains(log) && text.contains("exit code 1"), "{text}");
        }
    }

    #[test]
    fn growth_is_measured_in_all_subdirectories() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/one"), [0; 10]).unwrap();
        fs::write(directory.path().join("two"), [0; 5]).unwrap();
        assert_eq!(bytes_below(directory.path()), 15);
        assert_eq!(bytes_below(&directory.path().join("absent")), 0);
    }
}
