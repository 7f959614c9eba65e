//! `tracewarden policy`: policies without a service or a trace store, from files.

mod check;
mod columns;
mod evaluate;
mod files;
mod report;
mod suite;
mod test;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::command_line::Policy;

/// The status when policies are not valid, or a test failed.
const FAILED: u8 = 1;
/// The status when that could not be found out.
const NOT_DONE: u8 = 2;

/// What kept a command from its work.
#[derive(Debug, Default)]
struct Trouble(Vec<Line>);

/// A part of what is said about it.
#[derive(Debug)]
enum Line {
    /// With the file and the place where there is one.
    Message(String),
    /// A diagnostic as it is shown.
    Rendered(String),
}

impl Trouble {
    fn one(message: impl Into<String>) -> Self {
        Self(vec![Line::Message(message.into())])
    }
}

/// Runs a command. What it found goes to the standard output, what kept it from its work to the standard error.
pub fn run(command: &Policy) -> ExitCode {
    let mut output = String::new();
    let status = match command {
        Policy::Check(options) => check::run(options, &mut output),
        Policy::Evaluate(options) => evaluate::run(options, &mut output),
        Policy::Test(options) => test::run(options, &mut output),
    };
    let mut standard_output = io::stdout().lock();
    let written = standard_output.write_all(output.as_bytes()).and_then(|()| standard_output.flush());
    let status = match (status, written) {
        // Whoever stops reading has seen enough.
        (Ok(_), Err(error)) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Trouble::one(format!("the results cannot be written: {error}")))
        }
        (status, _) => status,
    };
    match status {
        Ok(status) => status.into(),
        Err(Trouble(lines)) => {
            let mut standard_error = io::stderr().lock();
            for line in lines {
                // Where nobody is told, the status still says it.
                let _ = match line {
                    Line::Message(message) => writeln!(standard_error, "tracewarden: {message}"),
                    Line::Rendered(text) => writeln!(standard_error, "{text}\n"),
                };
            }
            NOT_DONE.into()
        }
    }
}
