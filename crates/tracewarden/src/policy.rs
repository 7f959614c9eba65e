//! `tracewarden policy`: checks, evaluates and tests policies from files, without a service or ClickHouse.

mod check;
mod columns;
mod error;
mod evaluate;
pub(crate) mod files;
pub(crate) mod report;
mod test;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::command_line::{Policy, PolicyTest};

pub(crate) use error::{EXIT_FAILED, ErrorReport, Line};

/// Runs a command. Results go to the standard output, errors to the standard error.
pub fn run(command: &Policy) -> ExitCode {
    match command {
        Policy::Check(options) => finish(|output| check::run(options, output)),
        Policy::Evaluate(options) => finish(|output| evaluate::run(options, output)),
        Policy::Test(options) => test(options),
    }
}

pub(crate) fn test(options: &PolicyTest) -> ExitCode {
    finish(|output| test::run(options, output))
}

fn finish(command: impl FnOnce(&mut String) -> Result<u8, ErrorReport>) -> ExitCode {
    let mut output = String::new();
    let status = command(&mut output);
    // Print the results so far, also after an error.
    let written = write(&output);
    exit_code(status.and_then(|status| written.map(|()| status)))
}

/// Writes results to the standard output.
pub(crate) fn write(text: &str) -> Result<(), ErrorReport> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // A reader may close the pipe early, as `head` does.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(ErrorReport::failed(format!("the results cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the exit status of a command, and prints to the standard error why it ended without success.
pub(crate) fn exit_code(status: Result<u8, ErrorReport>) -> ExitCode {
    let status = status.unwrap_or_else(|ErrorReport { status, lines }| {
        let mut standard_error = io::stderr().lock();
        for line in lines {
            // If the standard error cannot be written, the exit status still shows the failure.
            let _ = match line {
                Line::Message(message) => writeln!(standard_error, "tracewarden: {message}"),
                Line::Rendered(text) => writeln!(standard_error, "{text}\n"),
            };
        }
        status
    });
    status.into()
}

/// Returns every message that the commands print for a file, which is read as each of the files that they accept.
#[cfg(test)]
pub(crate) fn printed_messages(path: &std::path::Path) -> Vec<String> {
    let options =
        PolicyTest { files: vec![path.to_owned()], model: None, format: crate::command_line::Format::Text };
    let mut output = String::new();
    let error_reports = [
        test::run(&options, &mut output).err(),
        files::user(path).err(),
        files::spans(path).err(),
        files::model(path).err(),
    ];
    let lines = error_reports.into_iter().flatten().flat_map(|error_report| error_report.lines);
    let printed_messages = lines.map(|line| match line {
        Line::Message(text) | Line::Rendered(text) => text,
    });
    printed_messages.chain([output]).collect()
}
