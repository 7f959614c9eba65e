//! `tracewarden policy test`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tracewarden_documents::{PolicyFile, SuiteFault, pluralize, resolve};
use tracewarden_model::AccessModel;
use tracewarden_policy::suite::{self, Evidence, Failure, SuitePolicy, Test, TestError};

use super::columns::print_misspelt_columns;
use super::error::{EXIT_FAILED, ErrorReport, Line};
use super::files::{self, NamedDocument, sanitize};
use super::report;
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

/// A test file with all its names resolved.
struct Suite {
    named: NamedDocument,
    tests: suite::Suite,
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
        Format::Text => show(&suites, &results, output),
    }
    Ok(if results.failed > 0 { EXIT_FAILED } else { 0 })
}

impl Suite {
    /// Reads a file. The report has every reason why its tests cannot be run.
    fn read(path: &Path, given: Option<&AccessModel>) -> Result<Self, ErrorReport> {
        let (named, file, model) = files::roles(path, given)?;
        print_column_notes(&named, &file, &model);
        let tests = resolve(&file, &model).map_err(|faults| {
            faults.iter().flat_map(|fault| lines(&named, fault)).collect::<ErrorReport>()
        })?;
        Ok(Self { named, tests })
    }

    /// Position of a line of the policy's text: "roles.yaml:12, policy `dev/One`".
    fn at(&self, policy: &SuitePolicy, line: u32) -> String {
        self.named.origin(&policy.pointer, &policy_name(&policy.label)).at(line)
    }

    fn run(&self, test: &Test) -> Result<TestResult, ErrorReport> {
        let failures = self.tests.run(test, &AtomicBool::new(false));
        let mut failures = failures.map_err(|test_error| self.error_report(&test_error))?;
        for Failure { about, got, .. } in &mut failures {
            (*about, *got) = (sanitize(about), sanitize(got));
        }
        Ok(TestResult { name: test.name.clone(), passed: failures.is_empty(), failures })
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

fn policy_name(label: &str) -> String {
    format!("policy `{}`", sanitize(label))
}

/// Prints notes on misspelt columns in all spans of the file.
fn print_column_notes(named: &NamedDocument, file: &PolicyFile, model: &AccessModel) {
    for (at, trace) in file.traces.iter().enumerate() {
        print_misspelt_columns(named, &trace.spans, model, &format!("/traces/{at}/spans"));
    }
    for (at, test) in file.tests.iter().enumerate() {
        if let Some(spans) = &test.spans {
            print_misspelt_columns(named, spans, model, &format!("/tests/{at}/spans"));
        }
    }
}

fn lines(named: &NamedDocument, fault: &SuiteFault) -> Vec<Line> {
    match fault {
        SuiteFault::Member(fault) => vec![Line::Message(named.at(&fault.pointer, &fault.message))],
        SuiteFault::Policy { pointer, label, expression, diagnostics } => {
            let origin = named.origin(pointer, &policy_name(label));
            let rendered =
                diagnostics.iter().map(|found| found.render(expression, Some(&origin.at(found.line))));
            rendered.map(Line::Rendered).collect()
        }
    }
}

fn show(suites: &[Suite], results: &Results, output: &mut String) {
    for (suite, file) in suites.iter().zip(&results.files) {
        let _ = writeln!(output, "{}", file.file);
        for test in &file.tests {
            let _ =
                writeln!(output, "  {} {}", if test.passed { "ok  " } else { "FAIL" }, sanitize(&test.name));
            for Failure { about, expected, got, evidence } in &test.failures {
                let gap = if output.ends_with("\n\n") { "" } else { "\n" };
                let _ = writeln!(output, "{gap}       {about}: expected {expected}, got {got}\n");
                for part in evidence {
                    for line in suite.evidence(part).lines() {
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
