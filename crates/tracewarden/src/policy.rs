//! `tracewarden policy`: policies without a service or a trace store, from files.

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

/// The status when policies are not valid, or a test failed.
pub(crate) const FAILED: u8 = 1;
/// The status when that could not be found out.
pub(crate) const NOT_DONE: u8 = 2;

/// What kept a command from its work.
#[derive(Debug, Default)]
pub(crate) struct Trouble(pub(crate) Vec<Line>);

/// A part of what is said about it.
#[derive(Debug)]
pub(crate) enum Line {
    /// With the file and the place where there is one.
    Message(String),
    /// A diagnostic as it is shown.
    Rendered(String),
}

impl Trouble {
    pub(crate) fn one(message: impl Into<String>) -> Self {
        Self(vec![Line::Message(message.into())])
    }
}

/// Runs a command. What it found goes to the standard output, what kept it from its work to the standard error.
pub fn run(command: &Policy) -> ExitCode {
    match command {
        Policy::Check(options) => finish(|output| check::run(options, output)),
        Policy::Evaluate(options) => finish(|output| evaluate::run(options, output)),
        Policy::Test(options) => test(options),
    }
}

/// Runs the tests of files.
pub(crate) fn test(options: &PolicyTest) -> ExitCode {
    finish(|output| test::run(options, output))
}

fn finish(command: impl FnOnce(&mut String) -> Result<u8, Trouble>) -> ExitCode {
    let mut output = String::new();
    let status = command(&mut output);
    // What was found is said also when something kept the command from the rest.
    let written = write(&output);
    ended(status.and_then(|status| written.map(|()| status)))
}

/// Writes results to the standard output.
///
/// # Errors
/// When they cannot be written, unless nobody reads them any more.
pub(crate) fn write(text: &str) -> Result<(), Trouble> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // Whoever stops reading has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Trouble::one(format!("the results cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// The status of a command; what kept it from its work is said on the standard error.
fn ended(status: Result<u8, Trouble>) -> ExitCode {
    status
        .unwrap_or_else(|trouble| {
            tell(trouble);
            NOT_DONE
        })
        .into()
}

/// Says on the standard error what kept a command from its work.
pub(crate) fn tell(Trouble(lines): Trouble) {
    let mut standard_error = io::stderr().lock();
    for line in lines {
        // Where nobody is told, the status still says it.
        let _ = match line {
            Line::Message(message) => writeln!(standard_error, "tracewarden: {message}"),
            Line::Rendered(text) => writeln!(standard_error, "{text}\n"),
        };
    }
}

/// All that commands say of a file, as if it were each of the files that they read.
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
