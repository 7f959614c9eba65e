//! Runs the tests.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

use super::Environment;
use crate::process::{run, status_text};
use crate::tidy::{self, Source};
use crate::{web, workspace};

/// Returns cargo without `UPDATE_DOCS`, with which tests would rewrite the generated files instead of checking them.
fn cargo_without_updates() -> Command {
    let mut command = workspace::cargo();
    command.env_remove("UPDATE_DOCS");
    command
}

/// Runs the tests with nextest. The last line of its output is the count of passed and failed tests.
pub fn nextest(filters: &[String], environment: &Environment) -> Result<()> {
    let mut command = cargo_without_updates();
    command.args(["nextest", "run", "--no-fail-fast"]).args(scope(filters)).args(filters);
    // One thread more than processors, because many tests wait for a disk, a time-out, or a starting process.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    command.env("NEXTEST_TEST_THREADS", (processors + 1).to_string());
    run(command.envs(environment.iter().map(|(name, value)| (name, value))))
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
    command.args(["test", "--quiet", "--release", "--package", "tracewarden-policy", "--test", "hostile"]);
    run(&mut command)
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

/// Runs the tests, including doc tests, with `cargo test`. cargo counts per binary; this function adds the counts.
pub fn cargo_test(filters: &[String], environment: &Environment) -> Result<()> {
    let mut command = cargo_without_updates();
    command.args(["test", "--no-fail-fast"]).args(scope(filters)).args(filters).stdout(Stdio::piped());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().context("cannot run `cargo test`")?;
    let stdout = child.stdout.take().context("`cargo test` has no standard output")?;
    let mut total = Count::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read the output of `cargo test`")?;
        println!("{line}");
        total.add(&line);
    }
    let status = child.wait().context("cannot wait for `cargo test`")?;
    println!("{} passed, {} failed", total.passed, total.failed);
    if !status.success() {
        bail!("`cargo test` failed ({})", status_text(status));
    }
    Ok(())
}

/// Selects the whole workspace unless a package is selected by name, because `--workspace` overrides such a selection.
fn scope(filters: &[String]) -> Option<&'static str> {
    covers_workspace(filters).then_some("--workspace")
}

/// Whether no package is selected by name.
pub fn covers_workspace(filters: &[String]) -> bool {
    !filters.iter().any(|filter| filter.starts_with("-p") || filter.starts_with("--package"))
}

#[derive(Default, PartialEq, Debug)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |what: &str| {
            let part = result.split([';', '.']).find_map(|part| part.trim().strip_suffix(what));
            part.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        self.passed += number("passed");
        self.failed += number("failed");
    }
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

    #[test]
    fn results_of_all_binaries_are_added() {
        let mut count = Count::default();
        count.add(
            "test result: ok. 16 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.62s",
        );
        count.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.62s");
        count.add("running 5 tests");
        assert_eq!(count, Count { passed: 18, failed: 3 });
    }
}
