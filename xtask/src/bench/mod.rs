//! `cargo xtask bench`: what the service costs on top of the trace store, and what policies cost, measured on this machine
//! and never in tests.

mod policy;
mod streaming;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::stack::{self, Stack};
use crate::{engine, workspace};

/// One benchmark; without one, all of them.
#[derive(Subcommand)]
pub enum Bench {
    /// A page of 200 traces, through the service and straight from the trace store.
    Streaming,
    /// Checking policies and authorising callers.
    Policy,
}

/// Runs the benchmarks and writes what they measured in the place of what was there.
pub fn run(bench: Option<&Bench>) -> Result<()> {
    let streaming = match bench {
        None | Some(Bench::Streaming) => Some(streaming_section()?),
        Some(Bench::Policy) => None,
    };
    let policy = match bench {
        None | Some(Bench::Policy) => Some(policy::run()?),
        Some(Bench::Streaming) => None,
    };
    let path = workspace::root().join("docs/benchmarks.md");
    let held = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let kept = |title: &str| section(&held, title).unwrap_or_default();
    let mut document = String::from(
        "# Benchmarks\n\n`cargo xtask bench` measures on the machine that it runs on and writes this page. The trace store, the service \
         and the client\nshare that machine, so that ratios say more than times.\n\n",
    );
    let _ = writeln!(document, "Cores: {}.\n", std::thread::available_parallelism().map_or(0, usize::from));
    let sections = [
        streaming.clone().unwrap_or_else(|| kept("Streaming")),
        policy.clone().unwrap_or_else(|| kept("Policies")),
    ];
    let sections: Vec<&str> =
        sections.iter().map(|text| text.trim_end()).filter(|text| !text.is_empty()).collect();
    let _ = writeln!(document, "{}", sections.join("\n\n"));
    fs::write(&path, &document).with_context(|| format!("cannot write `{}`", path.display()))?;
    for measured in [streaming, policy].into_iter().flatten() {
        println!("{}", measured.trim_end());
    }
    Ok(())
}

fn streaming_section() -> Result<String> {
    stack::interrupt::install()?;
    let engine = engine::ensure()?;
    let binaries = stack::build()?;
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let mut stack = Stack::start(&binaries, &engine, directory.path())?;
    let measured = streaming::run(&mut stack);
    stack.check()?;
    let section = measured?.markdown();
    stack.stop()?;
    Ok(section)
}

/// The section with this title, heading included.
fn section(document: &str, title: &str) -> Option<String> {
    let (_, after) = document.split_once(&format!("\n## {title}\n"))?;
    let text = after.split_once("\n## ").map_or(after, |(section, _)| section);
    Some(format!("## {title}\n{text}"))
}
