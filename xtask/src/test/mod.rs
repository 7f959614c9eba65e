//! `cargo xtask test`: all checks that must pass before a change is merged. A part that cannot run is a failure and is never
//! skipped.

pub mod clickhouse_server;
mod deny;
mod prerequisite;
mod python;
mod python_licences;
mod suite;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{browser, process, tidy, web, workspace};
use prerequisite::{ClickHouseServer, Engine, NodeClient, PostgreSql, Prerequisite, Python, WebApplication};

/// Environment variables for the tests.
pub type Environment = Vec<(&'static str, String)>;

const BINARIES: &[&str] = &["tracewarden", "tracewarden-localstore"];

/// Servers that were started for the tests. They stop when this value is dropped.
pub struct PreparedServices(#[allow(dead_code, reason = "held for its server")] PostgreSql);

/// Provides the prerequisites of the tests and builds the programs that they start, with [`build`] for the default profile.
pub fn prepare(
    environment: &mut Environment,
    build: impl FnOnce() -> Result<()>,
) -> Result<PreparedServices> {
    let mut steps = Steps::default();
    let prepared = prerequisites(&mut steps, environment)?;
    steps.run("build", build);
    steps.finish()?;
    Ok(prepared)
}

/// Provides the prerequisites first: without them, tests would fail in ways that hide the cause.
fn prerequisites(steps: &mut Steps, environment: &mut Environment) -> Result<PreparedServices> {
    let mut postgresql = PostgreSql::default();
    let prerequisites: [&mut dyn Prerequisite; 6] = [
        &mut Engine,
        &mut Python,
        &mut ClickHouseServer,
        &mut postgresql,
        &mut WebApplication,
        &mut NodeClient,
    ];
    for prerequisite in prerequisites {
        steps.run(prerequisite.name(), || prerequisite.prepare(environment));
    }
    steps.finish()?;
    Ok(PreparedServices(postgresql))
}

/// A part of the tests that can run separately, with arguments for its test runner.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Test the web application in a real browser, with the service and a local store.
    Browser,
    /// Download the ClickHouse server for tests if necessary, and try it; no tests are run.
    ClickhouseServer,
    /// Check licences and sources of dependencies.
    Licences,
}

/// Runs everything, or only a part, or only the tests that `filters` select.
pub fn run(part: Option<Part>, filters: &[String]) -> Result<()> {
    match part {
        None => {}
        Some(Part::ClickhouseServer) => return ClickHouseServer.prepare(&mut Environment::new()),
        Some(Part::Licences) => return deny::check(),
        Some(Part::Browser) => {
            web::ensure()?;
            build()?;
            return browser::test(&binaries()?, filters);
        }
    }
    let mut environment = Environment::new();
    let mut steps = Steps::default();
    let _prepared = prerequisites(&mut steps, &mut environment)?;

    if filters.is_empty() {
        steps.run("tidy", tidy::run);
        steps.run("licences", deny::check);
        steps.run("clippy", clippy);
    } else {
        println!(
            "a filter was given: tidy, licences, clippy, doc tests and the web application's tests are \
             skipped"
        );
    }
    steps.run("build", || if suite::covers_workspace(filters) { suite::build() } else { build() });
    if steps.failed.iter().any(|step| step == "build") {
        return steps.finish();
    }
    if filters.is_empty() {
        steps.run("hostile text", suite::hostile_text_in_release);
    }
    if process::is_installed("cargo-nextest") {
        if filters.is_empty() {
            steps.run("doc tests", || suite::doc_tests(&environment));
        }
        steps.run("tests", || suite::nextest(filters, &environment));
    } else {
        println!("cargo-nextest is not installed: using `cargo test`, which runs the same tests more slowly");
        steps.run("tests", || suite::cargo_test(filters, &environment));
    }
    if filters.is_empty() {
        steps.run("web", suite::web_application);
        steps.run("browser", || browser::test(&binaries()?, &[]));
    }
    steps.finish()
}

fn clippy() -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    process::run(&mut command)
}

/// Builds the programs that tests start.
pub fn build() -> Result<()> {
    let mut command = workspace::cargo();
    command.arg("build");
    for binary in BINARIES {
        command.args(["--package", binary]);
    }
    process::run(&mut command)
}

/// Returns the directory of the built programs.
fn binaries() -> Result<PathBuf> {
    Ok(workspace::target_directory()?.join("debug"))
}

/// Runs steps and continues after a failure, so that one run reports all failures.
#[derive(Default)]
struct Steps {
    failed: Vec<String>,
}

impl Steps {
    fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        let begun = Instant::now();
        let outcome = step();
        println!("{}", line(name, outcome.as_ref().err().map(|error| format!("{error:#}")), begun.elapsed()));
        if outcome.is_err() {
            self.failed.push(name.to_owned());
        }
    }

    fn finish(&self) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        Ok(())
    }
}

fn line(name: &str, error: Option<impl Display>, duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match error {
        None => format!("ok      {name:<12} {seconds:>7.1} s"),
        Some(error) => format!("FAILED  {name:<12} {seconds:>7.1} s  {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_run_and_the_others_still_run() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.run("first", || bail!("broken"));
        steps.run("second", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: first");
    }

    #[test]
    fn lines_name_step_duration_and_error() {
        let second = Duration::from_secs(1);
        assert_eq!(line("tidy", None::<&str>, second), "ok      tidy             1.0 s");
        assert_eq!(line("tidy", Some("why"), second), "FAILED  tidy             1.0 s  why");
    }
}
