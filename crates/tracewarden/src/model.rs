//! `tracewarden model`: the access model of a running service as one file, through the service's API.

mod answers;
mod api_client;
mod apply;
mod export;
mod file;
mod history;
mod paint;
mod plan;
mod show;

use std::process::ExitCode;

use crate::command_line::Model;
use crate::policy;

/// Runs a command. Results go to the standard output, errors to the standard error.
pub fn run(command: &Model) -> ExitCode {
    policy::exit_code(match command {
        Model::Export(options) => export::run(options),
        Model::Plan(options) => plan::run(options),
        Model::Apply(options) => apply::run(options),
        Model::Test(options) => return policy::test(options),
        Model::History(options) => history::run(options),
        Model::Restore(options) => apply::restore(options),
    })
}

/// Returns every text that the commands print for an answer of the service, which is parsed as each of the answers that
/// they read.
#[cfg(test)]
pub(crate) fn printed_texts(answer: &serde_json::Value) -> Vec<String> {
    use answers::{ChangeDetails, History, Plan};
    use paint::Paint;
    fn read<T: serde::de::DeserializeOwned>(answer: &serde_json::Value) -> Option<T> {
        serde_json::from_value(answer.clone()).ok()
    }
    let exact = serde_json::from_value(answer.clone()).unwrap_or_default();
    let file = file::ModelFile::from_version(7, &exact);
    let mut texts = Vec::new();
    texts.extend(read::<Plan>(answer).map(|plan| show::plan(&plan, &file, "https://a", Paint::none())));
    texts.extend(
        read::<ChangeDetails>(answer).map(|found| show::differences(&found.differences, Paint::none())),
    );
    texts.extend(read::<History>(answer).map(|history| history::entries(&history.changes, Paint::none())));
    texts.extend(read::<api_client::Problem>(answer).map(|problem| problem.message()));
    texts
}
