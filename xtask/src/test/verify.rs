//! `cargo xtask verify`: what needs many repetitions or builds of its own. CI runs it after `cargo xtask test`.

use anyhow::Result;

use super::steps::Steps;
use super::suite::{self, Profile, Tests};
use super::{binaries, deny, prepare_with};
use crate::{browser, process, workspace};

/// A part that can run separately.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Lint all targets.
    Clippy,
    /// Check licences and sources of dependencies.
    Licences,
    /// Check hostile texts as policies in the release profile.
    Hostile,
    /// Run the tests with generated input at full size, and those that take long.
    Tests,
    /// Test all views in all themes and widths, and measure pages, in a real browser.
    Browser,
}

/// Runs everything, or only a part. `filters` are arguments for the test runner of that part.
pub fn run(part: Option<Part>, filters: &[String]) -> Result<()> {
    let steps = Steps::start();
    let includes = |one| part.is_none_or(|part| part == one);
    if includes(Part::Clippy) {
        steps.run("clippy", clippy);
    }
    if includes(Part::Licences) {
        steps.run("licences", deny::check);
    }
    if includes(Part::Hostile) {
        steps.run("hostile", suite::hostile_text_in_release);
    }
    if includes(Part::Tests) || includes(Part::Browser) {
        let (environment, _services) = prepare_with(&steps, suite::build)?;
        if includes(Part::Tests) {
            steps.run("doc tests", || suite::doc_tests(&environment));
            let tests = Tests { profile: Profile::Verify, filters, environment: &environment };
            steps.run("tests", || tests.run());
        }
        if includes(Part::Browser) {
            steps.run("browser", || browser::test(&binaries()?, filters, true));
        }
    }
    steps.finish("verify")
}

fn clippy() -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    process::run(&mut command)
}
