//! `cargo xtask soak`: tests that `cargo xtask test` also runs, but with many more repetitions, and simulated users that work for
//! hours.

mod clickhouse;
mod fuzz;
mod mutants;
mod users;

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::programs::{self, Profile};
use crate::test::{self, Environment};
use crate::{process, workspace};

/// Options of a soak run.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    soak: Soak,
    /// Use debug builds instead of release builds. Fuzzing and mutants have separate builds.
    #[arg(long, global = true)]
    debug: bool,
}

/// Soak test to run, with its size.
#[derive(Subcommand)]
pub enum Soak {
    /// Kill the service during administrative writes, on SQLite and on PostgreSQL, and check for lost writes.
    Kill {
        /// Number of kills per database.
        #[arg(long, default_value_t = 1_000)]
        rounds: u64,
    },
    /// Race revocations against reads, on two replicas.
    Races {
        /// Number of races.
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
    },
    /// Request forbidden, absent and impossible traces, and compare the response times.
    TraceTiming {
        /// Number of responses of each kind by fetch; half as many by each other endpoint.
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
    },
    /// Compare the SQL of generated policies with the reference evaluator, and check hostile texts as policies.
    Policy {
        /// Number of pairs of a policy and a span.
        #[arg(long, default_value_t = 1_000_000)]
        pairs: u64,
        /// Number of texts.
        #[arg(long, default_value_t = 100_000)]
        texts: u64,
    },
    /// Run the randomised model tests: compare the selection of generated traces with a direct evaluation of the rules.
    DataSets {
        /// Number of generated data sets.
        #[arg(long, default_value_t = 70)]
        data_sets: u64,
    },
    /// Search with every query plan and all kinds of conditions, on the engine and on a ClickHouse server.
    Searches {
        /// Number of searches on each.
        #[arg(long, default_value_t = 20_000)]
        searches: u64,
    },
    /// Run the tests of trace tables, of real servers and of clusters on the engine, on the server of the oldest supported
    /// version, and on an older one, which must be refused.
    Clickhouse {
        /// Number of searches while servers of a cluster fail.
        #[arg(long, default_value_t = 1_000)]
        tries: u64,
    },
    /// Request pages of random windows while spans arrive, and check for incomplete traces.
    Windows {
        /// Number of windows.
        #[arg(long, default_value_t = 100_000)]
        windows: u64,
    },
    /// Fail a write or sync of the SQLite database, or lose a PostgreSQL connection, each in a separate run, and check for lost
    /// writes.
    WriteErrors {
        /// Test every n-th operation.
        #[arg(long, default_value_t = 1)]
        step: u64,
    },
    /// Abort ClickHouse responses, and check what clients receive.
    Cuts {
        /// Distance in bytes between two abort positions in a page; twenty times as many in other responses.
        #[arg(long, default_value_t = 1)]
        step: u64,
    },
    /// Disconnect clients while a response is produced, and check for statements that keep running.
    ClientDisconnects {
        /// Number of client disconnects.
        #[arg(long, default_value_t = 100)]
        rounds: u64,
    },
    /// Send requests that are generated from the OpenAPI document.
    Conformance {
        /// Number of requests for each operation and phase.
        #[arg(long, default_value_t = 1_000)]
        examples: u64,
    },
    /// Fuzz the parsers with coverage-guided inputs.
    Fuzz(fuzz::Options),
    /// Mutate the code that authorises access and writes audit records, and check that a test detects each mutation.
    Mutants(mutants::Options),
    /// Simulate users on two replicas while all programs are restarted, and compare the responses with the users' policies.
    Users(users::Options),
}

/// A test, and the environment variable that sets its number of repetitions.
struct Run {
    name: &'static str,
    count: u64,
    of: &'static str,
    variable: &'static str,
    package: &'static str,
    /// Cargo arguments that select the test executable.
    target: &'static [&'static str],
    filter: &'static str,
}

