//! `cargo xtask bench`: measures the cost of finding and reading traces, the service's overhead over ClickHouse, and the cost of
//! policies and models. It measures the local machine and never runs in tests.

mod audit;
mod clickhouse;
mod conditions;
mod interleaved;
mod layouts;
mod load;
mod log;
mod model;
mod numbers;
mod policy;
mod rows;
mod search;
mod service;
mod small_answers;
mod statistics;
mod store;
mod streaming;
mod targets;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::programs::Profile;
use crate::stack::{self, Stack};
use crate::{engine, workspace};
use targets::Target;

/// A benchmark to run; all of them by default.
#[derive(Subcommand)]
pub enum Bench {
    /// Finding traces through the service and with hand-written statements.
    Search(search::Options),
    /// Previewing a change of a role.
    Previews(search::Options),
    /// Searches with several conditions, through the service and with hand-written statements.
    Conditions(conditions::Options),
    /// Counts, values, whole pages and role previews, through the service and with hand-written statements.
    Statistics(statistics::Options),
    /// Searches in the layouts of Jaeger and SigNoz, through the service and with hand-written statements.
    Layouts(layouts::Options),
    /// A page of 200 traces, through the service and directly from ClickHouse.
    Streaming,
    /// Small responses per second, on one core.
    SmallAnswers,
    /// Audit records of concurrent reads.
    Audit,
    /// Checking policies and authorising callers.
    Policy,
    /// Planning and applying a whole access model.
    Model,
}

/// A section of the benchmark document.
pub struct Section {
    title: &'static str,
    /// Markdown text including the heading.
    text: String,
    targets: Vec<Target>,
}

/// The documents in `docs/internals`: file name, title, and titles of the sections in order.
const DOCUMENTS: [(&str, &str, &[&str]); 2] = [
    (
        "benchmarks.md",
        "Benchmarks",
        &[
            "Searching",
            layouts::TITLE,
            statistics::TITLE,
            "Previews",
            "Streaming",
            "Small answers",
            audit::TITLE,
            "Policies",
            "Access model",
        ],
    ),
    (
        "benchmarks-conditions.md",
        "Benchmarks: several conditions",
        &[conditions::TITLE, conditions::CURVE_TITLE],
    ),
];

/// Runs the benchmarks and replaces the measured sections of the document. With `check`, a missed target is an error.
pub fn run(bench: Option<&Bench>, check: bool) -> Result<()> {
    stack::interrupt::install()?;
    let plain = |title, text| Section { title, text, targets: Vec::new() };
    let mut measured = Vec::new();
    match bench {
        Some(Bench::Search(options)) => measured.extend(search::run(options)?),
        Some(Bench::Previews(options)) => measured.push(search::previews(options)?),
        Some(Bench::Conditions(options)) => measured.extend(conditions::run(options)?),
        Some(Bench::Statistics(options)) => measured.extend(statistics::run(options)?),
        Some(Bench::Layouts(options)) => measured.extend(layouts::run(options)?),
        Some(Bench::Streaming) => measured.push(streaming_section()?),
        Some(Bench::SmallAnswers) => measured.push(small_answers::section()?),
        Some(Bench::Audit) => measured.push(audit::section()?),
        Some(Bench::Policy) => measured.push(plain("Policies", policy::run()?)),
        Some(Bench::Model) => measured.push(model::section()?),
        None => {
            // The shortest benchmark runs first, so that its errors appear early.
            measured.push(plain("Policies", policy::run()?));
            measured.push(model::section()?);
            measured.push(small_answers::section()?);
            measured.push(audit::section()?);
            measured.push(streaming_section()?);
            measured.extend(search::run(&search::Options::default())?);
            measured.push(search::previews(&search::Options::default())?);
            measured.extend(conditions::run(&conditions::Options::default())?);
            measured.extend(layouts::run(&layouts::Options::default())?);
            measured.extend(statistics::run(&statistics::Options::default())?);
        }
    }
    if measured.is_empty() {
        return Ok(());
    }
    write(&measured)?;
    for section in &measured {
        println!("{}", section.text.trim_end());
    }
    let missed: Vec<&str> = measured
        .iter()
        .flat_map(|section| &section.targets)
        .filter(|target| !target.is_met)
        .map(Target::what)
        .collect();
    ensure!(!check || missed.is_empty(), "missed targets: {}", missed.join("; "));
    Ok(())
}

/// Writes the documents. Sections that were not measured stay unchanged.
fn write(measured: &[Section]) -> Result<()> {
    for (name, title, titles) in DOCUMENTS {
        if measured.iter().any(|section| titles.contains(&section.title)) {
            write_document(name, title, titles, measured)?;
        }
    }
    Ok(())
}

fn write_document(name: &str, title: &str, titles: &[&str], measured: &[Section]) -> Result<()> {
    let path = workspace::root().join("docs/internals").join(name);
    let stored = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut document = format!(
        "# {title}\n\n`cargo xtask bench` measures on the machine that it runs on and writes this page; \
         with `--check`, it fails if a target is missed.\nClickHouse, the service and the client share that \
         machine, so ratios mean more than times.\n\n"
    );
    let _ = writeln!(document, "Cores: {}.\n", std::thread::available_parallelism().map_or(0, usize::from));
    let sections: Vec<String> = titles
        .iter()
        .filter_map(|title| {
            let new = measured.iter().find(|section| section.title == *title);
            new.map(|section| section.text.clone()).or_else(|| section(&stored, title))
        })
        .collect();
    let sections: Vec<&str> =
        sections.iter().map(|text| text.trim_end()).filter(|text| !text.is_empty()).collect();
    let _ = writeln!(document, "{}", sections.join("\n\n"));
    fs::write(&path, &document).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Returns the directory of the programs to measure: the given one, or that of a new build.
fn programs(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        // The programs are started in another directory, so the path must be absolute.
        Some(given) => {
            given.canonicalize().with_context(|| format!("cannot find the directory `{}`", given.display()))
        }
        None => stack::build(Profile::Release),
    }
}

fn streaming_section() -> Result<Section> {
    let engine = engine::ensure()?;
    let binaries = stack::build(Profile::Release)?;
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let mut stack = Stack::start(&binaries, &engine, directory.path(), &[])?;
    let measured = streaming::run(&mut stack);
    stack.check()?;
    let section = measured?.section();
    stack.stop()?;
    Ok(section)
}

/// Returns the section with this title, including the heading.
fn section(document: &str, title: &str) -> Option<String> {
    let (_, after) = document.split_once(&format!("\n## {title}\n"))?;
    let text = after.split_once("\n## ").map_or(after, |(section, _)| section);
    Some(format!("## {title}\n{text}"))
}
