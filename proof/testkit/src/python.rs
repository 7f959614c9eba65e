//! The Python environment with the official clients that tests run.

use std::path::PathBuf;

/// Returns the interpreter that `cargo xtask test` prepares: `TRACEWARDEN_PYTHON`, or the one in the user's cache.
///
/// # Errors
/// When the interpreter does not exist; the message contains the command that prepares it.
pub fn prepared_python() -> Result<PathBuf, String> {
    let cached = || Some(cache()?.join("tracewarden/python/venv/bin/python"));
    let path = std::env::var_os("TRACEWARDEN_PYTHON").map(PathBuf::from).or_else(cached);
    path.filter(|path| path.exists())
        .ok_or_else(|| "Python with the official clients is not installed: run `cargo xtask test`".to_owned())
}

/// Returns the user's cache directory, as `cargo xtask` determines it.
pub(crate) fn cache() -> Option<PathBuf> {
    let configured = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    configured.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}
