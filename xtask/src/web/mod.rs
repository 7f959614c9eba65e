//! `cargo xtask web`: builds the web application into `web/dist`, which is embedded in the service. It is rebuilt only if its
//! sources have changed.

mod fingerprint;
mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{cache, process, workspace};

/// Ensures that `web/dist` matches the sources.
pub fn ensure() -> Result<()> {
    node::check()?;
    let root = workspace::root();
    let kept = workspace::target_directory()?.join("web");
    fs::create_dir_all(&kept).with_context(|| format!("cannot create `{}`", kept.display()))?;
    let _lock = cache::Lock::acquire(&kept)?;
    install(&directory())?;
    build(&root)
}

/// Runs one of the application's npm scripts, with these arguments after its own.
pub fn script(name: &str, arguments: &[String], environment: &[(&str, String)]) -> Result<()> {
    let mut npm = npm(&directory());
    npm.args(["run", name]);
    if !arguments.is_empty() {
        npm.arg("--").args(arguments);
    }
    process::run(npm.envs(environment.iter().map(|(name, value)| (name, value))))
}

fn directory() -> PathBuf {
    workspace::root().join("web")
}

fn npm(directory: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(directory);
    npm
}

/// Installs the packages. npm writes the marker at the end of an installation, so that an interrupted one is repeated.
fn install(directory: &Path) -> Result<()> {
    let modified = |name: &str| fs::metadata(directory.join(name)).and_then(|file| file.modified());
    let wanted = modified("package-lock.json").context("`web/package-lock.json` cannot be read")?;
    if modified("node_modules/.package-lock.json").is_ok_and(|installed| installed >= wanted) {
        return Ok(());
    }
    eprintln!("installing the build dependencies of the web application");
    process::run(npm(directory).args(["ci", "--no-audit", "--no-fund"])).context(
        "cannot install the web application's packages; check the network and npm's configuration (`npm config list`)",
    )
}

fn build(root: &Path) -> Result<()> {
    // The stamp is stored among the packages: other packages give another result, and a new installation removes the stamp.
    let stamp = root.join("web/node_modules/.cache/tracewarden-web");
    let page = root.join("web/dist/index.html");
    let current = fingerprint::of(root)?;
    if page.exists() && fs::read_to_string(&stamp).is_ok_and(|built| built == current) {
        return Ok(());
    }
    let begun = Instant::now();
    eprintln!("building the web application");
    // The output of a failed build must not count as current.
    if let Err(error) = fs::remove_file(&stamp) {
        ensure!(!stamp.exists(), "cannot remove `{}`: {error}", stamp.display());
    }
    process::run(npm(&root.join("web")).args(["run", "build"]))?;
    ensure!(page.exists(), "`npm run build` wrote no `web/dist/index.html`");
    if let Some(directory) = stamp.parent() {
        fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    }
    fs::write(&stamp, current).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    eprintln!("built the web application in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
