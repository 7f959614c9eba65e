//! Runs the stored tests of the access model on its roles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use tracewarden_model::Caller;
use tracewarden_service::suite::{Failure, Suite, TestError};
use tracewarden_service::{Diagnostic, FailedTest, FieldError, ModelState, TestRun};

use crate::json::Json;
use crate::policy_file::{FileRole, FileTest, MemberFault, PolicyFile, TestsDocument};
use crate::policy_suite::{SuiteFault, resolve};

/// Maximum number of reasons in the report of a failed test.
const MAX_REASONS: usize = 3;

/// Runs the stored tests of a model. A policy that is not valid does not prevent the tests that do not depend on it. Whether the
/// model may contain such a policy is not decided here.
///
/// # Errors
/// Every fault that prevents running them.
pub fn run_tests(state: &ModelState, stopped: &AtomicBool) -> Result<TestRun, Vec<FieldError>> {
    let TestsDocument { users, traces, tests } = TestsDocument::read(&state.tests)
        .map_err(|fault| vec![error("/tests", format!("the tests cannot be read: {}", fault.message))])?;
    let roles = state
        .roles
        .iter()
        .map(|(name, policies)| FileRole { name: name.clone(), policies: policies.clone() });
    let mut file = PolicyFile { roles: roles.collect(), users, traces, tests, ..PolicyFile::default() };
    let mut run = TestRun::default();
    let mut indexes: Vec<usize> = (0..file.tests.len()).collect();
    let suite = match resolve(&file, &state.model) {
        Ok(suite) => suite,
        Err(faults) => {
            let broken = remove_broken_policies(&mut file, &faults);
            if broken.is_empty() {
                return Err(error_list(faults));
            }
            indexes = fail_tests_of_broken_policies(&mut file, &broken, &mut run);
            if indexes.is_empty() {
                return Ok(run);
            }
            // Other faults are reported from the first attempt, whose pointers refer to the complete file.
            resolve(&file, &state.model).map_err(|_| error_list(faults))?
        }
    };
    run_suite(&suite, &indexes, stopped, &mut run)?;
    Ok(run)
}

fn error(pointer: &str, detail: String) -> FieldError {
    FieldError { pointer: pointer.to_owned(), code: "invalid_value", detail, diagnostic: None }
}

fn policy_error(pointer: &str, label: &str, diagnostics: Vec<Diagnostic>) -> FieldError {
    let reason = diagnostics.into_iter().next().map(|found| found.message).unwrap_or_default();
    error(pointer, format!("policy `{label}`: {reason}"))
}

fn error_list(faults: Vec<SuiteFault>) -> Vec<FieldError> {
    let error_list = faults.into_iter().map(|fault| match fault {
        SuiteFault::Member(MemberFault { pointer, message }) => error(&pointer, message),
        SuiteFault::Policy { label, diagnostics, .. } => policy_error("/roles", &label, diagnostics),
    });
    error_list.collect()
}

/// Removes invalid policies from their roles and returns their titles by role.
fn remove_broken_policies(file: &mut PolicyFile, faults: &[SuiteFault]) -> BTreeMap<String, Vec<String>> {
    let invalid: BTreeSet<&str> = faults
        .iter()
        .filter_map(|fault| match fault {
            SuiteFault::Policy { pointer, .. } => Some(pointer.as_str()),
            SuiteFault::Member(_) => None,
        })
        .collect();
    let mut broken: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (at, role) in file.roles.iter_mut().enumerate() {
        let mut index = 0..;
        role.policies.retain(|policy| {
            let is_broken =
                index.next().is_some_and(|index| invalid.contains(&*format!("/roles/{at}/policies/{index}")));
            if is_broken {
                broken.entry(role.name.clone()).or_default().push(policy.title.clone());
            }
            !is_broken
        });
    }
    broken
}

/// Removes the tests that depend on a broken policy and counts them as failed: tests with users who have its role, and so can
/// read nothing, and tests of the policy itself. Returns the original positions of the other tests.
fn fail_tests_of_broken_policies(
    file: &mut PolicyFile,
    broken: &BTreeMap<String, Vec<String>>,
    run: &mut TestRun,
) -> Vec<usize> {
    let users: Vec<Caller> = file.users.iter().cloned().map(Caller::from).collect();
    let decided_by = |test: &FileTest| {
        let user = users.iter().find(|user| user.username == test.user);
        let has_role = |role: &str| user.is_some_and(|user| user.roles.contains(role));
        let names = |role: &str, title: &str| match &test.policies {
            Some(Json::Object(members)) => {
                members.iter().any(|(name, _)| name == title || *name == format!("{role}/{title}"))
            }
            _ => false,
        };
        broken.iter().find_map(|(role, titles)| {
            let title = titles.iter().find(|title| has_role(role) || names(role, title))?;
            Some(format!("policy `{role}/{title}` is broken, so users with the role can read no trace"))
        })
    };
    let mut indexes = Vec::with_capacity(file.tests.len());
    for (at, test) in std::mem::take(&mut file.tests).into_iter().enumerate() {
        match decided_by(&test) {
            Some(message) => {
                run.failed.push(FailedTest { pointer: format!("/tests/{at}"), name: test.name, message });
            }
            None => {
                file.tests.push(test);
                indexes.push(at);
            }
        }
    }
    indexes
}

/// Runs tests. `indexes` are their positions in the file.
fn run_suite(
    suite: &Suite,
    indexes: &[usize],
    stopped: &AtomicBool,
    run: &mut TestRun,
) -> Result<(), Vec<FieldError>> {
    for (test, at) in suite.tests.iter().zip(indexes) {
        let pointer = format!("/tests/{at}");
        match suite.run(test, stopped) {
            Ok(failures) if failures.is_empty() => run.passed += 1,
            Ok(failures) => {
                let message = message(&failures);
                run.failed.push(FailedTest { pointer, name: test.name.clone(), message });
            }
            Err(TestError { policy, diagnostics }) => {
                return Err(vec![policy_error(&pointer, &policy.label, diagnostics)]);
            }
        }
    }
    Ok(())
}

fn message(failures: &[Failure]) -> String {
    let error_list = failures.iter().take(MAX_REASONS).map(|failure| {
        let Failure { about, expected, got, .. } = failure;
        format!("{about}: expected {expected}, got {got}")
    });
    let mut reasons: Vec<String> = error_list.collect();
    if failures.len() > MAX_REASONS {
        reasons.push(format!("and {} more", failures.len() - MAX_REASONS));
    }
    reasons.join("; ")
}
