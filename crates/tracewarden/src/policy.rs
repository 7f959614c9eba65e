//! `tracewarden policy`: checks, evaluates and tests policies from files, without a service or ClickHouse.

mod check;
mod columns;
mod evaluate;
pub(crate) mod files;
pub(crate) mod report;
mod suite;
mod test;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::command_line::{Policy, PolicyTest};

/// Exit status when policies are not valid, or a test failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status when the command could not do its work.
pub(crate) const NOT_DONE: u8 = 2;

/// Why a command could not do its work.
#[derive(Debug, Default)]
pub(crate) struct Trouble(pub(crate) Vec<Line>);

/// One message of it.
#[derive(Debug)]
pub(crate) enum Line {
    /// A message, with file and position if known.
    Message(String),
    /// A rendered diagnostic.
    Rendered(String),
}

impl Trouble {
    pub(crate) fn one(message: impl Into<String>) -> Self {
        Self(vec![Line::Message(message.into())])
    }
}

/// Runs a command. Results go to the standard output, errors to the standard error.
pub fn run(command: &Policy) -> ExitCode {
    match command {
        Policy::Check(options) => finish(|output| check::run(options, output)),
        Policy::Evaluate(options) => finish(|output| evaluate::run(options, output)),
        Policy::Test(options) => test(options),
    }
}

/// Runs the tests in files.
pub(crate) fn test(options: &PolicyTest) -> ExitCode {
    finish(|output| test::run(options, output))
}

fn finish(command: impl FnOnce(&mut String) -> Result<u8, Trouble>) -> ExitCode {
    let mut output = String::new();
    let status = command(&mut output);
    // Print the results so far, also after an error.
    let written = write(&output);
    ended(status.and_then(|status| written.map(|()| status)))
}

/// Writes results to the standard output.
///
/// # Errors
/// When they cannot be written, unless the reader has closed the pipe.
pub(crate) fn write(text: &str) -> Result<(), Trouble> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // A reader may close the pipe early, as `head` does.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Trouble::one(format!("the results cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the exit status of a command, after printing its errors to the standard error.
fn ended(status: Result<u8, Trouble>) -> ExitCode {
    status
        .unwrap_or_else(|trouble| {
            tell(trouble);
            NOT_DONE
        })
        .into()
}

/// Prints to the standard error why a command could not do its work.
pub(crate) fn tell(Trouble(lines): Trouble) {
    let mut standard_error = io::stderr().lock();
    for line in lines {
        // If the standard error cannot be written, the exit status still shows the failure.
        let _ = match line {
            Line::Message(message) => writeln!(standard_error, "tracewarden: {message}"),
            Line::Rendered(text) => writeln!(standard_error, "{text}\n"),
        };
    }
}

/// Returns every message that the commands print for a file, which is read as each of the files that they accept.
#[cfg(test)]
pub(crate) fn said(path: &std::path::Path) -> Vec<String> {
    let options =
        PolicyTest { files: vec![path.to_owned()], model: None, format: crate::command_line::Format::Text };
    let mut output = String::new();
    let troubles = [
        test::run(&options, &mut output).err(),
        files::user(path).err(),
        files::spans(path).err(),
        files::model(path).err(),
    ];
    let lines = troubles.into_iter().flatten().flat_map(|trouble| trouble.0);
    let said = lines.map(|line| match line {
        Line::Message(text) | Line::Rendered(text) => text,
    });
    said.chain([output]).collect()
}
