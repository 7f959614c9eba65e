//! `cargo xtask demo --check`: compares every response with the generated spans.

mod agent;
mod audit;
mod changes;
mod explanations;
mod model_file;
mod person;
mod traces;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tracewarden_sample_data::TraceId;

use super::company::Company;
use super::demo_users::DEMO_USERS;
use super::expectations::Expectations;
use super::report::table;
use super::seed::Accounts;
use crate::stack::api::Client;
use crate::stack::interrupt::{self, Interrupted};

/// Results so far.
#[derive(Default)]
pub struct Findings {
    passed: usize,
    failures: Vec<String>,
    /// Requested pages, with the duration of each.
    pages: Vec<(Duration, String)>,
}

impl Findings {
    /// Records an assertion. `explain` is called only if it fails.
    pub fn assert(&mut self, holds: bool, explain: impl FnOnce() -> String) {
        if holds {
            self.passed += 1;
        } else {
            self.failures.push(explain());
        }
    }

    /// Records a failed request as a failed assertion. Only an interruption is returned; it ends the check.
    pub fn take<T>(&mut self, outcome: Result<T>, what: impl FnOnce() -> String) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(error) => {
                self.failures.push(format!("{}: {error:#}", what()));
                Ok(None)
            }
        }
    }
}

/// Input of the parts of the check.
pub struct DemoUnderTest<'a> {
    pub expectations: &'a Expectations,
    pub accounts: &'a Accounts,
    pub anonymous: &'a Client,
    pub absent: TraceId,
    /// Time range of all spans of the sample, in nanoseconds since 1970.
    pub window: (u64, u64),
    /// URL of the service.
    pub base: &'a str,
    /// Path of the service's program.
    pub program: &'a Path,
    /// The identity provider, if there is one.
    pub company: Option<&'a Company>,
}

type Part = fn(&DemoUnderTest<'_>, &mut Findings) -> Result<()>;

const PARTS: [(&str, Part); 11] = [
    ("single traces by id, allowed and not", traces::traces_by_id),
    ("queries, page by page, in order", traces::traces_by_query),
    ("whole traces, counts and summaries", traces::complete_traces),
    ("requests without credentials, and with an API key", changes::credentials),
    ("the same traces for an agent, over MCP", agent::traces_by_tool),
    ("changes apply at the next request", changes::changes_take_effect),
    ("why each user sees each trace, and who sees it", explanations::explain_landmarks),
    ("what a changed role would grant and revoke", explanations::preview_proposal),
    ("collateral access of a role", explanations::report_collateral_access),
    ("the access model as a file", model_file::export_and_import),
    ("the audit log has all of these requests", audit::audit_log_is_complete),
];

/// The part of a demo with an identity provider.
const PERSON: (&str, Part) =
    ("the same traces for a person whose group is mapped to a role", person::traces_of_a_mapped_role);

/// Runs all parts. Returns an error if an assertion failed.
pub fn run(subject: &DemoUnderTest<'_>, first_answer: Duration) -> Result<()> {
    let mut findings = Findings::default();
    println!("\nchecked:");
    for (name, part) in PARTS.into_iter().chain(subject.company.map(|_| PERSON)) {
        let begun = Instant::now();
        let outcome = part(subject, &mut findings);
        findings.take(outcome, || name.to_owned())?;
        // Print each result immediately, because the check takes minutes in total.
        println!("{:>8.1} s  {name}", begun.elapsed().as_secs_f64());
        interrupt::check()?;
    }
    let landmarks = &subject.expectations.landmarks;
    println!("\nVisible traces, computed from the generated spans and confirmed by the service:\n");
    print!("{}", table(landmarks));
    println!("\n{:>8} traces in all; visible:", subject.expectations.traces);
    for (demo_user, visible) in DEMO_USERS.iter().zip(&subject.expectations.visible) {
        println!("{visible:>8} to {} ({})", demo_user.username, demo_user.title);
    }
    println!("\n{:>8.1} s  from the start to the first answered query", first_answer.as_secs_f64());
    print!("{}", slowest(&mut findings.pages));
    for failure in &findings.failures {
        println!("\nFAILED  {failure}");
    }
    println!("\n{} assertions passed, {} failed", findings.passed, findings.failures.len());
    if !findings.failures.is_empty() {
        bail!("the service's answers contradict the sample traces and the policies");
    }
    Ok(())
}

/// Formats the distribution of the page durations, and the slowest pages.
fn slowest(pages: &mut [(Duration, String)]) -> String {
    pages.sort_by_key(|page| std::cmp::Reverse(page.0));
    let milliseconds = |index: usize| pages.get(index).map(|page| page.0.as_millis()).unwrap_or_default();
    let mut text = format!(
        "\n{:>8} pages of queries: half took less than {} ms, one in twenty more than {} ms; the slowest:\n",
        pages.len(),
        milliseconds(pages.len() / 2),
        milliseconds(pages.len() / 20)
    );
    for (duration, name) in pages.iter().take(3) {
        text.push_str(&format!("{:>8} ms  {name}\n", duration.as_millis()));
    }
    text
}
