//! `tracewarden model plan`.

use http::Method;
use serde_json::Value;

use super::answers::Plan;
use super::api_client::ApiClient;
use super::file::ModelFile;
use super::paint::Paint;
use super::show;
use crate::command_line::{Format, ModelPlan};
use crate::policy::{self, EXIT_FAILED, ErrorReport, report};

/// Exit status of a plan that can be applied and has changes, with `--detailed-exitcode`.
const EXIT_CHANGES: u8 = 3;

/// Prints the changes that applying a file would make.
pub(super) fn run(options: &ModelPlan) -> Result<u8, ErrorReport> {
    // Read the file first: an unreadable file is reported without a service.
    let file = ModelFile::read(&options.file)?;
    let api_client = ApiClient::new(&options.request.connection)?;
    let answer: Value = request_plan(&api_client, &file, options.request.seconds)?;
    let plan: Plan = api_client.decode(answer.clone())?;
    let text = match options.format {
        Format::Json => report::json(&answer),
        Format::Text => show::plan(&plan, &file, &api_client.base, Paint::for_stdout()),
    };
    policy::write(&text)?;
    Ok(match (plan.tests_failed(), plan.changes.is_empty()) {
        (true, _) => EXIT_FAILED,
        (false, false) if options.detailed_exitcode => EXIT_CHANGES,
        _ => 0,
    })
}

pub(super) fn request_plan(
    api_client: &ApiClient,
    file: &ModelFile,
    seconds: u8,
) -> Result<Value, ErrorReport> {
    let path = format!("/schema/plan?seconds={seconds}");
    api_client
        .json(Method::POST, &path, None, Some(&file.body))
        .map_err(|failure| file.explain(api_client, failure))
}

impl Plan {
    /// Whether a test of the file failed, so that the file will not be applied.
    pub(super) fn tests_failed(&self) -> bool {
        self.tests.as_ref().is_some_and(|tests| !tests.failed.is_empty())
    }
}
