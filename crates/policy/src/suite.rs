//! Policy tests: which traces users are expected to see, and which outcome policies are expected to have on spans.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use tracewarden_model::{AccessModel, Caller};

use crate::check::CheckedPolicy;
use crate::diagnostics::Diagnostic;
use crate::evaluate::{Span, Verdict, explain};

pub use crate::evaluate::Outcome;

/// Number of spans listed for each policy when a trace is hidden although the test expects it to be visible.
const MAX_LISTED_SPANS: usize = 3;

/// Policies and their tests, under one access model.
#[derive(Debug)]
pub struct Suite {
    /// The access model.
    pub model: AccessModel,
    /// Policies of roles, and policies that belong to no role.
    pub policies: Vec<Rc<SuitePolicy>>,
    /// The tests.
    pub tests: Vec<Test>,
}

/// A policy of a role, or a policy without a role.
#[derive(Debug)]
pub struct SuitePolicy {
    /// The role; `None` if the policy belongs to no role.
    pub role: Option<String>,
    /// The policy's title.
    pub title: String,
    /// Name in tests and reports: `role/title`, or only the title if the policy belongs to no role.
    pub label: String,
    /// JSON Pointer to the policy within its file.
    pub pointer: String,
    /// Text of the policy.
    pub expression: String,
    /// The text, checked under the suite's model.
    pub checked: CheckedPolicy,
}

/// A test.
#[derive(Debug)]
pub struct Test {
    /// Name of the test.
    pub name: String,
    /// The user whose access is tested.
    pub user: Caller,
    /// Spans of the trace. Several tests may share them.
    pub spans: Rc<Vec<Span>>,
    /// Whether the user is expected to see the trace.
    pub visible: Option<bool>,
    /// Policies with their expected outcome on each span.
    pub outcomes: Vec<(Rc<SuitePolicy>, Vec<Outcome>)>,
}

/// A difference between the expected and the actual result.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// Subject of the failure.
    pub about: String,
    /// Expected result.
    pub expected: &'static str,
    /// Actual result.
    pub got: String,
    /// Reasons for the actual result.
    #[serde(skip)]
    pub evidence: Vec<Evidence>,
}

/// A reason for an actual result.
#[derive(Debug)]
pub enum Evidence {
    /// Outcome of a policy on a span.
    Verdict {
        /// The policy.
        policy: Rc<SuitePolicy>,
        /// Number of the span within the test, counted from 1.
        span: usize,
        /// The outcome and its explanation.
        verdict: Verdict,
    },
    /// Plain text.
    Note(String),
}

/// A test that could not be run: it takes too long, or was stopped.
#[derive(Debug)]
pub struct TestError {
    /// The policy that could not be evaluated.
    pub policy: Rc<SuitePolicy>,
    /// Diagnostics of that policy.
    pub diagnostics: Vec<Diagnostic>,
}

impl Suite {
    /// Runs a test and returns its failures; empty if the test passes. Setting `stopped` ends the run soon, with an
    /// error.
    ///
    /// # Errors
    /// [`TestError`], if a policy cannot be evaluated.
    pub fn run(&self, test: &Test, stopped: &AtomicBool) -> Result<Vec<Failure>, TestError> {
        let mut failures = Vec::new();
        if let Some(visible) = test.visible {
            failures.extend(self.visibility(test, visible, stopped)?);
        }
        for (policy, expected) in &test.outcomes {
            let verdicts = self.verdicts(policy, test, stopped)?;
            for (index, (verdict, expected)) in verdicts.into_iter().zip(expected).enumerate() {
                if *expected != verdict.outcome {
                    failures.push(Failure {
                        about: format!("policy `{}` on span {}", policy.label, index + 1),
                        expected: expected.into(),
                        got: <&str>::from(verdict.outcome).to_owned(),
                        evidence: vec![evidence(policy, index, verdict)],
                    });
                }
            }
        }
        Ok(failures)
    }

    /// Applies the service's rule: a user sees a whole trace if any of its spans satisfies any policy of the user's
    /// roles.
    fn visibility(
        &self,
        test: &Test,
        expected: bool,
        stopped: &AtomicBool,
    ) -> Result<Option<Failure>, TestError> {
        let word = |visible| if visible { "visible" } else { "hidden" };
        let failure = |got: String, evidence| Failure {
            about: format!("the trace, for `{}`", test.user.username),
            expected: word(expected),
            got,
            evidence,
        };
        let is_held = |role: &String| test.user.roles.contains(role);
        let applicable: Vec<&Rc<SuitePolicy>> =
            self.policies.iter().filter(|policy| policy.role.as_ref().is_some_and(is_held)).collect();
        if let Some(policy) = applicable.iter().find(|policy| policy.checked.predicate(&test.user).is_none())
        {
            let label = &policy.label;
            let got = format!("refused: policy `{label}` is too large for this user's roles and attributes");
            return Ok(Some(failure(got, Vec::new())));
        }
        let mut granting = Vec::new();
        let mut denying = Vec::new();
        if applicable.is_empty() {
            denying.push(Evidence::Note(explain_no_policy(&test.user)));
        }
        for policy in applicable {
            let verdicts = self.verdicts(policy, test, stopped)?;
            let spans = verdicts.len();
            for (index, verdict) in verdicts.into_iter().enumerate() {
                match verdict.outcome {
                    Outcome::True => granting.push(evidence(policy, index, verdict)),
                    _ if index < MAX_LISTED_SPANS => denying.push(evidence(policy, index, verdict)),
                    _ if index == MAX_LISTED_SPANS => {
                        let more = spans - MAX_LISTED_SPANS;
                        let spans = if more == 1 { "span" } else { "spans" };
                        let words = format!("and {more} more {spans} for policy `{}`", policy.label);
                        denying.push(Evidence::Note(words));
                    }
                    _ => {}
                }
            }
        }
        let visible = !granting.is_empty();
        if visible == expected {
            return Ok(None);
        }
        granting.truncate(MAX_LISTED_SPANS);
        Ok(Some(failure(word(visible).to_owned(), if visible { granting } else { denying })))
    }

    fn verdicts(
        &self,
        policy: &Rc<SuitePolicy>,
        test: &Test,
        stopped: &AtomicBool,
    ) -> Result<Vec<Verdict>, TestError> {
        explain(&policy.expression, &self.model, &test.user, &test.spans, stopped)
            .map_err(|diagnostics| TestError { policy: Rc::clone(policy), diagnostics })
    }
}

fn evidence(policy: &Rc<SuitePolicy>, index: usize, verdict: Verdict) -> Evidence {
    Evidence::Verdict { policy: Rc::clone(policy), span: index + 1, verdict }
}

/// Explains why a user without policies sees no traces.
fn explain_no_policy(user: &Caller) -> String {
    let username = &user.username;
    if user.roles.is_empty() {
        return format!("`{username}` has no roles, and so no policy");
    }
    let roles: Vec<String> = user.roles.iter().map(|role| format!("`{role}`")).collect();
    format!("`{username}` has no policy: there is none in {}", roles.join(", "))
}
