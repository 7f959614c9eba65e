//! How much memory a process has, as Linux says in `/proc`.

use std::io::{Error, ErrorKind, Result};

/// Bytes that it has now.
///
/// # Errors
/// When there is no such process, or none that runs.
pub fn resident(process: u32) -> Result<u64> {
    bytes(process, "VmRSS:")
}

/// The most bytes that it ever had.
///
/// # Errors
/// When there is no such process, or none that runs.
pub fn peak(process: u32) -> Result<u64> {
    bytes(process, "VmHWM:")
}

fn bytes(process: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes =
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
    // A process that has ended, and that nobody has waited for yet, has no memory.
    kibibytes.map(|kibibytes: u64| kibibytes * 1024).ok_or_else(|| Error::new(ErrorKind::NotFound, name))
}
