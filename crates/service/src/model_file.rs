//! The whole access model as one file: binding, marked fields, roles with their policies, and tests of them. An import makes
//! the same checks as the requests that change a part, and takes effect as a whole or not at all.

mod changes;
mod file;
mod history;
mod import;
mod plan;
mod prepare;
mod tests;

use std::sync::Arc;

use crate::core::Core;

pub use changes::{ChangeKind, ModelChange, ModelPart, PartKind};
pub use file::{ExportedModel, FileField, ModelFile};
pub use history::{HistoryEntry, HistoryPage, ModelAt};
pub use import::ImportedModel;
pub use plan::{LostRole, ModelPlan};
pub use prepare::PolicyWarning;
pub use tests::{FailedTest, RunTests, TestRun};

/// The access model as a file, and its history.
#[derive(Clone)]
pub struct ModelFiles {
    pub(crate) core: Arc<Core>,
}
