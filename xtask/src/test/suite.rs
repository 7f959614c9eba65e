//! Runs the tests.

use std::process::Command;
use std::thread;

use anyhow::Result;
use tracewarden_testkit::repetitions;

use super::Environment;
use crate::cargo_tool::NEXTEST;
use crate::process::run;
use crate::tidy::{self, Source};
use crate::{web, workspace};

/// Returns cargo without `UPDATE_DOCS`, with which tests would rewrite the generated files instead of checking them.
fn cargo_without_updates() -> Command {
    let mut command = workspace::cargo();
    command.env_remove("UPDATE_DOCS");
    command
}

/// A profile of `.config/nextest.toml`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Fast,
    Test,
    Verify,
    /// Tests of every profile: for tests that are named by arguments.
    All,
}

/// Tests to run with nextest.
pub struct Tests<'a> {
    pub profile: Profile,
    /// Arguments for nextest.
    pub filters: &'a [String],
    pub environment: &'a Environment,
}

impl Tests<'_> {
    /// Runs the tests. The last line of the output is the count of passed and failed tests.
    ///
    /// # Errors
    /// When a test fails, or when no test is selected.
    pub fn run(&self) -> Result<()> {
        let mut command = Command::new(NEXTEST.installed_or_ensure()?);
        command.current_dir(workspace::root()).env_remove("UPDATE_DOCS");
        command.args(["nextest", "run", "--no-fail-fast", "--status-level", "slow"]);
        command.args(["--final-status-level", "slow", "--cargo-quiet"]);
        command.args(match self.profile {
            Profile::Fast => ["--profile", "fast"].as_slice(),
            Profile::Test => &["--profile", "default"],
            Profile::Verify => &["--profile", "verify"],
            Profile::All => &["--profile", "default", "--ignore-default-filter"],
        });
        command.args(scope(self.filters)).args(self.filters);
        // One thread more than processors, because many tests wait for a disk, a time-out, or a starting process.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        command.env("NEXTEST_TEST_THREADS", (processors + 1).to_string());
        if self.profile == Profile::Verify {
            command.env(repetitions::VERIFY, "1");
        }
        run(command.envs(self.environment.iter().map(|(name, value)| (name, value))))
    }
}

/// Builds all tests together with the programs that they start. Built separately, those programs would have other features of
/// their dependencies, and everything would be compiled twice.
pub fn build() -> Result<()> {
    let mut command = cargo_without_updates();
    run(command.args(["test", "--no-run", "--quiet", "--workspace"]))
}

/// Runs doc tests, which nextest does not run. They require another compilation of every crate, so that they run only if there is
/// one.
pub fn doc_tests(environment: &Environment) -> Result<()> {
    if !tidy::sources()?.iter().any(has_doc_test) {
        println!("no documentation of the crates has code to run");
        return Ok(());
    }
    let mut command = cargo_without_updates();
    command.args(["test", "--quiet", "--workspace", "--doc"]);
    run(command.envs(environment.iter().map(|(name, value)| (name, value))))
}

/// Runs the tests with hostile text in the release profile as well: stack overflows and run times differ between the profiles,
/// and users run this one.
pub fn hostile_text_in_release() -> Result<()> {
    let mut command = cargo_without_updates();
    command.args(["test", "--quiet", "--release", "--package", "tracewarden-policy", "--test", "suite"]);
    command.arg("hostile::");
    run(command.env(repetitions::VERIFY, "1"))
}

/// Whether a source has a doc test in a fenced block. rustdoc also runs indented code, but the sources contain none.
fn has_doc_test(source: &Source) -> bool {
    let fence = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("///") || line.starts_with("//!")) && line.contains("```")
    };
    source.path.ends_with(".rs") && source.text.lines().any(fence)
}

/// Runs type checks, lints, format checks and unit tests of the web application.
pub fn web_application() -> Result<()> {
    web::script("check", &[], &[]).and(web::script("test", &[], &[]))
}

/// Selects the whole workspace unless a package is selected by name, because `--workspace` overrides such a selection.
fn scope(filters: &[String]) -> Option<&'static str> {
    covers_workspace(filters).then_some("--workspace")
}

/// Whether no package is selected by name.
pub fn covers_workspace(filters: &[String]) -> bool {
    !filters.iter().any(|filter| filter.starts_with("-p") || filter.starts_with("--package"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_filter_omits_the_workspace_flag() {
        assert_eq!(scope(&[]), Some("--workspace"));
        assert_eq!(scope(&["some_test".to_owned()]), Some("--workspace"));
        assert_eq!(scope(&["-p".to_owned(), "xtask".to_owned()]), None);
        assert_eq!(scope(&["--package=xtask".to_owned()]), None);
    }

    #[test]
    fn code_in_documentation_is_found() {
        let has = |path, text| has_doc_test(&tidy::source(path, text));
        let fence = concat!("//", "/ ```\n//", "/ assert!(true);\n//", "/ ```\nfn f() {}\n");
        assert!(has("crates/model/src/lib.rs", fence));
        assert!(has("crates/model/src/lib.rs", concat!("mod m {\n    //", "! ```no_run\n}\n")));
        assert!(!has("crates/model/src/lib.rs", "/// Says `nothing`.\nfn f() {}\n"));
        assert!(!has("docs/api.md", fence));
    }
}
