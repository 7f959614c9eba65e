//! `tracewarden policy test`.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{Outcome, Span, Verdict, explain};

use super::files::{self, plain};
use super::report::{self, counted};
use super::suite::{Policy, Suite, Test};
use super::{FAILED, Line, Trouble};
use crate::command_line::{Format, PolicyTest};

/// Of a trace that is hidden against expectation, so many spans are shown for each policy.
const SHOWN_SPANS: usize = 3;

/// What all files together came to.
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

/// Something that is not as expected.
#[derive(Serialize)]
struct Failure {
    /// What it is about.
    about: String,
    expected: String,
    got: String,
    /// What decided, rendered.
    #[serde(skip)]
    shown: Vec<String>,
}

/// Runs tests.
///
/// # Errors
/// When the tests of a file cannot be run; then none are.
pub(super) fn run(options: &PolicyTest, output: &mut String) -> Result<u8, Trouble> {
    files::one_standard_input(options.files.iter().chain(&options.model))?;
    let given = options.model.as_deref().map(files::model).transpose()?;
    let mut suites = Vec::with_capacity(options.files.len());
    let mut trouble = Vec::new();
    for path in &options.files {
        match Suite::read(path, given.as_ref()) {
            Ok(suite) => suites.push(suite),
            Err(Trouble(lines)) => trouble.extend(lines),
        }
    }
    if !trouble.is_empty() {
        return Err(Trouble(trouble));
    }
    let mut results = Results::default();
    for suite in &suites {
        let tests = suite.tests.iter().map(|test| suite.run(test)).collect::<Result<Vec<_>, _>>()?;
        results.passed += tests.iter().filter(|test| test.passed).count();
        results.failed += tests.iter().filter(|test| !test.passed).count();
        results.files.push(FileResult { file: suite.name.clone(), tests });
    }
    match options.format {
        Format::Json => report::json(&results, output),
        Format::Text => show(&results, output),
    }
    Ok(if results.failed > 0 { FAILED } else { 0 })
}

impl Suite {
    fn run(&self, test: &Test) -> Result<TestResult, Trouble> {
        let mut failures = Vec::new();
        if let Some(visible) = test.visible {
            failures.extend(self.visibility(test, visible)?);
        }
        for (policy, expected) in &test.outcomes {
            let verdicts = verdicts(policy, &self.model, &test.user, &test.spans)?;
            for (index, (verdict, expected)) in verdicts.iter().zip(expected).enumerate() {
                if !expected.is(&verdict.outcome) {
                    failures.push(Failure {
                        about: format!("policy `{}` on span {}", plain(&policy.label), index + 1),
                        expected: expected.as_str().to_owned(),
                        got: verdict.outcome.as_str().to_owned(),
                        shown: vec![shown(policy, index, verdict)],
                    });
                }
            }
        }
        Ok(TestResult { name: test.name.clone(), passed: failures.is_empty(), failures })
    }

    /// The service's rule: a trace is shown, whole, when any of its spans satisfies any policy of the user's roles.
    fn visibility(&self, test: &Test, expected: bool) -> Result<Option<Failure>, Trouble> {
        let word = |visible| if visible { "visible" } else { "hidden" };
        let failure = |got: &str, shown| Failure {
            about: format!("the trace, for `{}`", plain(&test.user.username)),
            expected: word(expected).to_owned(),
            got: got.to_owned(),
            shown,
        };
        let held: Vec<&Policy> =
            self.policies.iter().map(Rc::as_ref).filter(|policy| policy.is_held_by(&test.user)).collect();
        if let Some(policy) = held.iter().find(|policy| policy.checked.predicate(&test.user).is_none()) {
            let label = plain(&policy.label);
            let got = format!("refused: policy `{label}` is too large for this user's roles and attributes");
            return Ok(Some(failure(&got, Vec::new())));
        }
        let mut opened = Vec::new();
        let mut closed = Vec::new();
        if held.is_empty() {
            closed.push(holds_none(&test.user));
        }
        for policy in held {
            let verdicts = verdicts(policy, &self.model, &test.user, &test.spans)?;
            for (index, verdict) in verdicts.iter().enumerate() {
                let shown = shown(policy, index, verdict);
                match verdict.outcome {
                    Outcome::True => opened.push(shown),
                    _ if index < SHOWN_SPANS => closed.push(shown),
                    _ if index == SHOWN_SPANS => {
                        let more = counted(verdicts.len() - SHOWN_SPANS, "more span");
                        closed.push(format!("and {more} for policy `{}`", plain(&policy.label)));
                    }
                    _ => {}
                }
            }
        }
        let visible = !opened.is_empty();
        if visible == expected {
            return Ok(None);
        }
        opened.truncate(SHOWN_SPANS);
        let shown = if visible { opened } else { closed };
        Ok(Some(failure(word(visible), shown)))
    }
}

fn shown(policy: &Policy, span: usize, verdict: &Verdict) -> String {
    let line = verdict.decided_by.first().map_or(1, |decision| decision.line);
    verdict.render(&format!("on span {}", span + 1), &policy.expression, Some(&policy.origin.at(line)))
}

/// Why a user sees no trace at all.
fn holds_none(user: &Caller) -> String {
    let username = plain(&user.username);
    if user.roles.is_empty() {
        return format!("`{username}` has no roles, and so no policy");
    }
    let roles: Vec<String> = user.roles.iter().map(|role| format!("`{}`", plain(role))).collect();
    format!("`{username}` has no policy: there is none in {}", roles.join(", "))
}

fn verdicts(
    policy: &Policy,
    model: &AccessModel,
    user: &Caller,
    spans: &[Span],
) -> Result<Vec<Verdict>, Trouble> {
    explain(&policy.expression, model, user, spans, &AtomicBool::new(false)).map_err(|diagnostics| {
        let rendered = diagnostics
            .iter()
            .map(|found| found.render(&policy.expression, Some(&policy.origin.at(found.line))));
        Trouble(rendered.map(Line::Rendered).collect())
    })
}

fn show(results: &Results, output: &mut String) {
    for file in &results.files {
        let _ = writeln!(output, "{}", file.file);
        for test in &file.tests {
            let _ = writeln!(output, "  {} {}", if test.passed { "ok  " } else { "FAIL" }, plain(&test.name));
            for failure in &test.failures {
                let Failure { about, expected, got, shown } = failure;
                let gap = if output.ends_with("\n\n") { "" } else { "\n" };
                let _ = writeln!(output, "{gap}       {about}: expected {expected}, got {got}\n");
                for part in shown {
                    for line in part.lines() {
                        let _ = writeln!(output, "         {line}");
                    }
                    output.push('\n');
                }
            }
        }
    }
    let _ = writeln!(output, "{} passed, {} failed", counted(results.passed, "test"), results.failed);
}
