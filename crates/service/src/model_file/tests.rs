//! Running the tests of a file. The transport defines the format of the test document and of spans.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use tracewarden_appdb::ModelState;
use utoipa::ToSchema;

use crate::core::{CancelOnDrop, FieldError, Result, ServiceError};
use crate::model_file::ModelFiles;

/// Time-out for all tests of a file, including the wait in the queue.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the tests of a model on its roles, and stops soon after the flag is set. Errors, with JSON Pointers, are those that
/// prevent the tests from being run.
pub type RunTests = fn(&ModelState, &AtomicBool) -> Result<TestRun, Vec<FieldError>>;

/// Results of the tests of a model file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ModelTests)]
pub struct TestRun {
    /// Number of tests that passed.
    pub passed: usize,
    /// The tests that failed.
    pub failed: Vec<FailedTest>,
}

/// A test of a model file that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailedTest {
    /// JSON Pointer to the test.
    #[serde(skip)]
    pub pointer: String,
    /// Name of the test.
    pub name: String,
    /// The difference from the expected result.
    pub message: String,
}

impl TestRun {
    /// Converts the faults that prevent the tests from being run into failed tests.
    pub(super) fn impossible(faults: Vec<FieldError>) -> Self {
        let failed_test = |fault: FieldError| FailedTest {
            name: format!("cannot be run: {}", fault.pointer),
            pointer: fault.pointer,
            message: fault.detail,
        };
        Self { passed: 0, failed: faults.into_iter().map(failed_test).collect() }
    }

    /// Checks that all tests passed.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with `tests_failed`, one for each failed test.
    pub(super) fn require_passed(self) -> Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let failed_test = |test: FailedTest| {
            FieldError::new(test.pointer, "tests_failed", format!("{}: {}", test.name, test.message))
        };
        Err(ServiceError::Refused(self.failed.into_iter().map(failed_test).collect()))
    }
}

impl ModelFiles {
    /// Runs the tests of a model.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with pointers when they cannot be run, or take too long.
    pub(super) async fn run_tests(&self, state: ModelState, run: RunTests) -> Result<TestRun> {
        if state.tests.is_empty() {
            return Ok(TestRun::default());
        }
        let cancel = CancelOnDrop(Arc::default());
        let stopped = Arc::clone(&cancel.0);
        let running = self.core.permits.analysis.run(move || run(&state, &stopped));
        match tokio::time::timeout(TIMEOUT, running).await {
            Ok(result) => result?.map_err(ServiceError::Refused),
            Err(_) => {
                let detail = format!(
                    "the tests did not end within {} seconds: reduce the number or size of the tests, or try \
                     again when the service has less load",
                    TIMEOUT.as_secs()
                );
                Err(ServiceError::refused("/tests", "tests_failed", detail))
            }
        }
    }
}
