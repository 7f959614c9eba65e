//! Tests of policies: what users are expected to see of traces, and what policies are expected to be on spans.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use tracewarden_model::{AccessModel, Caller};

use crate::check::Checked;
use crate::diagnostics::Diagnostic;
use crate::evaluate::{Outcome, Span, Verdict, explain};

/// Of a trace that is hidden against expectation, so many spans are shown for each policy.
const SHOWN_SPANS: usize = 3;

/// Policies and tests of them, under one access model.
#[derive(Debug)]
pub struct Suite {
    /// The access model.
    pub model: AccessModel,
    /// Policies of roles, and such that no role holds.
    pub policies: Vec<Rc<SuitePolicy>>,
    /// The tests.
    pub tests: Vec<Test>,
}

/// A policy of a role, or of none.
#[derive(Debug)]
pub struct SuitePolicy {
    /// The role.
    pub role: Option<String>,
    /// What it is for.
    pub title: String,
    /// How tests and reports call it: `role/title`, or the title of one that no role holds.
    pub label: String,
    /// JSON Pointer to it within the file that it comes from.
    pub pointer: String,
    /// Its text.
    pub expression: String,
    /// The text, checked under the suite's model.
    pub checked: Checked,
}

impl SuitePolicy {
    fn is_held_by(&self, user: &Caller) -> bool {
        self.role.as_ref().is_some_and(|role| user.roles.contains(role))
    }
}

/// What is expected of a policy on a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The span satisfies it.
    True,
    /// The span does not.
    False,
    /// It cannot be told.
    Error,
}

impl Expected {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::True, Self::False, Self::Error];

    /// As files spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Error => "error",
        }
    }

    fn is(self, outcome: &Outcome) -> bool {
        self == match outcome {
            Outcome::True => Self::True,
            Outcome::False => Self::False,
            Outcome::Error(_) => Self::Error,
        }
    }
}

/// A test.
#[derive(Debug)]
pub struct Test {
    /// What it shows.
    pub name: String,
    /// Who looks.
    pub user: Caller,
    /// The trace; many tests may be about one.
    pub spans: Rc<Vec<Span>>,
    /// Whether the user is to see it.
    pub visible: Option<bool>,
    /// Policies, each with what it is to be on each span.
    pub outcomes: Vec<(Rc<SuitePolicy>, Vec<Expected>)>,
}

/// Something that is not as expected.
#[derive(Debug)]
pub struct Failure {
    /// What it is about.
    pub about: String,
    /// What was expected.
    pub expected: &'static str,
    /// What it is.
    pub got: String,
    /// Why.
    pub shown: Vec<Shown>,
}

/// A reason for what was found.
#[derive(Debug)]
pub enum Shown {
    /// What a policy is on a span, counted from 1.
    Verdict {
        /// The policy.
        policy: Rc<SuitePolicy>,
        /// Which span of the test.
        span: usize,
        /// What decided.
        verdict: Verdict,
    },
    /// In words.
    Words(String),
}

/// A test that could not be run: it takes too long, or was stopped.
#[derive(Debug)]
pub struct Stuck {
    /// The policy.
    pub policy: Rc<SuitePolicy>,
    /// Why.
    pub diagnostics: Vec<Diagnostic>,
}

impl Suite {
    /// What is not as a test expects; empty when it passes. Ends soon, with an error, after `stopped` is set.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn run(&self, test: &Test, stopped: &AtomicBool) -> Result<Vec<Failure>, Stuck> {
        let mut failures = Vec::new();
        if let Some(visible) = test.visible {
            failures.extend(self.visibility(test, visible, stopped)?);
        }
        for (policy, expected) in &test.outcomes {
            let verdicts = self.verdicts(policy, test, stopped)?;
            for (index, (verdict, expected)) in verdicts.into_iter().zip(expected).enumerate() {
                if !expected.is(&verdict.outcome) {
                    failures.push(Failure {
                        about: format!("policy `{}` on span {}", policy.label, index + 1),
                        expected: expected.as_str(),
                        got: verdict.outcome.as_str().to_owned(),
                        shown: vec![shown(policy, index, verdict)],
                    });
                }
            }
        }
        Ok(failures)
    }

    /// The service's rule: a trace is shown, whole, when any of its spans satisfies any policy of the user's roles.
    fn visibility(
        &self,
        test: &Test,
        expected: bool,
        stopped: &AtomicBool,
    ) -> Result<Option<Failure>, Stuck> {
        let word = |visible| if visible { "visible" } else { "hidden" };
        let failure = |got: String, shown| Failure {
            about: format!("the trace, for `{}`", test.user.username),
            expected: word(expected),
            got,
            shown,
        };
        let held: Vec<&Rc<SuitePolicy>> =
            self.policies.iter().filter(|policy| policy.is_held_by(&test.user)).collect();
        if let Some(policy) = held.iter().find(|policy| policy.checked.predicate(&test.user).is_none()) {
            let label = &policy.label;
            let got = format!("refused: policy `{label}` is too large for this user's roles and attributes");
            return Ok(Some(failure(got, Vec::new())));
        }
        let mut opened = Vec::new();
        let mut closed = Vec::new();
        if held.is_empty() {
            closed.push(Shown::Words(holds_none(&test.user)));
        }
        for policy in held {
            let verdicts = self.verdicts(policy, test, stopped)?;
            let spans = verdicts.len();
            for (index, verdict) in verdicts.into_iter().enumerate() {
                match verdict.outcome {
                    Outcome::True => opened.push(shown(policy, index, verdict)),
                    _ if index < SHOWN_SPANS => closed.push(shown(policy, index, verdict)),
                    _ if index == SHOWN_SPANS => {
                        let more = spans - SHOWN_SPANS;
                        let spans = if more == 1 { "span" } else { "spans" };
                        let words = format!("and {more} more {spans} for policy `{}`", policy.label);
                        closed.push(Shown::Words(words));
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
        Ok(Some(failure(word(visible).to_owned(), if visible { opened } else { closed })))
    }

    fn verdicts(
        &self,
        policy: &Rc<SuitePolicy>,
        test: &Test,
        stopped: &AtomicBool,
    ) -> Result<Vec<Verdict>, Stuck> {
        explain(&policy.expression, &self.model, &test.user, &test.spans, stopped)
            .map_err(|diagnostics| Stuck { policy: Rc::clone(policy), diagnostics })
    }
}

fn shown(policy: &Rc<SuitePolicy>, index: usize, verdict: Verdict) -> Shown {
    Shown::Verdict { policy: Rc::clone(policy), span: index + 1, verdict }
}

/// Why a user sees no trace at all.
fn holds_none(user: &Caller) -> String {
    let username = &user.username;
    if user.roles.is_empty() {
        return format!("`{username}` has no roles, and so no policy");
    }
    let roles: Vec<String> = user.roles.iter().map(|role| format!("`{role}`")).collect();
    format!("`{username}` has no policy: there is none in {}", roles.join(", "))
}
