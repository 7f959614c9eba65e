//! `tracewarden model`: the access model of a running service as one file, over its API.

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

/// The status of a plan that can be applied and changes something, for those who asked for it.
const CHANGES: u8 = 3;

/// Why a command ended without its work done.
#[derive(Debug)]
enum Stop {
    /// The file is not valid, or somebody said no.
    Refused(Trouble),
    /// It could not be done, or not be found out.
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

/// Runs a command. What it found goes to the standard output, what kept it from its work to the standard error.
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

/// All that commands show of what a service answers with, as if it were each of the answers that they read.
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
