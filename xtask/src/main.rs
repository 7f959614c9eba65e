//! Development commands: `cargo xtask demo`, `test`, `soak`, `bench`, `tidy`, `engine`.

mod bench;
mod cache;
mod demo;
mod engine;
mod process;
mod soak;
mod stack;
mod test;
mod tidy;
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
    /// Run the service with sample traces on this machine, and say how to look at it.
    Demo(demo::Options),
    /// Fetch the ClickHouse engine of the local trace store once, and print the path of its library.
    Engine,
    /// Check the repository's rules: dependencies between crates, lints, file sizes, formatting.
    Tidy,
    /// Measure, and write the figures to `docs/benchmarks.md`.
    Bench {
        /// What to measure; everything unless given.
        #[command(subcommand)]
        what: Option<bench::Bench>,
        /// Fail when a bar does not hold.
        #[arg(long, global = true)]
        check: bool,
    },
    /// Run every check and test; with arguments after `--`, only the tests that cargo-nextest selects by them.
    Test {
        /// Arguments for cargo-nextest, or for `cargo test` where it is not installed.
        #[arg(last = true)]
        filters: Vec<String>,
    },
    /// Run one of the tests much longer; `docs/soak.md` keeps the figures.
    #[command(subcommand)]
    Soak(soak::Soak),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Bench { what, check } => bench::run(what.as_ref(), check),
        Command::Engine => print_engine(),
        Command::Tidy => tidy::run(),
        Command::Soak(soak) => soak::run(&soak),
        Command::Test { filters } => test::run(&filters),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_engine() -> Result<()> {
    println!("{}", engine::ensure()?.display());
    Ok(())
}
