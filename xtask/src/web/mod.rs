//! `cargo xtask web`: builds the web application into `web/dist`, which is embedded in the service. It is rebuilt only if its
//! sources have changed.

mod fingerprint;
mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{cache, npm, process, workspace};

/// Ensures that `web/dist` matches the sources.
pub fn ensure() -> Result<()> {
    node::check()?;
    let root = workspace::root();
    let kept = workspace::target_directory()?.join("web");
    fs::create_dir_all(&kept).with_context(|| format!("cannot create `{}`", kept.display()))?;
    let _lock = cache::Lock::acquire(&kept)?;
    npm::ensure_packages("web")?;
    build(&root)
}

/// Runs one of the application's npm scripts, with these arguments after its own.
pub fn script(name: &str, arguments: &[String], environment: &[(&str, String)]) -> Result<()> {
    let mut npm = npm::command(&directory());
    npm.args(["run", name]);
    if !arguments.is_empty() {
        npm.arg("--").args(arguments);
    }
    process::run(npm.envs(environment.iter().map(|(name, value)| (name, value))))
}

fn directory() -> PathBuf {
    workspace::root().join("web")
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
    process::run(npm::command(&root.join("web")).args(["run", "build"]))?;
    ensure!(page.exists(), "`npm run build` wrote no `web/dist/index.html`");
    if let Some(directory) = stamp.parent() {
        fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    }
    fs::write(&stamp, current).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    eprintln!("built the web application in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
