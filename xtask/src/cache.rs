//! The user's cache directory: files that are downloaded or built once and shared by all checkouts.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns `${XDG_CACHE_HOME:-~/.cache}/tracewarden/<name>`, which is created if absent.
pub fn directory(name: &str) -> Result<PathBuf> {
    let directory =
        base(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))?.join("tracewarden").join(name);
    fs::create_dir_all(&directory).with_context(|| {
        format!("cannot create `{}`; set XDG_CACHE_HOME to a writable directory", directory.display())
    })?;
    Ok(directory)
}

/// The XDG Base Directory Specification requires that relative values are ignored.
fn base(xdg_cache_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    xdg_cache_home
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| home.map(|home| Path::new(&home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no directory for the cache")
}

/// An exclusive lock on a cache directory until dropped. Two commands never download or build the same thing at once, and partial
/// files of a killed command can be removed safely.
pub struct Lock(#[allow(dead_code, reason = "held for its lock")] File);

impl Lock {
    pub fn acquire(directory: &Path) -> Result<Self> {
        let path = directory.join(".lock");
        let file = File::create(&path).with_context(|| format!("cannot create `{}`", path.display()))?;
        if file.try_lock().is_err() {
            eprintln!("waiting for another command that prepares `{}`", directory.display());
            file.lock().with_context(|| format!("cannot lock `{}`", path.display()))?;
        }
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdg_cache_home_wins_when_it_is_absolute() {
        let home = || Some(OsString::from("/h"));
        assert_eq!(base(Some("/x".into()), home()).unwrap(), Path::new("/x"));
        assert_eq!(base(Some("relative".into()), home()).unwrap(), Path::new("/h/.cache"));
        assert_eq!(base(Some("".into()), home()).unwrap(), Path::new("/h/.cache"));
        assert_eq!(base(None, home()).unwrap(), Path::new("/h/.cache"));
        assert!(base(None, None).is_err());
    }
}
