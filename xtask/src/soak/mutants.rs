//! `cargo xtask soak mutants`: cargo-mutants changes the code that decides about access, or records it, at one place after
//! another, and the crates' own tests have to notice. What survives is explained in `data/mutants/`, or is a fault.

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

/// Which mutants are tried.
#[derive(Args)]
pub struct Options {
    /// Of which code; of all of it, when not given.
    #[arg(long)]
    area: Option<Area>,
    /// Of each area every n-th mutant from the k-th on, with k from 0.
    #[arg(long, value_name = "K/N", default_value = "0/1")]
    shard: Shard,
    /// Forget which mutants were noticed in earlier runs. Otherwise they are not tried again, as long as they stand in the
    /// same place.
    #[arg(long)]
    afresh: bool,
}

/// One of so many parts of a list.
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

/// The version whose files are read here.
const VERSION: &str = "27.1.0";
/// What became of mutants that are not tried again, as cargo-mutants names its files. What takes too long is noticed by
/// whoever waits for the tests; the unviable do not compile.
const SETTLED: [&str; 3] = ["caught", "timeout", "unviable"];

/// Tries them.
///
/// # Errors
/// When one survives that is not explained, or one is explained that does not survive; after all areas were looked at.
pub fn run(options: &Options) -> Result<()> {
    if !process::is_installed("cargo-mutants") || !process::is_installed("cargo-nextest") {
        bail!("install what this needs: `cargo install --locked cargo-mutants@{VERSION} cargo-nextest`");
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

/// Mutants of files that the same tests are for.
struct Run<'a> {
    part: &'a Part,
    /// Where they are compiled: what does not change is kept from run to run.
    build: PathBuf,
    output: PathBuf,
    environment: &'a Environment,
}

impl Run<'_> {
    /// Tries those of the shard that are not settled, and adds what became of all that were ever tried.
    fn mutants(&self, shard: Shard, outcomes: &mut Outcomes) -> Result<()> {
        fs::create_dir_all(&self.output)?;
        self.settle()?;
        let listed = process::output_of(self.cargo_mutants().arg("--list"))?;
        let listed: Vec<String> = listed.lines().map(str::to_owned).collect();
        ensure!(!listed.is_empty(), "cargo-mutants finds nothing to change in {:?}", self.part.files);
        let settled: BTreeSet<String> = SETTLED.iter().flat_map(|kind| self.read(kind)).collect();
        let mut open: Vec<String> = listed.iter().skip(shard.at).step_by(shard.of).cloned().collect();
        open.retain(|mutant| !settled.contains(mutant));
        println!("{}: {} of {} mutants are to be tried", self.part.name, open.len(), listed.len());
        // The cheapest tests first; what they do not notice is left to the others.
        for tests in self.part.tests {
            if open.is_empty() {
                break;
            }
            self.try_on(&listed, &open, tests)?;
            open = read(&self.now("missed"));
            self.settle()?;
        }
        outcomes.survived.extend(open);
        for kind in SETTLED {
            outcomes.settled.extend(
                self.read(kind).into_iter().filter(|mutant| listed.contains(mutant)).map(|m| (m, kind)),
            );
        }
        outcomes.listed.extend(listed);
        Ok(())
    }

    /// Has cargo-mutants try these. It passes over what it finds in its own list of earlier runs, in which all others are put.
    fn try_on(&self, listed: &[String], open: &[String], tests: &areas::Tests) -> Result<()> {
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
            // Some survived, or took too long.
            Err(error) if matches!(error.downcast_ref().and_then(process::Failed::code), Some(2 | 3)) => {
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

    /// Keeps what the last run has settled, also one that was ended: the next one writes its files anew.
    fn settle(&self) -> Result<()> {
        for kind in SETTLED {
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

    /// A file of the run that is under way.
    fn now(&self, name: &str) -> PathBuf {
        self.output.join("mutants.out").join(format!("{name}.txt"))
    }
}

/// The lines of a file; none of one that is not there.
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
