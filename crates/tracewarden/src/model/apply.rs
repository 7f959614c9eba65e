//! `tracewarden model apply` and `restore`: they apply exactly the plan that was shown.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use http::Method;

use super::answers::{ApplyResult, ChangeDetails, Plan};
use super::api_client::{ApiClient, Body, Failure};
use super::file::ModelFile;
use super::paint::{Paint, sanitize};
use super::{plan, show};
use crate::command_line::{ModelApply, ModelRestore};
use crate::policy::{self, ErrorReport};

/// More than any answer to the prompt needs; bounds the memory if the wrong file is piped in.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Replaces the access model by a file.
pub(super) fn run(options: &ModelApply) -> Result<u8, ErrorReport> {
    require_terminal(options.yes)?;
    let file = ModelFile::read(&options.file)?;
    let api_client = ApiClient::new(&options.request.connection)?;
    let change = Proposal {
        file: &file,
        require_tests: true,
        method: Method::PUT,
        path: "/schema/import",
        body: Some(&file.body),
    };
    change.execute(&api_client, options.request.seconds, options.yes)
}

/// Restores the access model of an earlier version.
pub(super) fn restore(options: &ModelRestore) -> Result<u8, ErrorReport> {
    require_terminal(options.yes)?;
    let api_client = ApiClient::new(&options.request.connection)?;
    let found: ChangeDetails = change(&api_client, options.version)?;
    let file = ModelFile::from_version(options.version, &found.file);
    let path = format!("/schema/history/{}/restore", options.version);
    let change =
        Proposal { file: &file, require_tests: false, method: Method::POST, path: &path, body: None };
    change.execute(&api_client, options.request.seconds, options.yes)
}

/// Fetches a change of the history.
pub(super) fn change<T: serde::de::DeserializeOwned>(
    api_client: &ApiClient,
    number: u64,
) -> Result<T, ErrorReport> {
    let answer = api_client.json(Method::GET, &format!("/schema/history/{number}"), None, None);
    answer.map_err(|failure| match failure {
        Failure::Problem(problem) if problem.status == 404 && problem.code == "not_found" => {
            ErrorReport::failed(format!(
                "{} has no version {number} of the access model: `tracewarden model history` lists the \
                 versions",
                api_client.base
            ))
        }
        failure => api_client.explain(failure),
    })
}

/// A change of the access model that needs the operator's confirmation.
struct Proposal<'a> {
    file: &'a ModelFile,
    /// Whether failing tests prevent the change. They do not prevent a restore.
    require_tests: bool,
    method: Method,
    path: &'a str,
    body: Option<&'a Body>,
}

impl Proposal<'_> {
    fn execute(self, api_client: &ApiClient, seconds: u8, confirmed: bool) -> Result<u8, ErrorReport> {
        let plan: Plan = api_client.decode(plan::request_plan(api_client, self.file, seconds)?)?;
        policy::write(&show::plan(&plan, self.file, &api_client.base, Paint::for_stdout()))?;
        if self.require_tests && plan.tests_failed() {
            return Err(ErrorReport::failed("tests in the file fail, so nothing was changed").rejected());
        }
        if plan.changes.is_empty() {
            return Ok(0);
        }
        if !confirmed && !confirm()? {
            return Err(ErrorReport::failed("nothing was changed").rejected());
        }
        // `If-Match` with the version of the plan: the service rejects the change if the model has changed since.
        let applied: ApplyResult = api_client
            .json(self.method.clone(), self.path, Some(plan.version), self.body)
            .map_err(|failure| self.apply_error(api_client, failure))?;
        let ApplyResult { version, notes } = applied;
        let mut text = format!("Applied; the access model is at version {version}.\n");
        for note in notes {
            text.push_str(&format!("note: {}\n", sanitize(&note)));
        }
        policy::write(&text)?;
        Ok(0)
    }

    /// Explains a failure. If no answer was received, the change may have been made.
    fn apply_error(&self, api_client: &ApiClient, failure: Failure) -> ErrorReport {
        let unknown = |message: String| {
            ErrorReport::failed(format!(
                "{message}; it is not known whether the change was made: `tracewarden model history` shows it"
            ))
        };
        match failure {
            Failure::NoAnswer(message) => unknown(message),
            // A response without an error code comes from a proxy, which may not have waited for the service.
            Failure::Problem(problem) if problem.status >= 500 && problem.code.is_empty() => {
                unknown(format!("{} answered with {}", api_client.base, problem.status))
            }
            failure => self.file.explain(api_client, failure),
        }
    }
}

/// Checks before the first request that the operator can be asked: without a terminal, no answer can be read.
fn require_terminal(confirmed: bool) -> Result<(), ErrorReport> {
    if confirmed || io::stdin().is_terminal() {
        return Ok(());
    }
    Err(ErrorReport::failed(
        "there is no terminal to ask for confirmation: check the output of `tracewarden model plan`, then \
         use `--yes`",
    ))
}

fn confirm() -> Result<bool, ErrorReport> {
    let failed = |error: io::Error| ErrorReport::failed(format!("cannot ask for confirmation: {error}"));
    let mut terminal = io::stderr();
    terminal.write_all(b"\nApply? [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