impl Soak {
    /// Returns the tests to run with more repetitions. Users, fuzz targets and mutants are run differently.
    fn runs(&self) -> Vec<Run> {
        const SERVICE: &str = "tracewarden";
        const STORE: &str = "tracewarden-clickhouse";
        let run = |name, count, of, variable, package, target, filter| Run {
            name,
            count,
            of,
            variable,
            package,
            target,
            filter,
        };
        let (suite, api): (&[_], &[_]) = (&["--test", "suite"], &["--test", "api"]);
        let one = match self {
            Self::Users(_) | Self::Fuzz(_) | Self::Mutants(_) | Self::Clickhouse { .. } => return Vec::new(),
            Self::Kill { rounds } => {
                let of = "kills on each database";
                run("kill", *rounds, of, "TRACEWARDEN_TEST_KILLS", SERVICE, suite, "replicas::kill::")
            }
            Self::Races { rounds } => {
                run("races", *rounds, "races", "TRACEWARDEN_TEST_RACES", SERVICE, suite, "replicas::races::")
            }
            Self::TraceTiming { rounds } => {
                let (variable, filter) = ("TRACEWARDEN_TEST_TRACE_TIMINGS", "trace_timing::not_found::");
                run("trace-timing", *rounds, "of each kind", variable, SERVICE, suite, filter)
            }
            Self::Policy { pairs, texts } => {
                let of = |count, of, variable, package, target, filter| {
                    run("policy", count, of, variable, package, target, filter)
                };
                let (pair, text) = ("TRACEWARDEN_TEST_PAIRS", "TRACEWARDEN_TEST_TEXTS");
                return vec![
                    of(
                        *pairs,
                        "pairs of policy and span",
                        pair,
                        STORE,
                        &["--lib"],
                        "agreement::differential::pairs::",
                    ),
                    of(
                        *texts,
                        "texts",
                        text,
                        "tracewarden-policy",
                        suite,
                        "hostile::hostile_text_is_answered",
                    ),
                ];
            }
            Self::DataSets { data_sets } => {
                let of = |package, target, filter| {
                    run(
                        "data-sets",
                        *data_sets,
                        "data sets",
                        "TRACEWARDEN_TEST_DATA_SETS",
                        package,
                        target,
                        filter,
                    )
                };
                return vec![
                    of(STORE, &["--lib"], "agreement::randomized_tests::selection_follows"),
                    of(SERVICE, suite, "mcp::randomized_tests::"),
                    of(SERVICE, suite, "explanations::"),
                ];
            }
            Self::Searches { searches } => {
                let (variable, filter) = ("TRACEWARDEN_TEST_SEARCHES", "search::plan::tests::searches::");
                run("searches", *searches, "searches on each store", variable, STORE, &["--lib"], filter)
            }
            Self::Windows { windows } => {
                let (variable, filter) =
                    ("TRACEWARDEN_TEST_WINDOWS", "agreement::randomized_tests::windows::");
                run("windows", *windows, "windows", variable, STORE, &["--lib"], filter)
            }
            Self::WriteErrors { step } => {
                let (of, filter) = ("operations between errors", "operations::write_errors::");
                run("write-errors", *step, of, "TRACEWARDEN_TEST_WRITE_ERROR_STEP", SERVICE, suite, filter)
            }
            Self::Cuts { step } => {
                let (of, filter) = ("bytes between aborts", "end_to_end::cuts::");
                run("cuts", *step, of, "TRACEWARDEN_TEST_CUT_STEP", SERVICE, suite, filter)
            }
            Self::ClientDisconnects { rounds } => {
                let (variable, filter) =
                    ("TRACEWARDEN_TEST_CLIENT_DISCONNECTS", "end_to_end::client_disconnects::");
                run("client-disconnects", *rounds, "disconnects", variable, SERVICE, suite, filter)
            }
            Self::Conformance { examples } => {
                let of = "examples for each operation and phase";
                run("conformance", *examples, of, "TRACEWARDEN_TEST_EXAMPLES", SERVICE, api, "conformance::")
            }
        };
        vec![one]
    }
}

