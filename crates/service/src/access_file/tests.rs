//! Running the tests of a file. What is in their document, and how spans are read, is known to whoever reads files.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tracewarden_appdb::ModelState;

use crate::error::{FieldError, ServiceError};
use crate::evaluation::Asked;
use crate::service::Service;

/// How long all tests of a file may take, and wait for their turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the tests of a model on its roles, and stops soon after the flag is set. Errors are what keeps them from being
/// run, with JSON Pointers.
pub type RunTests = fn(&ModelState, &AtomicBool) -> Result<TestRun, Vec<FieldError>>;

/// What tests came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRun {
    /// How many passed.
    pub passed: usize,
    /// Those that did not.
    pub failed: Vec<FailedTest>,
}

/// A test that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTest {
    /// JSON Pointer to it.
    pub pointer: String,
    /// What it shows.
    pub name: String,
    /// What is otherwise than expected.
    pub message: String,
}

impl TestRun {
    /// Tests that cannot be run, each fault as one that failed.
    pub(super) fn impossible(faults: Vec<FieldError>) -> Self {
        let told = |fault: FieldError| FailedTest {
            name: format!("cannot be run: {}", fault.pointer),
            pointer: fault.pointer,
            message: fault.detail,
        };
        Self { passed: 0, failed: faults.into_iter().map(told).collect() }
    }

    /// All tests passed.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with `tests_failed`, one for each test that did not.
    pub(super) fn require_passed(self) -> Result<(), ServiceError> {
        if self.failed.is_empty() {
            return Ok(());
        }
        let told = |test: FailedTest| {
            FieldError::new(test.pointer, "tests_failed", format!("{}: {}", test.name, test.message))
        };
        Err(ServiceError::Refused(self.failed.into_iter().map(told).collect()))
    }
}

impl Service {
    /// Runs the tests of a model.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with pointers when they cannot be run, or take too long.
    pub(super) async fn run_tests(&self, state: ModelState, run: RunTests) -> Result<TestRun, ServiceError> {
        if state.tests.is_empty() {
            return Ok(TestRun::default());
        }
        let asked = Asked(Arc::default());
        let stopped = Arc::clone(&asked.0);
        let running = self.examining().run(move || run(&state, &stopped));
        match tokio::time::timeout(PATIENCE, running).await {
            Ok(result) => result?.map_err(ServiceError::Refused),
            Err(_) => {
                let detail = format!(
                    "the tests did not end within {} seconds: keep fewer or smaller ones with the model, or try again when \
                     less is asked of the service",
                    PATIENCE.as_secs()
                );
                Err(ServiceError::refused("/tests", "tests_failed", detail))
            }
        }
    }
}
