//! `tracewarden model`: the access model of a running service as one file, through the service's API.

mod answers;
mod apply;
mod export;
mod file;
mod history;
mod paint;
mod plan;
mod remote;
mod show;

use std::process::ExitCode;

use crate::command_line::Model;
use crate::policy::{self, FAILED, NOT_DONE, Trouble};

/// Exit status of a plan that can be applied and has changes, with `--detailed-exitcode`.
const CHANGES: u8 = 3;

/// Why a command ended without success.
#[derive(Debug)]
enum Stop {
    /// The file is not valid, a test fails, or the operator declined.
    Refused(Trouble),
    /// The command failed, or its outcome is unknown.
    NotDone(Trouble),
}

impl Stop {
    fn refused(message: impl Into<String>) -> Self {
        Self::Refused(Trouble::one(message))
    }

    fn not_done(message: impl Into<String>) -> Self {
        Self::NotDone(Trouble::one(message))
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::NotDone(trouble)
    }
}

/// Runs a command. Results go to the standard output, errors to the standard error.
pub fn run(command: &Model) -> ExitCode {
    let status = match command {
        Model::Export(options) => export::run(options),
        Model::Plan(options) => plan::run(options),
        Model::Apply(options) => apply::run(options),
        Model::Test(options) => return policy::test(options),
        Model::History(options) => history::run(options),
        Model::Restore(options) => apply::restore(options),
    };
    let status = status.unwrap_or_else(|stop| match stop {
        Stop::Refused(trouble) => {
            policy::tell(trouble);
            FAILED
        }
        Stop::NotDone(trouble) => {
            policy::tell(trouble);
            NOT_DONE
        }
    });
    status.into()
}

/// Returns every text that the commands print for an answer of the service, which is parsed as each of the answers that
/// they read.
#[cfg(test)]
pub(crate) fn shown(answer: &serde_json::Value) -> Vec<String> {
    use answers::{ChangeInFull, History, Plan};
    use paint::Paint;
    fn read<T: serde::de::DeserializeOwned>(answer: &serde_json::Value) -> Option<T> {
        serde_json::from_value(answer.clone()).ok()
    }
    let exact = serde_json::from_value(answer.clone()).unwrap_or_default();
    let file = file::ModelFile::of_version(7, &exact);
    let mut texts = Vec::new();
    texts.extend(read::<Plan>(answer).map(|plan| show::plan(&plan, &file, "https://a", Paint::none())));
    texts.extend(
        read::<ChangeInFull>(answer).map(|found| show::differences(&found.differences, Paint::none())),
    );
    texts.extend(read::<History>(answer).map(|history| history::entries(&history.changes, Paint::none())));
    texts.extend(read::<remote::Problem>(answer).map(|problem| problem.said()));
    texts
}
