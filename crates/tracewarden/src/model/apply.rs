//! `tracewarden model apply` and `restore`: what is applied is what was shown.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use http::Method;

use super::answers::{Applied, ChangeInFull, Plan};
use super::file::ModelFile;
use super::paint::{Paint, plain};
use super::remote::{Body, Failure, Remote};
use super::{Stop, plan, show};
use crate::command_line::{ModelApply, ModelRestore};
use crate::policy;

/// More than anybody answers with, so that a wrong pipe does not fill the memory.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Makes the access model what a file says.
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

/// Makes the access model what it was after a change.
pub(super) fn restore(options: &ModelRestore) -> Result<u8, Stop> {
    somebody_to_ask(options.yes)?;
    let remote = Remote::new(&options.connection)?;
    let found: ChangeInFull = change(&remote, options.version)?;
    let file = ModelFile::of_version(options.version, &found.file);
    let path = format!("/schema/history/{}/restore", options.version);
    let change = Proposal { file: &file, tests_count: false, method: Method::POST, path: &path, body: None };
    change.carry_out(&remote, options.seconds, options.yes)
}

/// A change of the history with all that is known of it.
pub(super) fn change<T: serde::de::DeserializeOwned>(remote: &Remote, number: u64) -> Result<T, Stop> {
    let answer = remote.json(Method::GET, &format!("/schema/history/{number}"), None, None);
    answer.map_err(|failure| match failure {
        Failure::Problem(problem) if problem.status == 404 && problem.code == "not_found" => {
            Stop::not_done(format!(
                "{} has no version {number} of the access model: `tracewarden model history` lists them",
                remote.base
            ))
        }
        failure => remote.explained(failure),
    })
}

/// A change of the access model that somebody has to agree to.
struct Proposal<'a> {
    file: &'a ModelFile,
    /// Whether failing tests stand in its way. They do not keep anybody from going back.
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
            return Err(Stop::refused("tests of the file fail, and so nothing was changed"));
        }
        if plan.changes.is_empty() {
            return Ok(0);
        }
        if !agreed && !asked()? {
            return Err(Stop::refused("nothing was changed"));
        }
        // With the version that the plan was compared with: whatever was done since is not overwritten unseen.
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

    /// Where no answer came, the change may have been made.
    fn not_applied(&self, remote: &Remote, failure: Failure) -> Stop {
        let unknown = |message: String| {
            Stop::not_done(format!(
                "{message}; it is not known whether the change was made: `tracewarden model history` says it"
            ))
        };
        match failure {
            Failure::Lost(message) => unknown(message),
            // Not the service's own answer: of somebody between, who may not have waited for it.
            Failure::Problem(problem) if problem.status >= 500 && problem.code.is_empty() => {
                unknown(format!("{} answers with {}", remote.base, problem.status))
            }
            failure => self.file.explained(remote, failure),
        }
    }
}

/// Before anything is sent: without a terminal nobody could answer.
fn somebody_to_ask(agreed: bool) -> Result<(), Stop> {
    if agreed || io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Stop::not_done("nobody can be asked here: look at `tracewarden model plan`, and then give `--yes`"))
}

/// Asks on the terminal.
fn asked() -> Result<bool, Stop> {
    let failed = |error: io::Error| Stop::not_done(format!("nobody can be asked: {error}"));
    let mut terminal = io::stderr();
    terminal.write_all(b"\nApply? [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
