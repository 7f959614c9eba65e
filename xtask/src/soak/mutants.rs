//! `cargo xtask soak mutants`: cargo-mutants mutates the code that authorises access or writes audit records, one place at a
//! time, and the crates' tests must detect each mutation. Surviving mutants are explained in `data/mutants/`; any other survivor
//! is a defect.

mod areas;
mod explanations;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::test::{self, Environment};
use crate::{process, workspace};
use areas::{Area, Part};
use explanations::{Explanations, Outcomes};

/// Mutants to test.
#[derive(Args)]
pub struct Options {
    /// Area of the code. Default: all.
    #[arg(long)]
    area: Option<Area>,
    /// Test every n-th mutant of each area, starting at number k, which begins at 0.
    #[arg(long, value_name = "K/N", default_value = "0/1")]
    shard: Shard,
    /// Ignore the results of earlier runs. By default, mutants that were detected earlier and are still at the same place are
    /// skipped.
    #[arg(long)]
    afresh: bool,
}

/// One of several equal parts of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shard {
    at: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (at, of) = text.split_once('/').context("a shard is `K/N`, such as `0/4`")?;
        let shard = Self { at: at.parse()?, of: of.parse()? };
        ensure!(shard.at < shard.of, "`{text}`: the shards of {} have the numbers from 0 on", shard.of);
        Ok(shard)
    }
}

/// Version of cargo-mutants whose output files are read here.
const VERSION: &str = "27.1.0";
/// Outcomes of mutants that are not tested again, as cargo-mutants names its files. A time-out counts as detected, because it is
/// visible in any test run; unviable mutants do not compile.
const FINAL_OUTCOMES: [&str; 3] = ["caught", "timeout", "unviable"];

/// Tests the mutants.
///
/// # Errors
/// A mutant survives without an explanation, or an explained mutant does not survive. All areas are tested first.
pub fn run(options: &Options) -> Result<()> {
    if !process::is_installed("cargo-mutants") || !process::is_installed("cargo-nextest") {
        bail!("install the required tools: `cargo install --locked cargo-mutants@{VERSION} cargo-nextest`");
    }
    let mut environment = Environment::new();
    let _prepared = test::prepare(&mut environment, test::build)?;
    let directory = workspace::target_directory()?.join("mutants");
    let areas = options.area.map_or(Area::ALL.to_vec(), |area| vec![area]);
    let mut faults = Vec::new();
    for area in areas {
        let (begun, mut outcomes) = (Instant::now(), Outcomes::default());
        for part in area.parts() {
            let output = directory.join(part.name);
            if options.afresh && output.exists() {
                fs::remove_dir_all(&output)?;
            }
            let run = Run { part, build: directory.join("build"), output, environment: &environment };
            run.mutants(options.shard, &mut outcomes)?;
        }
        println!("{}: {outcomes}, in {} min", area.name(), begun.elapsed().as_secs() / 60);
        faults.extend(outcomes.compared(&Explanations::of(area)?));
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
}

/// Test run for the mutants of one part.
struct Run<'a> {
    part: &'a Part,
    /// Build directory, which is kept from run to run for incremental compilation.
    build: PathBuf,
    output: PathBuf,
    environment: &'a Environment,
}

