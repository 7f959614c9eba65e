//! Log of single measurements as JSON lines, so that medians can be verified.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// A file that measurements are appended to, or none.
pub struct Log {
    file: Option<File>,
}

impl Log {
    /// Creates the file, or truncates it.
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let create =
            |path: &Path| File::create(path).with_context(|| format!("cannot create `{}`", path.display()));
        Ok(Self { file: path.map(create).transpose()? })
    }

    /// Appends a line immediately, so that a failed run keeps its measurements.
    pub fn write(&self, line: &Value) -> Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        file.write_all(format!("{line}\n").as_bytes()).context("cannot write the log of measurements")
    }
}
