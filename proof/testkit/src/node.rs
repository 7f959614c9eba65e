//! Node, and the packages of the programs that tests run with it.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the packages in the directory's `package-lock.json` are installed in the directory.
pub fn is_installed(directory: &Path) -> bool {
    let modified = |name: &str| fs::metadata(directory.join(name)).and_then(|file| file.modified());
    let Ok(wanted) = modified("package-lock.json") else { return false };
    // npm writes this file last, so an interrupted installation does not count.
    modified("node_modules/.package-lock.json").is_ok_and(|installed| installed >= wanted)
}

/// Returns the Node interpreter, for programs in this directory with the packages that `cargo xtask test` installs there.
///
/// # Errors
/// When Node or the packages are missing; the message contains the command that prepares them.
pub fn prepared_node(directory: &Path) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let node = std::env::split_paths(&path).map(|entry| entry.join("node")).find(|program| program.is_file());
    node.filter(|_| is_installed(directory)).ok_or_else(|| {
        "Node with the packages that tests use is not installed: run `cargo xtask test`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn an_installation_counts_until_the_lock_changes() {
        let directory = std::env::temp_dir().join(format!("tracewarden-node-{}", std::process::id()));
        // An earlier process with the same id may have left one behind.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("node_modules")).unwrap();
        let write = |name: &str, seconds: u64| {
            let file = fs::File::create(directory.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        assert!(!is_installed(&directory));
        write("package-lock.json", 5);
        assert!(!is_installed(&directory));
        assert!(prepared_node(&directory).unwrap_err().contains("cargo xtask test"));
        write("node_modules/.package-lock.json", 6);
        assert!(is_installed(&directory));
        write("package-lock.json", 7);
        assert!(!is_installed(&directory));
        fs::remove_dir_all(&directory).unwrap();
    }
}