impl Run<'_> {
    /// Tests the unsettled mutants of the shard, and adds the outcomes of all mutants that were ever tested.
    fn mutants(&self, shard: Shard, outcomes: &mut Outcomes) -> Result<()> {
        fs::create_dir_all(&self.output)?;
        self.collect_outcomes()?;
        let listed = process::capture_output(self.cargo_mutants().arg("--list"))?;
        let listed: Vec<String> = listed.lines().map(str::to_owned).collect();
        ensure!(!listed.is_empty(), "cargo-mutants finds nothing to change in {:?}", self.part.files);
        let finished: BTreeSet<String> = FINAL_OUTCOMES.iter().flat_map(|kind| self.read(kind)).collect();
        let mut open: Vec<String> = listed.iter().skip(shard.at).step_by(shard.of).cloned().collect();
        open.retain(|mutant| !finished.contains(mutant));
        println!("{}: {} of {} mutants will be tried", self.part.name, open.len(), listed.len());
        // Run the cheapest tests first; the others run only for the mutants that survive them.
        for tests in self.part.tests {
            if open.is_empty() {
                break;
            }
            self.test_mutants(&listed, &open, tests)?;
            open = read(&self.now("missed"));
            self.collect_outcomes()?;
        }
        outcomes.survived.extend(open);
        for kind in FINAL_OUTCOMES {
            outcomes.finished.extend(
                self.read(kind).into_iter().filter(|mutant| listed.contains(mutant)).map(|m| (m, kind)),
            );
        }
        outcomes.listed.extend(listed);
        Ok(())
    }

    /// Runs cargo-mutants for the `open` mutants. It skips the mutants in its list of earlier results, which is filled with all
    /// others.
    fn test_mutants(&self, listed: &[String], open: &[String], tests: &areas::Tests) -> Result<()> {
        let passed_over: Vec<&str> =
            listed.iter().filter(|mutant| !open.contains(mutant)).map(String::as_str).collect();
        let list = self.now("previously_caught");
        fs::create_dir_all(list.parent().unwrap_or(&self.output))?;
        fs::write(&list, passed_over.join("\n"))?;
        let mut command = self.cargo_mutants();
        command.args(["--iterate", "--no-shuffle", "--test-tool", "nextest"]);
        command.args(["--timeout", "300", "--build-timeout", "900"]);
        command.args(tests.packages.iter().flat_map(|package| ["--test-package", package]));
        command.args(tests.targets.iter().map(|target| format!("--cargo-arg={target}")));
        command.args(["--", "--max-fail", "1:immediate", "-E", tests.filter]);
        command.env("CARGO_TARGET_DIR", &self.build).env("CARGO_PROFILE_DEV_DEBUG", "false");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match process::run(&mut command) {
            // Some mutants survived or timed out.
            Err(error)
                if matches!(error.downcast_ref().and_then(process::CommandFailed::code), Some(2 | 3)) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn cargo_mutants(&self) -> std::process::Command {
        let mut command = workspace::cargo();
        command.arg("mutants").arg("--output").arg(&self.output).args(["--colors", "never"]);
        command.args(self.part.files.iter().flat_map(|file| ["--file", file]));
        command
    }

    /// Keeps the outcomes of the last run, even an interrupted one, because the next run overwrites the files.
    fn collect_outcomes(&self) -> Result<()> {
        for kind in FINAL_OUTCOMES {
            let known: BTreeSet<String> = self.read(kind).into_iter().chain(read(&self.now(kind))).collect();
            let lines: Vec<String> = known.into_iter().collect();
            fs::write(self.output.join(format!("{kind}.txt")), lines.join("\n"))?;
        }
        let last = self.output.join("mutants.out");
        if last.exists() {
            fs::remove_dir_all(last)?;
        }
        Ok(())
    }

    fn read(&self, kind: &str) -> Vec<String> {
        read(&self.output.join(format!("{kind}.txt")))
    }

    /// Path of an output file of the current run.
    fn now(&self, name: &str) -> PathBuf {
        self.output.join("mutants.out").join(format!("{name}.txt"))
    }
}

/// Returns the lines of a file, or none if the file is absent.
fn read(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_there() {
        let root = workspace::root();
        for part in Area::ALL.iter().flat_map(|area| area.parts()) {
            for file in part.files {
                assert!(root.join(file).is_file(), "{}: {file}", part.name);
            }
        }
    }

    #[test]
    fn shards_have_numbers_from_zero() {
        assert_eq!("3/4".parse::<Shard>().unwrap(), Shard { at: 3, of: 4 });
        for wrong in ["4/4", "0/0", "1", "-1/2", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
