//! `tracewarden model apply` and `restore`: they apply exactly the plan that was shown.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use http::Method;

use super::answers::{Applied, ChangeInFull, Plan};
use super::file::ModelFile;
use super::paint::{Paint, plain};
use super::remote::{Body, Failure, Remote};
use super::{Stop, plan, show};
use crate::command_line::{ModelApply, ModelRestore};
use crate::policy;

/// More than any answer to the prompt needs; bounds the memory if the wrong file is piped in.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Replaces the access model by a file.
pub(super) fn run(options: &ModelApply) -> Result<u8, Stop> {
    somebody_to_ask(options.yes)?;
    let file = ModelFile::read(&options.file)?;
    let remote = Remote::new(&options.connection)?;
    let change = Proposal {
        file: &file,
        tests_count: true,
        method: Method::PUT,
        path: "/schema/import",
        body: Some(&file.body),
    };
    change.carry_out(&remote, options.seconds, options.yes)
}

/// Restores the access model of an earlier version.
pub(super) fn restore(options: &ModelRestore) -> Result<u8, Stop> {
    somebody_to_ask(options.yes)?;
    let remote = Remote::new(&options.connection)?;
    let found: ChangeInFull = change(&remote, options.version)?;
    let file = ModelFile::of_version(options.version, &found.file);
    let path = format!("/schema/history/{}/restore", options.version);
    let change = Proposal { file: &file, tests_count: false, method: Method::POST, path: &path, body: None };
    change.carry_out(&remote, options.seconds, options.yes)
}

/// Fetches a change of the history.
pub(super) fn change<T: serde::de::DeserializeOwned>(remote: &Remote, number: u64) -> Result<T, Stop> {
    let answer = remote.json(Method::GET, &format!("/schema/history/{number}"), None, None);
    answer.map_err(|failure| match failure {
        Failure::Problem(problem) if problem.status == 404 && problem.code == "not_found" => {
            Stop::not_done(format!(
                "{} has no version {number} of the access model: `tracewarden model history` lists the \
                 versions",
                remote.base
            ))
        }
        failure => remote.explained(failure),
    })
}

/// A change of the access model that needs the operator's confirmation.
struct Proposal<'a> {
    file: &'a ModelFile,
    /// Whether failing tests prevent the change. They do not prevent a restore.
    tests_count: bool,
    method: Method,
    path: &'a str,
    body: Option<&'a Body>,
}

impl Proposal<'_> {
    fn carry_out(self, remote: &Remote, seconds: u8, agreed: bool) -> Result<u8, Stop> {
        let plan: Plan = remote.known(plan::ask(remote, self.file, seconds)?)?;
        policy::write(&show::plan(&plan, self.file, &remote.base, Paint::of_output()))?;
        if self.tests_count && plan.tests_failed() {
            return Err(Stop::refused("tests in the file fail, so nothing was changed"));
        }
        if plan.changes.is_empty() {
            return Ok(0);
        }
        if !agreed && !asked()? {
            return Err(Stop::refused("nothing was changed"));
        }
        // `If-Match` with the version of the plan: the service rejects the change if the model has changed since.
        let applied: Applied = remote
            .json(self.method.clone(), self.path, Some(plan.version), self.body)
            .map_err(|failure| self.not_applied(remote, failure))?;
        let Applied { version, notes } = applied;
        let mut text = format!("Applied; the access model is at version {version}.\n");
        for note in notes {
            text.push_str(&format!("note: {}\n", plain(&note)));
        }
        policy::write(&text)?;
        Ok(0)
    }

    /// Explains a failure. If no answer was received, the change may have been made.
    fn not_applied(&self, remote: &Remote, failure: Failure) -> Stop {
        let unknown = |message: String| {
            Stop::not_done(format!(
                "{message}; it is not known whether the change was made: `tracewarden model history` shows it"
            ))
        };
        match failure {
            Failure::Lost(message) => unknown(message),
            // A response without an error code comes from a proxy, which may not have waited for the service.
            Failure::Problem(problem) if problem.status >= 500 && problem.code.is_empty() => {
                unknown(format!("{} answered with {}", remote.base, problem.status))
            }
            failure => self.file.explained(remote, failure),
        }
    }
}

/// Checks before the first request that the operator can be asked: without a terminal, no answer can be read.
fn somebody_to_ask(agreed: bool) -> Result<(), Stop> {
    if agreed || io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Stop::not_done(
        "there is no terminal to ask for confirmation: check the output of `tracewarden model plan`, then \
         use `--yes`",
    ))
}

/// Asks for confirmation on the terminal.
fn asked() -> Result<bool, Stop> {
    let failed = |error: io::Error| Stop::not_done(format!("cannot ask for confirmation: {error}"));
    let mut terminal = io::stderr();
    terminal.write_all(b"\nApply? [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
