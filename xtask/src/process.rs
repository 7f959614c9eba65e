//! Runs other programs.

use std::fmt;
use std::io::ErrorKind;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// Error of a program that ran with inherited standard streams and did not exit successfully.
#[derive(Debug)]
pub struct CommandFailed {
    command_line: String,
    status: ExitStatus,
}

impl CommandFailed {
    /// Returns the exit code, or `None` if a signal ended the program.
    pub fn code(&self) -> Option<u8> {
        self.status.code().and_then(|code| u8::try_from(code).ok())
    }
}

impl fmt::Display for CommandFailed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` failed ({})", self.command_line, status_text(self.status))
    }
}

impl std::error::Error for CommandFailed {}

/// Runs a program with inherited standard streams. Returns an error unless it exits successfully.
pub fn run(command: &mut Command) -> Result<()> {
    let command_line = command_line(command);
    let status = command.status().with_context(|| format!("cannot run `{command_line}`"))?;
    if !status.success() {
        return Err(CommandFailed { command_line, status }.into());
    }
    Ok(())
}

/// Runs a program and returns its standard output. Its standard error is shown only on failure.
pub fn capture_output(command: &mut Command) -> Result<String> {
    let command_line = command_line(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{command_line}`"))?;
    if !output.status.success() {
        let error_text = String::from_utf8_lossy(&output.stderr);
        bail!("`{command_line}` failed ({}):\n{}", status_text(output.status), error_text.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{command_line}` printed something that is not UTF-8"))
}

/// Whether a program can be started.
pub fn is_installed(program: &str) -> bool {
    let started = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    !matches!(started, Err(error) if error.kind() == ErrorKind::NotFound)
}

/// Describes an exit status.
pub fn status_text(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

/// Formats the command with its arguments, but not its environment, which may contain passwords.
fn command_line(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or_default();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program.into()).chain(arguments).collect::<Vec<_>>().join(" ")
}
