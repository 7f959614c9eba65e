//! `tracewarden policy test`.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tracewarden_documents::pluralize;
use tracewarden_policy::suite::{self, Evidence, Test, TestError};

use super::error::{EXIT_FAILED, ErrorReport, Line};
use super::files::{self, sanitize};
use super::report;
use super::suite::Suite;
use crate::command_line::{Format, PolicyTest};

#[derive(Serialize, Default)]
struct Results {
    passed: usize,
    failed: usize,
    files: Vec<FileResult>,
}

#[derive(Serialize)]
struct FileResult {
    file: String,
    tests: Vec<TestResult>,
}

#[derive(Serialize)]
struct TestResult {
    name: String,
    passed: bool,
    failures: Vec<Failure>,
}

/// A result that differs from the expected one.
#[derive(Serialize)]
struct Failure {
    /// The part of the test that failed.
    about: String,
    expected: String,
    got: String,
    /// The parts of the policies that decided, rendered.
    #[serde(skip)]
    evidence: Vec<String>,
}

/// Runs the tests in files. If the tests of one file cannot be run, no tests are run.
pub(super) fn run(options: &PolicyTest, output: &mut String) -> Result<u8, ErrorReport> {
    files::require_single_standard_input(options.files.iter().chain(&options.model))?;
    let given = options.model.as_deref().map(files::model).transpose()?;
    let mut suites = Vec::with_capacity(options.files.len());
    let mut errors = Vec::new();
    for path in &options.files {
        match Suite::read(path, given.as_ref()) {
            Ok(suite) => suites.push(suite),
            Err(report) => errors.extend(report.lines),
        }
    }
    if !errors.is_empty() {
        return Err(errors.into_iter().collect());
    }
    let mut results = Results::default();
    for suite in &suites {
        let tests = suite.tests.tests.iter().map(|test| suite.run(test)).collect::<Result<Vec<_>, _>>()?;
        results.passed += tests.iter().filter(|test| test.passed).count();
        results.failed += tests.iter().filter(|test| !test.passed).count();
        results.files.push(FileResult { file: suite.named.name.clone(), tests });
    }
    match options.format {
        Format::Json => output.push_str(&report::json(&results)),
        Format::Text => show(&results, output),
    }
    Ok(if results.failed > 0 { EXIT_FAILED } else { 0 })
}

impl Suite {
    fn run(&self, test: &Test) -> Result<TestResult, ErrorReport> {
        let failures = self
            .tests
            .run(test, &AtomicBool::new(false))
            .map_err(|test_error| self.error_report(&test_error))?;
        let failures: Vec<Failure> = failures.into_iter().map(|failure| self.failure(failure)).collect();
        Ok(TestResult { name: test.name.clone(), passed: failures.is_empty(), failures })
    }

    fn failure(&self, failure: suite::Failure) -> Failure {
        let suite::Failure { about, expected, got, evidence } = failure;
        Failure {
            about: sanitize(&about),
            expected: expected.to_owned(),
            got: sanitize(&got),
            evidence: evidence.iter().map(|evidence| self.evidence(evidence)).collect(),
        }
    }

    fn evidence(&self, evidence: &Evidence) -> String {
        match evidence {
            Evidence::Note(words) => sanitize(words),
            Evidence::Verdict { policy, span, verdict } => {
                let line = verdict.decided_by.first().map_or(1, |decision| decision.line);
                let position = self.at(policy, line);
                verdict.render(&format!("on span {span}"), &policy.expression, Some(&position))
            }
        }
    }

    fn error_report(&self, TestError { policy, diagnostics }: &TestError) -> ErrorReport {
        let rendered = diagnostics
            .iter()
            .map(|found| found.render(&policy.expression, Some(&self.at(policy, found.line))));
        rendered.map(Line::Rendered).collect()
    }
}

fn show(results: &Results, output: &mut String) {
    for file in &results.files {
        let _ = writeln!(output, "{}", file.file);
        for test in &file.tests {
            let _ =
                writeln!(output, "  {} {}", if test.passed { "ok  " } else { "FAIL" }, sanitize(&test.name));
            for failure in &test.failures {
                let Failure { about, expected, got, evidence } = failure;
                let gap = if output.ends_with("\n\n") { "" } else { "\n" };
                let _ = writeln!(output, "{gap}       {about}: expected {expected}, got {got}\n");
                for part in evidence {
                    for line in part.lines() {
                        let _ = writeln!(output, "         {line}");
                    }
                    output.push('\n');
                }
            }
        }
    }
    let _ =
        writeln!(output, "{} passed, {} failed", pluralize(results.passed as u64, "test"), results.failed);
}
