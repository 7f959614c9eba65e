//! Memory usage of a process, from Linux's `/proc`.

use std::io::{Error, ErrorKind, Result};

/// Returns the current resident memory in bytes.
///
/// # Errors
/// When there is no such running process.
pub fn resident(process: u32) -> Result<u64> {
    bytes(process, "VmRSS:")
}

/// Returns the peak resident memory in bytes.
///
/// # Errors
/// When there is no such running process.
pub fn peak(process: u32) -> Result<u64> {
    bytes(process, "VmHWM:")
}

fn bytes(process: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes =
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
    // A zombie process has no memory.
    kibibytes.map(|kibibytes: u64| kibibytes * 1024).ok_or_else(|| Error::new(ErrorKind::NotFound, name))
}
