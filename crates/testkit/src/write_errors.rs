//! Writes and syncs of a SQLite database that fail on purpose, in a process of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Writing to the file, its journal or their shared memory.
    Write,
    /// Waiting until what was written is on the disk.
    Sync,
}

/// Why it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// `EIO`.
    Broken,
    /// `ENOSPC`.
    Full,
}

/// What a process says on standard error when its first write or sync fails.
pub const TOLD: &str = "of the database fails on purpose";

/// The library that stands between a process and its system. In C, since that cannot be written without `unsafe`.
pub struct WriteErrors {
    library: PathBuf,
}

impl WriteErrors {
    /// Compiles the library into this directory, which has to outlive the processes.
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

    /// Environment of a process whose `number`-th write or sync of a database, counted from 1 and over all its threads, fails:
    /// all from there on, or that one only.
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
