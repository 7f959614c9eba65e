//! Checks the permissions of files with secrets and data.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::finding::Finding;

/// Checks that only the owner and the group can read a file, and only the owner can write it.
pub(super) fn check_permissions(path: &Path, what: &str) -> Finding {
    const OTHERS: u32 = 0o007;
    const GROUP_WRITES: u32 = 0o020;
    match path.metadata() {
        Ok(metadata) if metadata.permissions().mode() & (OTHERS | GROUP_WRITES) == 0 => {
            Finding::ok(format!("`{}` {what} and is private", path.display()))
        }
        Ok(metadata) => Finding::warning(format!(
            "`{}` {what} and is accessible to other users (mode {:03o}): run `chmod 600` on it",
            path.display(),
            metadata.permissions().mode() & 0o777
        )),
        Err(error) => Finding::error(format!("`{}` {what} and cannot be checked: {error}", path.display())),
    }
}
