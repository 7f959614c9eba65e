//! `cargo xtask test` and `cargo xtask verify`: what must pass before a change is merged. A part that cannot run is a failure and
//! is never skipped.
//!
//! `test` runs each test once, at a size that developers wait for. `verify` runs the tests that need many repetitions, at full
//! size, and the checks that need builds of their own. `.config/nextest.toml` says which test belongs where.

mod changes;
pub mod clickhouse_server;
mod deny;
mod fast;
mod prerequisite;
mod python;
mod python_licences;
mod steps;
mod suite;
pub mod verify;

use std::path::PathBuf;
use std::thread;

use anyhow::{Result, anyhow};

use crate::{browser, programs, tidy, web};
use prerequisite::{
    Chromium, ClickHouseServer, Engine, Nextest, NodePrograms, PostgreSql, Prerequisite, Python,
};
use steps::Steps;
use suite::{Profile, Tests};

/// Environment variables for the tests.
pub type Environment = Vec<(&'static str, String)>;

/// Servers that were started for the tests. They stop when this value is dropped.
pub struct PreparedServices(#[allow(dead_code, reason = "held for its server")] PostgreSql);

/// Provides the prerequisites of the tests and builds the programs that they start, with [`build`] for the default profile.
pub fn prepare(
    environment: &mut Environment,
    build: impl FnOnce() -> Result<()>,
) -> Result<PreparedServices> {
    let steps = Steps::start();
    let (variables, services) = prepare_with(&steps, build)?;
    environment.extend(variables);
    Ok(services)
}

/// Downloads, installs and starts what the tests need while cargo builds. Without them, tests would fail in ways that hide the
/// cause.
fn prepare_with(
    steps: &Steps,
    build: impl FnOnce() -> Result<()>,
) -> Result<(Environment, PreparedServices)> {
    let mut postgresql = PostgreSql::default();
    let mut environment = Environment::new();
    thread::scope(|scope| {
        let installing = scope.spawn(|| {
            let all: [&mut dyn Prerequisite; 6] = [
                &mut Engine,
                &mut Nextest,
                &mut ClickHouseServer,
                &mut postgresql,
                &mut Python,
                &mut Chromium,
            ];
            for one in all {
                steps.run(one.name(), || one.prepare(&mut environment));
            }
        });
        // The service embeds the web application, so that it is built first.
        if steps.run("web build", web::ensure) {
            steps.run("node", || NodePrograms.prepare(&mut Environment::new()));
            steps.run("build", build);
        }
        installing.join().map_err(|_| anyhow!("the preparation of the tests panicked"))
    })?;
    steps.check()?;
    Ok((environment, PreparedServices(postgresql)))
}

/// A part of the tests that can run separately, with arguments for its test runner.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Test what a change touches, without PostgreSQL, Node and a browser.
    Fast,
    /// Test the web application in a real browser, with the service and a local store.
    Browser,
    /// Download the ClickHouse server for tests if necessary, and try it; no tests are run.
    ClickhouseServer,
}

/// Runs everything, or only a part, or only the tests that `filters` select.
pub fn run(part: Option<Part>, filters: &[String]) -> Result<()> {
    match part {
        None if filters.is_empty() => everything(),
        None => selected(filters),
        Some(Part::Fast) => fast::run(filters),
        Some(Part::ClickhouseServer) => ClickHouseServer.prepare(&mut Environment::new()),
        Some(Part::Browser) => {
            web::ensure()?;
            build()?;
            browser::test(&binaries()?, filters, false)
        }
    }
}

fn everything() -> Result<()> {
    let steps = Steps::start();
    steps.run("tidy", tidy::run);
    let (environment, _services) = prepare_with(&steps, suite::build)?;
    steps.run("tests", || Tests { profile: Profile::Test, filters: &[], environment: &environment }.run());
    steps.run("web", suite::web_application);
    steps.run("browser", || browser::test(&binaries()?, &[], false));
    steps.finish("test")
}

/// Runs the tests that the arguments select, of whatever profile.
fn selected(filters: &[String]) -> Result<()> {
    let steps = Steps::start();
    println!("with a filter, only the tests of the crates run: no checks, no tests of the web application");
    let build = || if suite::covers_workspace(filters) { suite::build() } else { build() };
    let (environment, _services) = prepare_with(&steps, build)?;
    steps.run("tests", || Tests { profile: Profile::All, filters, environment: &environment }.run());
    steps.finish("test")
}

/// Builds the programs that tests start.
pub fn build() -> Result<()> {
    programs::build(programs::Profile::Dev, programs::PACKAGES).map(drop)
}

/// Returns the directory of the built programs.
fn binaries() -> Result<PathBuf> {
    programs::directory(programs::Profile::Dev)
}
