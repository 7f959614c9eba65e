//! Fault injection for writes and syncs of a SQLite database, in a separate process.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A write to the database file, its journal or their shared memory.
    Write,
    /// A sync to disk.
    Sync,
}

/// The error of the failed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// `EIO`.
    Broken,
    /// `ENOSPC`.
    Full,
}

/// Text that a process prints on standard error when its first write or sync fails.
pub const FAILURE_MESSAGE: &str = "of the database fails on purpose";

/// A library that is preloaded to intercept system calls. It is written in C, because it would require `unsafe` in Rust.
pub struct WriteErrors {
    library: PathBuf,
}

impl WriteErrors {
    /// Compiles the library into this directory, which must exist as long as the processes.
    ///
    /// # Errors
    /// When there is no C compiler.
    pub fn compile(directory: &Path) -> std::io::Result<Self> {
        let library = directory.join("write_errors.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/write_errors.c");
        let mut cc = Command::new("cc");
        let output =
            cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl").output()?;
        if !output.status.success() {
            return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(Self { library })
    }

    /// Returns the environment for a process in which the `number`-th write or sync of a database fails, counted from 1 over all
    /// its threads: with `once` only that one, otherwise also all later ones.
    pub fn environment(
        &self,
        kind: Kind,
        disk: Disk,
        number: u64,
        once: bool,
    ) -> Vec<(&'static str, String)> {
        let kind = match kind {
            Kind::Write => "write",
            Kind::Sync => "sync",
        };
        let mut environment = vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAIL_KIND", kind.to_owned()),
            ("FAIL_AT", number.to_string()),
        ];
        match disk {
            Disk::Broken => {}
            Disk::Full => environment.push(("FAIL_FULL", "1".to_owned())),
        }
        if once {
            environment.push(("FAIL_ONCE", "1".to_owned()));
        }
        environment
    }
}
