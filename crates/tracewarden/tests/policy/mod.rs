//! `tracewarden policy`, run as from a terminal or in CI.

mod advice;
mod check;
mod decisions;
mod evaluate;
mod files;
mod suites;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory with files, in which the program runs.
pub struct Workspace {
    directory: tempfile::TempDir,
}

/// Exit status and output of the program.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Workspace {
    /// Creates a directory with these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let workspace = Self { directory: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            let path = workspace.directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        workspace
    }

    /// Runs `tracewarden policy …`.
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, "")
    }

    /// The same with a text on the standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        run_in(self.directory.path(), arguments, input)
    }
}

/// The same in a given directory.
pub fn run_in(directory: &Path, arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracewarden"))
        .arg("policy")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the directory of the documentation.
pub fn documentation() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A model with fields of several kinds.
pub const MODEL: &str = "\
fields:
  - {name: ServiceName, column_type: LowCardinality(String)}
  - {name: Nick, column_type: Nullable(String)}
  - {name: Kind, column_type: \"Enum8('Server' = 1, 'Client' = 2)\"}
  - {name: Hash, column_type: FixedString(8)}
  - {name: Events.Name, type: string_array}
  - {map: SpanAttributes, name: env}
  - {map: SpanAttributes, name: flag, type: boolean}
  - {map: Attrs, name: user.id, column_type: Dynamic}
  - {name: Duration, type: number}
";
