//! The ClickHouse engine of the local store: a shared library that is downloaded once from the user's configured npm registry and
//! kept in the user's cache directory.

mod download;
mod package;
mod unpack;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache;
use package::{LIBRARY, Package, VERSION};

/// Environment variable that overrides the engine with the path of a `libchdb.so`.
pub const OVERRIDE: &str = "TRACEWARDEN_LIBCHDB";

/// Returns the path of the engine's library, which is downloaded if necessary.
pub fn ensure() -> Result<PathBuf> {
    if let Some(path) = overridden(std::env::var_os(OVERRIDE))? {
        return Ok(path);
    }
    let package = Package::of_this_machine()?;
    let directory = cache::directory(&format!("engine/{VERSION}"))?;
    let library = directory.join(LIBRARY);
    if is_complete(&library, &package) {
        return Ok(library);
    }
    let _lock = cache::Lock::acquire(&directory)?;
    // Another command may have downloaded it while this one waited for the lock.
    if !is_complete(&library, &package) {
        fetch(&package, &directory, &library)?;
    }
    Ok(library)
}

fn overridden(value: Option<OsString>) -> Result<Option<PathBuf>> {
    let Some(path) = value.filter(|value| !value.is_empty()).map(PathBuf::from) else { return Ok(None) };
    if !path.is_file() {
        bail!(
            "{OVERRIDE} is `{}`, which is not a file; correct it, or unset it to fetch the engine",
            path.display()
        );
    }
    Ok(Some(path))
}

/// Whether the library is complete. The final rename is atomic, but a power failure may keep the name and lose the content, so
/// that the size is compared too.
fn is_complete(library: &Path, package: &Package) -> bool {
    fs::metadata(library).is_ok_and(|metadata| metadata.len() == package.library_bytes)
}

/// Downloads the library. Partial files are in one directory on the same file system as the library, so that the last step is a
/// rename. The caller holds the lock: any existing partial files are from a killed command.
fn fetch(package: &Package, directory: &Path, library: &Path) -> Result<()> {
    let partial = directory.join("partial");
    remove(&partial)?;
    fs::create_dir(&partial).with_context(|| format!("cannot create `{}`", partial.display()))?;
    let fetched = check_free_space(package, &partial).and_then(|()| {
        let tarball = download::npm_pack(package, &partial)?;
        unpack::verify(&tarball, package)?;
        unpack::library(&tarball, package, &partial.join(LIBRARY))?;
        fs::rename(partial.join(LIBRARY), library)
            .with_context(|| format!("cannot move the engine to `{}`", library.display()))
    });
    let removed = remove(&partial);
    fetched.and(removed)
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`; remove it by hand", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Checks for space for the copy in npm's cache, the tarball, and the library.
fn check_free_space(package: &Package, directory: &Path) -> Result<()> {
    let needed = 2 * package.tarball_bytes + package.library_bytes;
    // If the file system does not report its free space, a failing write reports the problem.
    let Ok(file_system) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
    if free < needed {
        bail!(
            "`{}` has {} MB free, and fetching the engine takes {} MB; free some space, or set XDG_CACHE_HOME to a \
             directory on a larger file system",
            directory.display(),
            free / 1_000_000,
            needed / 1_000_000
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_must_be_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_path_buf();
        assert_eq!(overridden(Some(path.clone().into())).unwrap(), Some(path));
        assert_eq!(overridden(Some("".into())).unwrap(), None);
        assert_eq!(overridden(None).unwrap(), None);
        assert!(
            overridden(Some("/nonexistent/libchdb.so".into())).unwrap_err().to_string().contains(OVERRIDE)
        );
    }

    #[test]
    fn a_truncated_library_is_not_complete() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut package = package::tests::tiny(b"");
        assert!(is_complete(file.path(), &package));
        package.library_bytes = 1;
        assert!(!is_complete(file.path(), &package));
        assert!(!is_complete(Path::new("/nonexistent"), &package));
    }

    #[test]
    fn too_little_space_is_reported_before_the_download() {
        let directory = tempfile::tempdir().unwrap();
        let mut package = package::tests::tiny(b"");
        assert!(check_free_space(&package, directory.path()).is_ok());
        package.library_bytes = u64::MAX / 4;
        let error = check_free_space(&package, directory.path()).unwrap_err().to_string();
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
    }
}
