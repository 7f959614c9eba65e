//! `tracewarden model plan`.

use http::Method;
use serde_json::Value;

use super::answers::Plan;
use super::file::ModelFile;
use super::paint::Paint;
use super::remote::Remote;
use super::{CHANGES, Stop, show};
use crate::command_line::{Format, ModelPlan};
use crate::policy::{self, FAILED, report};

/// Prints the changes that applying a file would make.
pub(super) fn run(options: &ModelPlan) -> Result<u8, Stop> {
    // Read the file first: an unreadable file is reported without a service.
    let file = ModelFile::read(&options.file)?;
    let remote = Remote::new(&options.connection)?;
    let answer: Value = ask(&remote, &file, options.seconds)?;
    let plan: Plan = remote.known(answer.clone())?;
    let text = match options.format {
        Format::Json => {
            let mut text = String::new();
            report::json(&answer, &mut text);
            text
        }
        Format::Text => show::plan(&plan, &file, &remote.base, Paint::of_output()),
    };
    policy::write(&text)?;
    Ok(match (plan.tests_failed(), plan.changes.is_empty()) {
        (true, _) => FAILED,
        (false, false) if options.detailed_exitcode => CHANGES,
        _ => 0,
    })
}

/// Requests a plan from the service.
pub(super) fn ask(remote: &Remote, file: &ModelFile, seconds: u8) -> Result<Value, Stop> {
    let path = format!("/schema/plan?seconds={seconds}");
    remote
        .json(Method::POST, &path, None, Some(&file.body))
        .map_err(|failure| file.explained(remote, failure))
}

impl Plan {
    /// Whether a test of the file failed, so that the file will not be applied.
    pub(super) fn tests_failed(&self) -> bool {
        self.tests.as_ref().is_some_and(|tests| !tests.failed.is_empty())
    }
}
