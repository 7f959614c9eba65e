//! Development commands: `cargo xtask demo`, `test`, `verify`, `soak`, `bench`, `screenshots`, `tidy`, `web`, `engine`, `keep-database`.

mod bench;
mod browser;
mod cache;
mod cargo_tool;
mod debian;
mod demo;
mod engine;
mod keep_database;
mod npm;
mod package;
mod process;
mod programs;
mod screenshots;
mod soak;
mod stack;
mod test;
mod tidy;
mod web;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Development commands of Tracewarden.",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service with sample traces on this machine, and print how to use it.
    Demo(demo::Options),
    /// Download the ClickHouse engine of the local store if necessary, and print the path of its library.
    Engine,
    /// Keep the application database of this version, for the upgrade tests of later versions.
    KeepDatabase,
    /// Check the repository's rules: dependencies between crates, lints, file sizes, formatting.
    Tidy,
    /// Run benchmarks, and write the figures to `docs/internals/benchmarks*.md`.
    Bench {
        /// Benchmark to run; all by default.
        #[command(subcommand)]
        what: Option<bench::Bench>,
        /// Fail if a performance target is missed.
        #[arg(long, global = true)]
        check: bool,
    },
    /// Run each test once; with arguments after `--`, only the tests that cargo-nextest selects by them.
    Test {
        /// Run only this part.
        part: Option<test::Part>,
        /// Arguments for cargo-nextest. With a part, arguments for its test runner.
        #[arg(last = true)]
        filters: Vec<String>,
    },
    /// Run the tests that need many repetitions, at full size, and the checks that need builds of their own.
    Verify {
        /// Run only this part.
        part: Option<test::verify::Part>,
        /// Arguments for the part's test runner.
        #[arg(last = true, requires = "part")]
        filters: Vec<String>,
    },
    /// Build the web application into `web/dist` if its sources have changed. The service is built with the content of that
    /// directory.
    Web,
    /// Build the files of a release: an archive with checksums and lists of components.
    Package(package::Options),
    /// Take the screenshots of the web application in `docs/screenshots/`.
    Screenshots {
        /// Names of views; all by default.
        #[arg(last = true)]
        views: Vec<String>,
    },
    /// Run one of the tests much longer. `docs/internals/soak.md` records the results.
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Bench { what, check } => bench::run(what.as_ref(), check),
        Command::Engine => print_engine(),
        Command::KeepDatabase => keep_database::run(),
        Command::Tidy => tidy::run(),
        Command::Package(options) => package::run(&options),
        Command::Screenshots { views } => screenshots::run(&views),
        Command::Soak(options) => soak::run(&options),
        Command::Test { part, filters } => test::run(part, &filters),
        Command::Verify { part, filters } => test::verify::run(part, &filters),
        Command::Web => web::ensure(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let failed = error.downcast_ref::<process::CommandFailed>();
            failed.and_then(process::CommandFailed::code).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn print_engine() -> Result<()> {
    println!("{}", engine::ensure()?.display());
    Ok(())
}