/// Runs a soak test. The output of the test is shown immediately.
pub fn run(Options { soak, debug }: &Options) -> Result<()> {
    match soak {
        Soak::Users(options) => return users::run(options, *debug),
        Soak::Mutants(_) | Soak::Fuzz(_) if *debug => {
            bail!("fuzzing and mutants use separate builds; leave `--debug` out")
        }
        Soak::Mutants(options) => return mutants::run(options),
        Soak::Fuzz(options) => return fuzz::run(options),
        _ => {}
    }
    let mut environment = Environment::new();
    // Tests build the service themselves, with other features of its dependencies.
    let store = || programs::build(Profile::Release, &["tracewarden-localstore"]).map(drop);
    let build = || if *debug { test::build() } else { store() };
    let _prepared = test::prepare(&mut environment, build)?;
    if let Soak::Clickhouse { tries } = soak {
        return clickhouse::run(&environment, *tries, *debug);
    }
    for run in soak.runs() {
        run.repeat(&environment, *debug)?;
    }
    Ok(())
}

impl Run {
    fn repeat(&self, environment: &Environment, debug: bool) -> Result<()> {
        let what = format!("{}: {} {}", self.name, self.count, self.of);
        let (count, target) = (self.count.to_string(), [&["--package", self.package], self.target].concat());
        run_test(&what, &target, &[self.filter], &[(self.variable, &count)], environment, debug)
    }
}

/// Builds a test executable and runs its tests that the filter selects, one at a time.
fn run_test(
    what: &str,
    target: &[&str],
    filter: &[&str],
    variables: &[(&str, &str)],
    environment: &Environment,
    debug: bool,
) -> Result<()> {
    let mut test = vec!["test", "--quiet"];
    test.extend(target);
    test.extend(if debug { None } else { Some("--release") });
    process::run(workspace::cargo().args(&test).arg("--no-run"))?;
    let begun = Instant::now();
    let mut command = workspace::cargo();
    command.args(&test).args(["--", "--nocapture", "--test-threads=1"]).args(filter);
    command.envs(environment.iter().map(|(name, value)| (name, value))).envs(variables.iter().copied());
    let outcome = process::run(&mut command);
    let word = if outcome.is_ok() { "ok    " } else { "FAILED" };
    println!("{word}  soak {what} in {:.0} s", begun.elapsed().as_secs_f64());
    outcome
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_variables_are_those_that_the_tests_read() {
        let soaks = [
            Soak::Kill { rounds: 1 },
            Soak::Races { rounds: 1 },
            Soak::TraceTiming { rounds: 1 },
            Soak::Policy { pairs: 1, texts: 1 },
            Soak::DataSets { data_sets: 1 },
            Soak::Searches { searches: 1 },
            Soak::Windows { windows: 1 },
            Soak::WriteErrors { step: 1 },
            Soak::Cuts { step: 1 },
            Soak::ClientDisconnects { rounds: 1 },
            Soak::Conformance { examples: 1 },
        ];
        for run in soaks.iter().flat_map(Soak::runs) {
            let package = workspace::root().join("crates").join(run.package.replace("tracewarden-", ""));
            let directories: &[&str] = match run.target {
                ["--test", "suite"] => &["tests", "tests/suite"],
                ["--test", name] => &[&format!("tests/{name}")],
                _ => &["src"],
            };
            let (module, _) = run.filter.rsplit_once("::").unwrap();
            let module = module.replace("::", "/");
            let files = directories.iter().flat_map(|directory| {
                ["", "/mod"].map(|end| package.join(directory).join(format!("{module}{end}.rs")))
            });
            let text = files.filter_map(|file| fs::read_to_string(file).ok()).next();
            let text = text.unwrap_or_else(|| panic!("no module `{module}` in `{}`", package.display()));
            assert!(text.contains(run.variable), "`{module}` does not read `{}`", run.variable);
        }
    }
}
